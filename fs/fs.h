/* SPDX-License-Identifier: MIT */
/* One mounted filesystem, and what its FUSE handlers share. */
#ifndef FS_FS_H
#define FS_FS_H

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "engine/base/lock.h"
#include "engine/engine.h"
#include "fs/requests.h"
#include "fs/tree.h"

/* passing.h */
#define PASSING_KEPT 32

struct passing {
	struct inode_id dir;
	char name[NAME_MAX + 1]; /* "": none */
	int fd;
};

#define ORDINARY_KEPT 64

struct fs {
	struct engine *engine;
	struct tree *tree;
	struct requests *requests;
	struct fuse_session *session;
	const char *mountpoint; /* absolute */
	unsigned major, minor;	/* its device number, known once mounted */
	const char *label;	/* of this mount, for people */
	/* data.c: room on the backing until it is asked again */
	atomic_int_fast64_t room_left;
	atomic_uint_fast64_t room_asked_ns;
	struct stat root_seen;	  /* tree lock: the last known attributes of the top directory */
	struct lock passing_lock; /* all zero bytes are a free one; nothing is called under it */
	struct passing passing[PASSING_KEPT]; /* passing_lock, as the next; slot n % PASSING_KEPT */
	unsigned nr_passing;
	_Atomic uint64_t ordinary[ORDINARY_KEPT]; /* elsewhere.c */
};

/* The backing for a request of @c: as @c, or as the daemon on behalf of @c. */
static inline struct backing fs_as(const struct fs *fs, const struct caller *c)
{
	return backing_as(&fs->engine->backing, c);
}

static inline struct backing fs_for(const struct fs *fs, const struct caller *c)
{
	return backing_for(&fs->engine->backing, c);
}

/* The handlers, filled in by each op_*.c. */
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
 * Replies the error @err (0 or negative). One that tells of trouble with the backing rather than
 * of the caller's mistake (EIO, ENOSPC, ...) is recorded in failures.json and the log, with @op,
 * the path of @node and, below it, @name (may be NULL).
 */
void reply_result(fuse_req_t req, const char *op, uint64_t node, const char *name, int err);

/* Only the recording, for calls that have something else to reply, or nobody to reply to. */
void note_trouble(struct fs *fs, const struct caller *c, const char *op, uint64_t node,
		  const char *name, int err);

/*
 * Attributes for the kernel from what the backing says of a file, and what the cache holds of it.
 * st_ino is the backing's, so it survives renames and remounts; files of another device below the
 * backing get theirs mixed with the device number, to be unique in the mount.
 */
void fill_stat(struct fs *fs, const struct statx *stx, struct stat *st);

/* The inode number for entries and attributes, see fill_stat. */
uint64_t visible_ino(struct fs *fs, dev_t dev, uint64_t ino);

/* An entry of @n for the kernel. */
/* As tree_lookup, also of what other nodes save. @c: the caller, as whom it is looked up. */
int fs_look_up(struct fs *fs, const struct caller *c, struct node *dir, const char *name,
	       struct node **n, struct statx *stx);

void fill_entry(struct fs *fs, struct node *n, const struct statx *stx,
		struct fuse_entry_param *entry);

/* The handle of a request, referenced; NULL: it is released, and EBADF was replied. */
struct handle *req_handle(fuse_req_t req, const struct fuse_file_info *fi);

/* Drops a handler's reference. It is the last one only if the request was given up on. */
static inline void finish_handle(struct fs *fs, struct handle *h)
{
	int ignored;

	handle_put(fs->tree, h, &ignored);
}

/* The node of a request, referenced; NULL: ESTALE was replied. */
struct node *req_node(fuse_req_t req, uint64_t id);

/*
 * ENOENT from a call in @dir becomes ESTALE if the directory itself was removed behind our back
 * while the kernel trusted its name: the kernel then walks the path again.
 */
int gone_dir(struct fs *fs, const struct caller *c, struct node *dir, int err);

/* Looks up @name below @dir and replies an entry for it; for LOOKUP and whatever makes a name. */
void reply_entry(fuse_req_t req, const char *op, struct node *dir, const char *name);

/*
 * How long the kernel may trust what it is told. Names are looked up anew at each use, so that what
 * another node did before its barrier is seen after ours (close-to-open). While there is no other
 * node, a directory is only a step on the way, and may be trusted for a moment, so that programs
 * that walk trees do not ask for each step again and again. Calls in a directory that is gone get
 * ESTALE, upon which the kernel walks the path again.
 */
#define NAME_TIMEOUT_S 0.0
#define DIR_TIMEOUT_S  0.05
#define ATTR_TIMEOUT_S 1.0

#endif
