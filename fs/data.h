/* SPDX-License-Identifier: MIT */
/*
 * Which way the bytes of an open file go: into the cache, or to the backing at once.
 *
 * The cache takes what is written to units, and large writes to ordinary files. To the backing goes
 * everything else, and everything of a file
 *   - whose readers the kernel serves by passthrough,
 *   - opened with O_APPEND, O_SYNC, O_DSYNC or O_DIRECT,
 *   - with suid or sgid bits, which the backing must see written to,
 *   - on a backing that is so full that only it can say whether there is room.
 * Whoever goes to the backing first empties the cache of what he may touch.
 */
#ifndef FS_DATA_H
#define FS_DATA_H

#include "fs/fs.h"

ssize_t data_read(struct fs *fs, const struct caller *c, struct handle *h, void *buf, size_t size,
		  off_t off);

/* The same where it lies, if the cache has all of it; else 0. After another result, data_unpin. */
size_t data_pin(struct fs *fs, struct handle *h, size_t size, off_t off, struct content_pins *p);
void data_unpin(struct content_pins *p);

/*
 * A program's write; @key says by which process (the kernel's lock owner), @rwf which RWF_ flags
 * its open stands for. How much was taken, or -errno.
 */
ssize_t data_write(struct fs *fs, const struct caller *c, struct handle *h, uint64_t key,
		   const char *data, size_t size, off_t off, int rwf);

/* Pages of a mapping, written in nobody's name: all or -errno. */
ssize_t data_write_pages(struct fs *fs, struct handle *h, const char *data, size_t size, off_t off);

/* A descriptor of @h was closed, by process @key. The error of an earlier write, once more. */
int data_close(struct fs *fs, const struct caller *c, struct handle *h, uint64_t key);

/*
 * For a FLUSH that is answered without being served, of handle @fh by process @key: waits for
 * nothing, but a killed writer must not pass for one that is done.
 */
void data_judge(struct fs *fs, uint64_t fh, uint64_t key, pid_t pid);

/*
 * Handles of tensors instead of bytes (captures_write). -EOPNOTSUPP: what it has open is no file
 * that is staged, or has been published.
 */
struct ckptfs_write;
int data_capture(struct fs *fs, const struct caller *c, struct handle *h,
		 const struct ckptfs_write *w);

/*
 * fsync of @c. What it means for the file of a unit, and of whom, is the option `fsync`'s: sync.c.
 */
int data_sync(struct fs *fs, const struct caller *c, struct handle *h, bool data_only);

/*
 * Around an operation on the backing that reads or changes bytes of @n behind the cache's back, the
 * latter through @fd and, if it is one on an open file, handle @h. After 0, end it with data_end:
 * [@off, @off + @len) was changed.
 */
struct data_span {
	struct content *content;
	struct generation *generation;
	struct checkpoint *checkpoint;
};
int data_begin(struct fs *fs, struct node *n, struct data_span *s);
int data_begin_change(struct fs *fs, const struct caller *c, struct node *n, struct handle *h,
		      int fd, struct data_span *s);
void data_end(struct data_span *s, uint64_t off, uint64_t len);

/* Are there bytes of @n that the backing has not? */
bool data_is_dirty(struct fs *fs, const struct node *n);

/* Cuts or extends @n; -ENOTSUP: nothing of it is cached, the backing does it. */
int data_truncate(struct fs *fs, const struct caller *c, struct node *n, uint64_t size);

#endif
