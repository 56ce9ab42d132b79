/* SPDX-License-Identifier: MIT */
/*
 * MOUNT/.ckptfs, the control directory: a table of generated read-only files, `ctl`, and one-time
 * sockets. The kernel finds it by lookup; no listing shows it. It hides the backing's directory of
 * the same name. The text of a file is made at its open and belongs to that handle, so no lock is
 * needed.
 */
#ifndef FS_CONTROL_DIR_H
#define FS_CONTROL_DIR_H

#include <string.h>

#include "client/ckptfs_abi.h"
#include "fs/fs.h"

#define CONTROL_DIR_NAME CKPTFS_CONTROL_DIR
#define CONTROL_DIR_ID	 0xFFFFFFFF00000000ull /* the ids of its files follow */
#define CONTROL_CTL_ID	 (CONTROL_DIR_ID + 0x1000)
#define CONTROL_SOCKETS	 (CONTROL_DIR_ID + 0x10000) /* plus a hash of the socket's name */

static inline bool control_is(uint64_t id)
{
	return id >= CONTROL_DIR_ID;
}

static inline bool control_is_name(uint64_t parent, const char *name)
{
	return parent == NODE_ROOT && !strcmp(name, CONTROL_DIR_NAME);
}

/* The FUSE operations on it; each sends a reply. */
void control_lookup(fuse_req_t req, uint64_t parent, const char *name);
void control_getattr(fuse_req_t req, uint64_t id);
/* Makes sockets only, and only for the daemon itself, when a session waits for that one. */
void control_mknod(fuse_req_t req, const char *name, mode_t mode);
void control_open(fuse_req_t req, uint64_t id, struct fuse_file_info *fi);
void control_read(fuse_req_t req, size_t size, off_t off, struct fuse_file_info *fi);
void control_release(fuse_req_t req, struct fuse_file_info *fi);
void control_opendir(fuse_req_t req, struct fuse_file_info *fi);
void control_readdir(fuse_req_t req, size_t size, off_t off);

/* The content of `status.json` and the answer to "status", limited to what @viewer may see. */
json_t *control_status(struct fs *fs, uid_t viewer);

#endif
