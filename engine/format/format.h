/* SPDX-License-Identifier: MIT */
/*
 * What ckptfs keeps on the backing besides the users' own files (DESIGN 4, "layout"):
 *
 *	BACKING/.ckptfs/version.json	{"ckptfs": FORMAT, "uuid": "...", "created_ns": N}
 *	BACKING/.ckptfs/txn/ nodes/	1777: each owner makes their own entries
 */
#ifndef ENGINE_FORMAT_FORMAT_H
#define ENGINE_FORMAT_FORMAT_H

#include <stdbool.h>

#include "engine/base/message.h"

#define FORMAT_VERSION 1
#define FORMAT_DIR     ".ckptfs"
#define FORMAT_FILE    "version.json"

struct format {
	bool present;  /* false: no version.json there (and it could not be made) */
	char uuid[37]; /* "" where not present */
};

/*
 * Makes what is missing of the tree below the directory @root_fd; an existing one stays as it is.
 * @path is for messages. Returns 0 or -errno with @e filled.
 */
int format_init(int root_fd, const char *path, struct error *e);

/*
 * Reads and validates version.json. A missing one is no error: f->present says. Returns 0 or
 * -errno with @e filled (newer format, damaged file, .ckptfs a symbolic link).
 */
int format_read(int root_fd, const char *path, struct format *f, struct error *e);

/*
 * Validates the text of a version.json. Returns NULL, or what is wrong with it. For the fuzzer too.
 */
const char *format_parse(const char *text, size_t len, struct format *f, long long *version);

/*
 * Refuses a directory below another ckptfs backing. Returns 0, -EBUSY, or -errno
 * of the walk; @e filled.
 */
int format_check_nested(int root_fd, const char *path, struct error *e);

#endif
