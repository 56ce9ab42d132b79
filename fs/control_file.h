/* SPDX-License-Identifier: MIT */
/*
 * What the daemon answers verbs about one path, for `status`, `why`, `wait` and `commit`. Names are
 * looked up as the caller, on the backing, so a call may hang when the backing does. No lock is
 * held meanwhile.
 */
#ifndef FS_CONTROL_FILE_H
#define FS_CONTROL_FILE_H

#include <jansson.h>

#include "client/ckptfs_abi.h"
#include "fs/fs.h"

/*
 * Describes @path, below the mount point, as far as @c could look it up: {"kind":
 * "directory"|"unit"|"part"|"file"|"absent"|"unreadable", "path", "state", ...}, and what
 * units_describe says of the generation (@generation; NULL: the newest). The state of a file that
 * no rule claims is "ordinary", that of a unit that no mount saved is "foreign".
 */
json_t *control_file(struct fs *fs, const struct caller *c, const char *path,
		     const char *generation);

/*
 * The state of @file, an answer of control_file, in the ABI's words. Only CKPTFS_CAPTURED, _DURABLE
 * and _COMMITTED say that a step was reached.
 */
enum ckptfs_state control_state(const json_t *file);

/* Why it failed, or what it waits for. */
const char *control_reason(const json_t *file);

/*
 * Commits the checkpoint at @path without waiting for the rest of its rule's evidence. @abandon:
 * fails it instead. {} or an error. Only its owner, root and the user who mounted may.
 */
json_t *control_commit(struct fs *fs, const struct caller *c, const char *path, bool abandon);

#endif
