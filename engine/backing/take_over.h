/* SPDX-License-Identifier: MIT */
/*
 * Copies to a new inode what a program expects of the inode that it replaces: owner, mode, ACL,
 * extended attributes, and the bytes on demand.
 *
 * Assumes that the handle acts as a user that may set all of that, usually as the daemon. What a
 * filesystem or ckptfs notes about one inode alone is not copied (is_inherited).
 */
#ifndef ENGINE_BACKING_TAKE_OVER_H
#define ENGINE_BACKING_TAKE_OVER_H

#include <stdbool.h>

#include "engine/backing/backing.h"

/*
 * Gives @fd mode, owner, ACL and attributes of @old, with stat @was; with @copy bytes, too. 0,
 * -EINTR or another -errno.
 */
int backing_take_over(struct backing *b, int old, int fd, const struct statx *was, bool copy);

#endif
