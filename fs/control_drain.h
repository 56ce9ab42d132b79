/* SPDX-License-Identifier: MIT */
/* What the daemon does for `ckptfs drain`. */
#ifndef FS_CONTROL_DRAIN_H
#define FS_CONTROL_DRAIN_H

#include <jansson.h>

#include "fs/fs.h"

/*
 * {"job": KEY or absent, "since_ns": of the answer before or absent, "limit_ms": N}: waits until
 * then for what @uid may drain, all of it for root and for who mounted; what units_drain_to_json
 * says, with "since_ns", and "flushed_bytes" of the whole mount. Never touches the backing.
 */
json_t *control_drain(struct fs *fs, uid_t uid, const json_t *request);

#endif
