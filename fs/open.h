/* SPDX-License-Identifier: MIT */
/* How a file is opened: through the daemon, the page cache, or the kernel's passthrough. */
#ifndef FS_OPEN_H
#define FS_OPEN_H

#include "fs/fs.h"

/*
 * Enters @h as one more open of its node and decides its mode (enum io_mode), filling in @fi and
 * whatever has to be added to the reply. Undo with open_end.
 */
void open_begin(struct fs *fs, struct handle *h, const struct statx *stx,
		struct fuse_file_info *fi);
void open_end(struct fs *fs, struct node *n);

#endif
