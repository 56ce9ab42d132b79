/* SPDX-License-Identifier: MIT */
/*
 * The files that ckptfs keeps on the backing besides the users' own (ckptfs-format(5)):
 *
 *	BACKING/.ckptfs/version.json	{"ckptfs": FORMAT, "uuid": "...", "created_ns": N}
 *	BACKING/.ckptfs/txn/ nodes/	1777: each owner makes their own entries
 *
 * No lock: several nodes may make the tree at once.
 */
#ifndef ENGINE_FORMAT_FORMAT_H
#define ENGINE_FORMAT_FORMAT_H

#include <stdbool.h>

#include "engine/base/message.h"

#define FORMAT_VERSION 1
#define FORMAT_DIR     ".ckptfs"
#define FORMAT_FILE    "version.json"
#define FORMAT_TXN     "txn"	 /* records: coord.h */
#define FORMAT_NODES   "nodes"	 /* leases: coord.h */
#define FORMAT_DIGESTS "digests" /* digest_record.h */

struct format {
	bool present;  /* false: version.json is missing (and could not be made) */
	char uuid[37]; /* "" if not present */
};

/*
 * Makes the missing parts of the tree below the directory @root_fd, and leaves existing ones as
 * they are. @path is for messages. Returns 0 or -errno with @e filled.
 */
int format_init(int root_fd, const char *path, struct error *e);

/*
 * Reads and validates version.json. If it is missing, f->present is false and there is no error.
 * Returns 0 or -errno with @e filled (newer format, damaged file, .ckptfs a symbolic link).
 */
int format_read(int root_fd, const char *path, struct format *f, struct error *e);

/* Validates the text of a version.json. Returns NULL, or what is wrong. Public for the fuzzer. */
const char *format_parse(const char *text, size_t len, struct format *f, long long *version);

/* Refuses a directory below another ckptfs backing. Returns 0, -EBUSY, or -errno; @e filled. */
int format_check_nested(int root_fd, const char *path, struct error *e);

#endif
