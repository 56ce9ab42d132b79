/* SPDX-License-Identifier: MIT */
/* What the daemon tells the verbs of one path: for `status`, `why` and `wait`. */
#ifndef FS_CONTROL_FILE_H
#define FS_CONTROL_FILE_H

#include <jansson.h>

#include "fs/fs.h"

/*
 * Of @path below the mount point, as far as @c could look it up himself:
 * {"kind": "directory"|"unit"|"file"|"absent"|"unreadable", "path", "state", ...}, with what units_describe
 * says of a generation (@generation: of that one; NULL: of the newest). Touches the backing, so
 * it may hang when that does.
 */
json_t *control_file(struct fs *fs, const struct caller *c, const char *path,
		     const char *generation);

/*
 * Commits the checkpoint at @path, or the one that a file at @path is in, whatever its rule still waits
 * for; @abandon: fails it instead. {} or an error; only its owner and root may.
 */
json_t *control_commit(struct fs *fs, const struct caller *c, const char *path, bool abandon);

#endif
