/* SPDX-License-Identifier: MIT */
/*
 * Where the digest record of a file lies: in its extended attribute DIGEST_XATTR. On a backing
 * without user.* attributes, a checkpoint that is one file has a record file:
 *
 * 	BACKING/.ckptfs/digests/UID/INODE	the text of the attribute and a newline
 *
 * UID is the owner of the recorded file, INODE its inode number in hexadecimal. Every user may
 * write to `digests`. A record counts only if the record file and the directory UID belong to that
 * owner or to root: no user can forge a record of another user. A root daemon moves away what
 * another user has put in the place of the directory UID; a daemon of an ordinary user cannot, and
 * makes no records then.
 *
 * A record is true only while the file has the size and the time of change that the record names,
 * so a record that is left behind does no harm. The daemon makes the record before the file gets
 * its name. It replaces a record of the same inode number, and removes the record after this mount
 * has replaced or removed the file (recorded_hold).
 */
#ifndef ENGINE_CONTENT_RECORDED_H
#define ENGINE_CONTENT_RECORDED_H

#include <stdbool.h>
#include <sys/types.h>

#include "engine/backing/backing.h"
#include "engine/content/digest.h"

#define RECORDED_DIR "digests"

/* The text of a record file, with the NUL. */
#define RECORDED_MAX (DIGEST_RECORD_MAX + 1)

/* The name of the file of a record. */
#define RECORDED_NAME_MAX 20
void recorded_name(char name[RECORDED_NAME_MAX], uint64_t inode);

/* The length of the record in the text of a record file, or -EINVAL: it holds something else. */
int recorded_check(const char *text, size_t len);

/* As backing_getxattr of DIGEST_XATTR. -ENODATA: neither place has a record. @fd may be a pin. */
ssize_t recorded_get(struct backing *b, int fd, char *buf, size_t size);

/*
 * True if the file @fd has a record of the size and time of change in *@stx; its digest is *@hex
 * then.
 */
bool recorded_valid(struct backing *b, int fd, const struct statx *stx, char hex[DIGEST_HEX]);

/*
 * Records @text for the file @fd, durably or with the file's next sync. @owner saves the file.
 * @file: a record file may be made, else only the attribute. All who may read the file may read the
 * record file, as far as the owner can give it the same group. Returns 0 also if nothing can be
 * recorded.
 */
int recorded_put(struct backing *b, const struct caller *owner, int fd, const char *text,
		 bool file);

/* Removes the record of the file @fd, whose content is about to change. */
void recorded_drop(struct backing *b, int fd);

/*
 * To be called before the file @name in @dir is replaced or removed. If a record file may go with
 * that name, returns a pin of the file, and *@stx of it, for recorded_forget; else -errno. As long
 * as the pin is open, a local filesystem gives the inode number to no other file, which may have a
 * record by then.
 */
int recorded_hold(struct backing *b, int dir, const char *name, struct statx *stx);

/*
 * Removes the record of the file that *@stx was of. The record of another file with that inode
 * number stays.
 */
void recorded_forget(struct backing *b, const struct statx *stx);

#endif
