/* SPDX-License-Identifier: MIT */
/*
 * UNIT/.view/SPEC/FILE: views (engine/views) in the mount. `.view` is in each directory that is not
 * being saved, found by lookup and not listed; so is a SPEC in it. A view is made when its SPEC is
 * looked up, and anew when the directory has changed since.
 *
 *	.view/index.json the index of all its tensors (engine/tensors/stored.h)
 *	.view/why	what cannot be shown of all that there is; or why the last SPEC was refused
 *	.view/SPEC/why	the same for that view
 *	.view/SPEC/...	its files, and links to config.json and the like
 *
 * A program that opens a file of a view opens the files that have its bytes, with its own rights.
 * These stay open as long as that (view_files.h), so it can read on after the unit was removed.
 *
 * The lock of the table guards the nodes and what they count; a view itself does not change.
 */
#ifndef FS_VIEWS_H
#define FS_VIEWS_H

#include "fs/control_dir.h"
#include "fs/fs.h"

#define VIEWS_NAME  ".view"
#define VIEWS_FIRST 0xFFFFFFF000000000ull /* ids from here up to CONTROL_DIR_ID */

struct views;

static inline bool views_is(uint64_t id)
{
	return id >= VIEWS_FIRST && id < CONTROL_DIR_ID;
}

/* NULL: no memory. @fs outlives it. */
struct views *views_create(struct fs *fs);
void views_destroy(struct views *vs); /* accepts NULL */

/*
 * Replies to the lookup of `.view` in @dir. False: that has none, and nothing was replied. The
 * backing has nothing of that name.
 */
bool views_lookup_top(fuse_req_t req, struct node *dir);

/* The FUSE operations on nodes of views; each sends a reply, but for forget. */
void views_lookup(fuse_req_t req, uint64_t parent, const char *name);
void views_forget(struct fs *fs, uint64_t id, uint64_t count);
void views_getattr(fuse_req_t req, uint64_t id);
void views_readlink(fuse_req_t req, uint64_t id);
void views_readdir(fuse_req_t req, uint64_t id, size_t size, off_t off);
void views_open(fuse_req_t req, uint64_t id, struct fuse_file_info *fi);
void views_read(fuse_req_t req, size_t size, off_t off, struct fuse_file_info *fi);
void views_release(fuse_req_t req, struct fuse_file_info *fi);

#endif
