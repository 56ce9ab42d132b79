/* SPDX-License-Identifier: MIT */
/*
 * How a file is opened: through the daemon, the page cache, or the kernel's passthrough. All opens
 * of a node share one mode, guarded by the tree lock, which is not held while the kernel is asked.
 * data.h moves the bytes.
 */
#ifndef FS_OPEN_H
#define FS_OPEN_H

#include "fs/fs.h"

/*
 * Counts @h as one more open of its node and decides its mode (enum io_mode). Fills in @fi, and
 * what else the reply needs. open_end undoes it.
 */
void open_begin(struct fs *fs, struct handle *h, const struct statx *stx,
		struct fuse_file_info *fi);
void open_end(struct fs *fs, struct node *n);

#endif
