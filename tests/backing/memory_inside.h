/* SPDX-License-Identifier: MIT */
/* What the filesystem in memory is made of, for its parts. All with the lock held. */
#ifndef TESTS_BACKING_MEMORY_INSIDE_H
#define TESTS_BACKING_MEMORY_INSIDE_H

#include <pthread.h>
#include <time.h>

#include "tests/backing/memory.h"
#include "tests/backing/pages.h"

struct mem_node;

struct mem_entry {
	char *name;
	struct mem_node *node;
	uint64_t cookie; /* its place in a listing: grows with each name */
};

struct mem_xattr {
	char *name;
	void *value;
	size_t size;
};

struct mem_node {
	ino_t ino;
	mode_t mode;
	uid_t uid;
	gid_t gid;
	dev_t rdev;
	unsigned links; /* of a directory: 1 while it has a name */
	struct timespec atime, mtime, ctime, btime;
	struct mem_token *token; /* NULL: it was never opened */
	bool lost;		 /* by a power loss */
	char *target;		 /* of a symlink */
	/* of a file: pages beyond nr_pages, and those that are NULL, are zeros */
	off_t size;
	struct page **pages;
	size_t nr_pages;
	/* of a directory */
	struct mem_node *parent; /* of the top: itself */
	struct mem_entry *entries;
	size_t nr_entries, max_entries;
	uint64_t next_cookie;
	struct mem_xattr *xattrs;
	size_t nr_xattrs, max_xattrs;
};

/* A memfd, which stands for an inode: found by the number that the kernel gave it. */
struct mem_token {
	int fd, path_fd; /* of the memfd; path_fd: O_PATH */
	ino_t number;
	struct memory *memory; /* NULL: it is free */
	struct mem_node *node;
	struct mem_token *next; /* in its bucket */
	struct mem_token *next_free;
};

struct memory {
	pthread_mutex_t lock;
	struct mem_node **nodes; /* by number; those that are gone are NULL */
	size_t nr_nodes, max_nodes;
	uint64_t room, used; /* pages; room 0: no limit */
	struct backing own;  /* what records: struct backing of the log */
	struct record *log;  /* NULL: not tracked */
	_Atomic uint64_t changes;
};

extern const struct backing_ops memory_ops;

#define MEM_DEV makedev(0, 0x6d)

/* --- inodes (memory.c) --- */

/* @ino: its number, or 0: the next one. */
struct mem_node *mem_node_make(struct memory *m, mode_t mode, ino_t ino);
/* Frees @n if it has no name and was never opened. */
void mem_node_drop(struct memory *m, struct mem_node *n);
/* Frees all inodes. */
void mem_clear(struct memory *m);
/*
 * After a power loss: each inode of @before hands its descriptors on to the inode of the same
 * number. Frees @before.
 */
void mem_adopt(struct memory *m, struct mem_node **before, size_t nr);
/*
 * The inode of descriptor @fd. 0; -EBADF: @fd belongs to no inode of @m; -ESTALE: a power loss took
 * the inode.
 */
int mem_node_of(struct memory *m, int fd, struct mem_node **n);
/*
 * A new descriptor of @n, with those of @flags that the kernel keeps for a descriptor. -errno: the
 * kernel refuses.
 */
int mem_node_open(struct memory *m, struct mem_node *n, int flags);

struct timespec mem_now(void);
void mem_touch(struct mem_node *n, bool modified);

/* --- names (memory_names.c) --- */

struct mem_entry *mem_find(struct mem_node *dir, const char *name);
void mem_add_entry(struct mem_node *dir, const char *name, struct mem_node *n);
/* 0 or -errno. @name: as the calls of the table take it. */
int mem_lookup(struct memory *m, int dir, const char *name, struct mem_node **n);

/* --- files (memory_files.c) --- */

void mem_resize(struct memory *m, struct mem_node *n, off_t size);
/* Page @at of @n becomes @p. */
void mem_set_page(struct memory *m, struct mem_node *n, size_t at, struct page *p);
/* The bytes of page @at, to be changed: no other owner sees that. */
unsigned char *mem_own_page(struct memory *m, struct mem_node *n, size_t at);
int mem_set_xattr(struct mem_node *n, const char *name, const void *value, size_t size, int flags);

int mem_op_stat(void *arg, int dir, const char *name, int flags, struct statx *stx);
int mem_op_statfs(void *arg, int fd, struct statvfs *sv);
ssize_t mem_op_readlink(void *arg, int fd, char *buf, size_t size);
int mem_op_chmod(void *arg, int fd, mode_t mode);
int mem_op_chown(void *arg, int fd, uid_t uid, gid_t gid);
int mem_op_utimens(void *arg, int fd, const struct timespec times[2]);
int mem_op_truncate(void *arg, int fd, off_t size);
ssize_t mem_op_getxattr(void *arg, int fd, const char *name, void *buf, size_t size);
ssize_t mem_op_listxattr(void *arg, int fd, char *buf, size_t size);
int mem_op_setxattr(void *arg, int fd, const char *name, const void *value, size_t size, int flags);
int mem_op_removexattr(void *arg, int fd, const char *name);
ssize_t mem_op_read(void *arg, int fd, void *buf, size_t size, off_t off);
ssize_t mem_op_write(void *arg, int fd, const void *buf, size_t size, off_t off, int rwf);
int mem_op_ftruncate(void *arg, int fd, off_t size);
int mem_op_fallocate(void *arg, int fd, int mode, off_t off, off_t len);
int mem_op_sync(void *arg, int fd, enum backing_sync what);
int mem_op_write_back(void *arg, int fd);
off_t mem_op_seek(void *arg, int fd, off_t off, int whence);
ssize_t mem_op_copy_range(void *arg, int in, off_t off_in, int out, off_t off_out, size_t len,
			  unsigned flags);

#endif
