/* SPDX-License-Identifier: MIT */
/* What the daemon tells the verbs of one path: for `status`, `why` and `wait`. */
#ifndef FS_CONTROL_FILE_H
#define FS_CONTROL_FILE_H

#include <jansson.h>

#include "client/ckptfs_abi.h"
#include "fs/fs.h"

/*
 * Of @path below the mount point, as far as @c could look it up himself: {"kind":
 * "directory"|"unit"|"part"|"file"|"absent"|"unreadable", "path", "state", ...}, with what
 * units_describe says of a generation (@generation: of that one; NULL: of the newest). The state of
 * a file that no rule claims is "ordinary", that of what no mount has saved "foreign". Touches the
 * backing, so it may hang when that does.
 */
json_t *control_file(struct fs *fs, const struct caller *c, const char *path,
		     const char *generation);

/*
 * How far it has come with what control_file says of, by the ABI's words. Only what is
 * CKPTFS_CAPTURED, _DURABLE or _COMMITTED has come so far; the others are none of it.
 */
enum ckptfs_state control_state(const json_t *file);

/* Why it failed, or what it waits for. */
const char *control_reason(const json_t *file);

/*
 * Commits the checkpoint at @path, or the one that a file at @path is in, whatever its rule still
 * waits for; @abandon: fails it instead. {} or an error; only its owner and root may.
 */
json_t *control_commit(struct fs *fs, const struct caller *c, const char *path, bool abandon);

#endif
