/* SPDX-License-Identifier: MIT */
/*
 * One mounted filesystem: the state and the helpers that its FUSE handlers share. A field is const
 * once the mount is ready, unless it is atomic or its comment names a lock.
 */
#ifndef FS_FS_H
#define FS_FS_H

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "engine/backing/backing.h"
#include "engine/base/lock.h"
#include "engine/content/content.h"
#include "engine/engine.h"
#include "fs/requests.h"
#include "fs/tree.h"

/* copied_commit.h */
#define COPIED_COMMITS_KEPT 32

struct copied_commit {
	struct inode_id dir;
	char name[NAME_MAX + 1]; /* "": free */
	int fd;
};

#define ORDINARY_KEPT 64

struct fs {
	struct engine *engine;
	struct tree *tree;
	struct requests *requests;
	struct views *views; /* views.h */
	struct fuse_session *session;
	const char *mountpoint; /* absolute */
	unsigned major, minor;	/* its device number, set at the mount */
	const char *label;	/* names this mount, for people */
	/* data.c: room on the backing when it was last asked, less what came since */
	atomic_int_fast64_t room_left;
	atomic_uint_fast64_t room_asked_ns;
	struct stat root_seen; /* tree lock: last known attributes of the top directory */
	/* zero bytes are a free lock; only dup is called under it */
	struct lock copied_commit_lock;
	/* copied_commit_lock, as the next; slot n % COPIED_COMMITS_KEPT */
	struct copied_commit copied_commits[COPIED_COMMITS_KEPT];
	unsigned nr_copied_commits;
	_Atomic uint64_t ordinary[ORDINARY_KEPT]; /* other_nodes.c */
};

/* The backing for a request: fs_as acts as @c, fs_for as the daemon on behalf of @c. */
static inline struct backing fs_as(const struct fs *fs, const struct caller *c)
{
	return backing_as(&fs->engine->backing, c);
}

static inline struct backing fs_for(const struct fs *fs, const struct caller *c)
{
	return backing_for(&fs->engine->backing, c);
}

/* Each op_*.c fills in its handlers. */
void ops_name(struct fuse_lowlevel_ops *ops);
void ops_attr(struct fuse_lowlevel_ops *ops);
void ops_file(struct fuse_lowlevel_ops *ops);
void ops_dir(struct fuse_lowlevel_ops *ops);
void ops_xattr(struct fuse_lowlevel_ops *ops);
void ops_ioctl(struct fuse_lowlevel_ops *ops);

static inline struct fs *req_fs(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static inline struct caller req_caller(fuse_req_t req)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);

	return (struct caller){
		.uid = ctx->uid, .gid = ctx->gid, .pid = ctx->pid, .umask = ctx->umask};
}

/*
 * Replies the error @err (0 or negative). An error of the backing rather than a mistake of the
 * caller (EIO, ENOSPC, ...) is recorded in failures.json and the log, with @op, the path of @node
 * and, below it, @name (may be NULL).
 */
void reply_result(fuse_req_t req, const char *op, uint64_t node, const char *name, int err);

/* Only records the error, for calls that reply something else, or nothing. */
void note_trouble(struct fs *fs, const struct caller *c, const char *op, uint64_t node,
		  const char *name, int err);

/*
 * Fills the attributes for the kernel from the backing's and from what the cache holds. st_ino is
 * the backing's, so it survives renames and remounts. For a file of another device below the
 * backing, the device number is mixed in, so that st_ino is unique in the mount.
 */
void fill_stat(struct fs *fs, const struct statx *stx, struct stat *st);

/* The inode number in entries and attributes; see fill_stat. */
uint64_t visible_ino(struct fs *fs, dev_t dev, uint64_t ino);

/* As tree_lookup, also for what other nodes save; looks the name up as @c, the caller. */
int fs_look_up(struct fs *fs, const struct caller *c, struct node *dir, const char *name,
	       struct node **n, struct statx *stx);

/* Fills the entry of @n for the kernel. */
void fill_entry(struct fs *fs, struct node *n, const struct statx *stx,
		struct fuse_entry_param *entry);

/* The handle of a request, referenced. NULL: it is released, and EBADF was replied. */
struct handle *req_handle(fuse_req_t req, const struct fuse_file_info *fi);

/* Drops a handler's reference. It is the last one only if the request was given up. */
static inline void finish_handle(struct fs *fs, struct handle *h)
{
	int ignored;

	handle_put(fs->tree, h, &ignored);
}

/* The node of a request, referenced. NULL: ESTALE was replied. */
struct node *req_node(fuse_req_t req, uint64_t id);

/*
 * Turns ENOENT from a call in @dir into ESTALE if the directory itself is gone from the backing,
 * but the kernel trusted its name. On ESTALE the kernel walks the path again.
 */
int gone_dir(struct fs *fs, const struct caller *c, struct node *dir, int err);

/* Looks up @name in @dir and replies its entry, for LOOKUP and all calls that make a name. */
void reply_entry(fuse_req_t req, const char *op, struct node *dir, const char *name);

/*
 * How long the kernel may trust an answer. It looks a name up at each use, so that what another
 * node did before its barrier is seen after the caller's (close-to-open). While there is no other
 * node, the kernel may trust a directory for a moment, so that a program that walks a tree does not
 * ask for each step again and again. A call in a directory that is gone gets ESTALE, and the kernel
 * walks again.
 */
#define NAME_TIMEOUT_S 0.0
#define DIR_TIMEOUT_S  0.05
#define ATTR_TIMEOUT_S 1.0

#endif
