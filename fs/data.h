/* SPDX-License-Identifier: MIT */
/*
 * Decides for the bytes of an open file: into the cache, or to the backing at once.
 *
 * The cache takes writes to units, and large writes to ordinary files. All else goes to the
 * backing, and everything of a file
 *   - that readers get by passthrough,
 *   - opened with O_APPEND, O_SYNC or O_DSYNC, or, of an ordinary file, with O_DIRECT,
 *   - with suid or sgid bits, which the backing clears at a write,
 *   - on a backing so full that only the backing knows whether there is room.
 * A call that goes to the backing first empties the cache of the bytes that it touches. No lock is
 * held across a call on the backing.
 */
#ifndef FS_DATA_H
#define FS_DATA_H

#include "fs/fs.h"

ssize_t data_read(struct fs *fs, const struct caller *c, struct handle *h, void *buf, size_t size,
		  off_t off);

/* As data_read without a copy, if all of it is cached; else 0. Needs data_unpin, unless 0. */
size_t data_pin(struct fs *fs, struct handle *h, size_t size, off_t off, struct content_pins *p);
void data_unpin(struct content_pins *p);

/*
 * Writes for a program. @key: the process, as the kernel's lock owner; @rwf: the RWF_ flags that
 * its open stands for. The bytes taken, or -errno.
 */
ssize_t data_write(struct fs *fs, const struct caller *c, struct handle *h, uint64_t key,
		   const char *data, size_t size, off_t off, int rwf);

/* Writes pages of a mapping, which no process is charged with: all or -errno. */
ssize_t data_write_pages(struct fs *fs, struct handle *h, const char *data, size_t size, off_t off);

/* Process @key closed a descriptor of @h. Returns the error of an earlier write once more. */
int data_close(struct fs *fs, const struct caller *c, struct handle *h, uint64_t key);

/*
 * Notes how process @key ends, if it ends, at a FLUSH of handle @fh that is answered without being
 * served: a killed writer must not pass for one that is done. Waits for nothing.
 */
void data_note_exit(struct fs *fs, uint64_t fh, uint64_t key, pid_t pid);

/*
 * Writes tensor handles instead of bytes (captures_write). -EOPNOTSUPP: the open file is not
 * staged, or was published, or is open with O_APPEND.
 */
struct ckptfs_write;
int data_capture(struct fs *fs, const struct caller *c, struct handle *h,
		 const struct ckptfs_write *w);

/* fsync of @c. For the file of a unit the option `fsync` decides, caller by caller: sync.c. */
int data_sync(struct fs *fs, const struct caller *c, struct handle *h, bool data_only);

/*
 * Brackets an operation on the backing that reads (data_begin) or changes (data_begin_change) bytes
 * of @n behind the cache's back. A change goes through @fd; @h is the open file, or NULL. After 0
 * the caller calls data_end: [@off, @off + @len) was changed.
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

/* Truncates or extends @n. -ENOTSUP: it is not being saved, and the backing does that. */
int data_truncate(struct fs *fs, const struct caller *c, struct node *n, uint64_t size);

#endif
