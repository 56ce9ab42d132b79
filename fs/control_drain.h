/* SPDX-License-Identifier: MIT */
/* The daemon's side of `ckptfs drain`. */
#ifndef FS_CONTROL_DRAIN_H
#define FS_CONTROL_DRAIN_H

#include <jansson.h>

#include "fs/fs.h"

/*
 * Request: {"job": KEY or absent, "since_ns": from the previous answer or absent, "limit_ms": N}.
 * Waits up to the limit for the units that @uid may drain: all, for root and the user who mounted.
 * Answer: that of units_drain_to_json, with "since_ns", and "flushed_bytes" of the whole mount.
 * Never touches the backing.
 */
json_t *control_drain(struct fs *fs, uid_t uid, const json_t *request);

#endif
