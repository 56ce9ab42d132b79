/* SPDX-License-Identifier: MIT */
/*
 * The place of a file's digest record: the extended attribute DIGEST_XATTR. On a backing without
 * user.* attributes, a checkpoint that is one file has a record file:
 *
 *	BACKING/.ckptfs/digests/UID/INODE
 *
 * digest_record.h has both texts. UID is the owner of the recorded file. Every user may
 * write to `digests`. A record counts only if the record file and the directory UID belong to that
 * owner or to root: no user can forge a record of another user. If another user has put something
 * in the place of the directory UID, a root daemon moves it away. A daemon of an ordinary user
 * cannot, and then makes no records.
 *
 * A record is true only while the file has the size and the time of change in the record, so a
 * leftover record does no harm. The daemon makes the record before the file gets its name. It
 * replaces a record of the same inode number, and removes the record after this mount has replaced
 * or removed the file (recorded_hold).
 */
#ifndef ENGINE_CONTENT_RECORDED_H
#define ENGINE_CONTENT_RECORDED_H

#include <stdbool.h>
#include <sys/types.h>

#include "engine/backing/backing.h"
#include "engine/content/digest.h"

/* As backing_getxattr of DIGEST_XATTR. -ENODATA: neither place has a record. @fd may be a pin. */
ssize_t recorded_get(struct backing *b, int fd, char *buf, size_t size);

/* True if *@hex is the digest of the file @fd: its record has the size and time in *@stx. */
bool recorded_valid(struct backing *b, int fd, const struct statx *stx, char hex[DIGEST_HEX]);

/*
 * Records @text for the file @fd, durably or with the file's next sync. @owner saves the file.
 * @file permits a record file, else only the attribute is used. Everyone who may read the file may
 * read the record file, if its owner can give it the same group. Returns 0 also if no record can be
 * made.
 */
int recorded_put(struct backing *b, const struct caller *owner, int fd, const char *text,
		 bool file);

/* Removes the record of the file @fd, whose content is about to change. */
void recorded_drop(struct backing *b, int fd);

/*
 * Called before the file @name in @dir is replaced or removed. If a record file may go with that
 * name, returns a pin of the file, and its *@stx for recorded_forget; else -errno. While the pin is
 * open, a local filesystem reuses the inode number for no other file, which could have a record by
 * then.
 */
int recorded_hold(struct backing *b, int dir, const char *name, struct statx *stx);

/* Removes the record of the file of *@stx, but not another file's with that inode number. */
void recorded_forget(struct backing *b, const struct statx *stx);

#endif
