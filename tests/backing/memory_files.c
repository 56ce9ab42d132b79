/* SPDX-License-Identifier: MIT */
/* The calls on open files of the filesystem in memory. */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "tests/backing/memory_inside.h"
#include "tests/backing/util.h"

/* --- pages --- */

void mem_set_page(struct memory *m, struct mem_node *n, size_t at, struct page *p)
{
	if (at >= n->nr_pages) {
		size_t nr = at < 8 ? 8 : at + at / 2;

		if (!p)
			return;
		n->pages = must(realloc(n->pages, nr * sizeof(struct page *)));
		memset(n->pages + n->nr_pages, 0, (nr - n->nr_pages) * sizeof(struct page *));
		n->nr_pages = nr;
	}
	m->used += p != NULL;
	m->used -= n->pages[at] != NULL;
	page_set(&n->pages[at], p);
}

unsigned char *mem_own_page(struct memory *m, struct mem_node *n, size_t at)
{
	struct page *p = at < n->nr_pages ? n->pages[at] : NULL;
	unsigned char *bytes;

	if (p && p->refs == 1 && p->data == p->own)
		return p->own;
	mem_set_page(m, n, at, page_like(p, 0, &bytes));
	return bytes;
}

static void zero(struct memory *m, struct mem_node *n, off_t from, off_t to)
{
	while (from < to) {
		size_t at = (size_t)(from / PAGE_BYTES), start = (size_t)(from % PAGE_BYTES);
		size_t len = PAGE_BYTES - start;

		if (at >= n->nr_pages)
			return;
		if ((off_t)len > to - from)
			len = (size_t)(to - from);
		if (len == PAGE_BYTES)
			mem_set_page(m, n, at, NULL);
		else if (n->pages[at])
			memset(mem_own_page(m, n, at) + start, 0, len);
		from += (off_t)len;
	}
}

void mem_resize(struct memory *m, struct mem_node *n, off_t size)
{
	if (size < n->size)
		zero(m, n, size, (off_t)n->nr_pages * PAGE_BYTES);
	n->size = size;
}

static size_t copy_out(const struct mem_node *n, char *buf, size_t size, off_t off)
{
	size_t done = 0;

	if (off >= n->size)
		return 0;
	if ((off_t)size > n->size - off)
		size = (size_t)(n->size - off);
	while (done < size) {
		size_t at = (size_t)((off + (off_t)done) / PAGE_BYTES);
		size_t start = (size_t)((off + (off_t)done) % PAGE_BYTES);
		size_t len = PAGE_BYTES - start;

		if (len > size - done)
			len = size - done;
		if (at < n->nr_pages && n->pages[at])
			memcpy(buf + done, n->pages[at]->data + start, len);
		else
			memset(buf + done, 0, len);
		done += len;
	}
	return done;
}

/* How much of it there is room for. */
static size_t copy_in(struct memory *m, struct mem_node *n, const char *buf, size_t size, off_t off)
{
	size_t done = 0;

	while (done < size) {
		size_t at = (size_t)((off + (off_t)done) / PAGE_BYTES);
		size_t start = (size_t)((off + (off_t)done) % PAGE_BYTES);
		size_t len = PAGE_BYTES - start;
		bool there = at < n->nr_pages && n->pages[at];

		if (!there && m->room && m->used >= m->room)
			break;
		if (len > size - done)
			len = size - done;
		memcpy(mem_own_page(m, n, at) + start, buf + done, len);
		done += len;
	}
	if (done && n->size < off + (off_t)done)
		n->size = off + (off_t)done;
	return done;
}

/* --- open files --- */

/* A regular file that @fd is open on for @access, O_RDONLY or O_WRONLY. */
static int file_of(struct memory *m, int fd, int access, struct mem_node **n)
{
	int flags = fcntl(fd, F_GETFL), err = mem_node_of(m, fd, n);

	if (err)
		return err;
	if (flags & O_PATH || ((flags & O_ACCMODE) != O_RDWR && (flags & O_ACCMODE) != access))
		return -EBADF;
	if (S_ISDIR((*n)->mode))
		return -EISDIR;
	return S_ISREG((*n)->mode) ? 0 : -EINVAL;
}

ssize_t mem_op_read(void *arg, int fd, void *buf, size_t size, off_t off)
{
	struct memory *m = arg;
	struct mem_node *n;
	int err;

	MUTEX_SCOPE(&m->lock);
	err = file_of(m, fd, O_RDONLY, &n);
	if (!err && off < 0)
		err = -EINVAL;
	return err ? err : (ssize_t)copy_out(n, buf, size, off);
}

ssize_t mem_op_write(void *arg, int fd, const void *buf, size_t size, off_t off, int rwf)
{
	struct memory *m = arg;
	struct mem_node *n;
	size_t done;
	int err;

	MUTEX_SCOPE(&m->lock);
	err = file_of(m, fd, O_WRONLY, &n);
	if (!err && off < 0)
		err = -EINVAL;
	if (err)
		return err;
	if (rwf & RWF_APPEND || fcntl(fd, F_GETFL) & O_APPEND)
		off = n->size;
	done = copy_in(m, n, buf, size, off);
	if (done)
		mem_touch(n, true);
	return done || !size ? (ssize_t)done : -ENOSPC;
}

static int resize(struct memory *m, struct mem_node *n, off_t size)
{
	if (size < 0)
		return -EINVAL;
	mem_resize(m, n, size);
	mem_touch(n, true);
	return 0;
}

int mem_op_truncate(void *arg, int fd, off_t size)
{
	struct memory *m = arg;
	struct mem_node *n;
	int err;

	MUTEX_SCOPE(&m->lock);
	err = mem_node_of(m, fd, &n);
	if (!err && !S_ISREG(n->mode))
		err = S_ISDIR(n->mode) ? -EISDIR : -EINVAL;
	return err ? err : resize(m, n, size);
}

int mem_op_ftruncate(void *arg, int fd, off_t size)
{
	struct memory *m = arg;
	struct mem_node *n;
	int err;

	MUTEX_SCOPE(&m->lock);
	err = file_of(m, fd, O_WRONLY, &n);
	if (err == -EISDIR || (err == -EBADF && !(fcntl(fd, F_GETFL) & O_PATH)))
		err = -EINVAL;
	return err ? err : resize(m, n, size);
}

int mem_op_fallocate(void *arg, int fd, int mode, off_t off, off_t len)
{
	struct memory *m = arg;
	bool punch = mode == (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
	struct mem_node *n;
	int err;

	if (off < 0 || len <= 0)
		return -EINVAL;
	MUTEX_SCOPE(&m->lock);
	err = file_of(m, fd, O_WRONLY, &n);
	if (err)
		return err == -EINVAL ? -ENODEV : err == -EISDIR ? -EBADF : err;
	if (mode && mode != FALLOC_FL_KEEP_SIZE && !punch)
		return -EOPNOTSUPP;
	if (punch)
		zero(m, n, off, off + len);
	else if (m->room && m->used + (uint64_t)len / PAGE_BYTES > m->room)
		return -ENOSPC;
	if (!mode && n->size < off + len)
		n->size = off + len;
	mem_touch(n, true);
	return 0;
}

int mem_op_sync(void *arg, int fd, enum backing_sync what)
{
	struct memory *m = arg;
	struct mem_node *n;
	int flags = fcntl(fd, F_GETFL);

	(void)what; /* the log knows (memory_loss.c) */
	MUTEX_SCOPE(&m->lock);
	return flags < 0 || flags & O_PATH ? -EBADF : mem_node_of(m, fd, &n);
}

int mem_op_write_back(void *arg, int fd)
{
	struct memory *m = arg;
	struct mem_node *n;

	MUTEX_SCOPE(&m->lock);
	return mem_node_of(m, fd, &n);
}

off_t mem_op_seek(void *arg, int fd, off_t off, int whence)
{
	struct memory *m = arg;
	struct mem_node *n;
	size_t at;
	int err;

	MUTEX_SCOPE(&m->lock);
	err = mem_node_of(m, fd, &n);
	if (err || fcntl(fd, F_GETFL) & O_PATH)
		return err ? err : -EBADF;
	if (whence == SEEK_END)
		off += n->size;
	if (whence == SEEK_SET || whence == SEEK_CUR || whence == SEEK_END) {
		off = lseek(fd, off, whence == SEEK_CUR ? SEEK_CUR : SEEK_SET);
		return off < 0 ? -errno : off;
	}
	if (whence != SEEK_DATA && whence != SEEK_HOLE)
		return -EINVAL;
	if (off < 0 || off >= n->size)
		return -ENXIO;
	for (at = (size_t)(off / PAGE_BYTES);; at++) {
		bool data = at < n->nr_pages && n->pages[at];

		if ((off_t)at * PAGE_BYTES >= n->size)
			return whence == SEEK_HOLE ? n->size : -ENXIO;
		if (data == (whence == SEEK_DATA))
			return (off_t)at * PAGE_BYTES > off ? (off_t)at * PAGE_BYTES : off;
		if (at >= n->nr_pages)
			return -ENXIO; /* a hole to the end, and data was asked for */
	}
}

/* As Linux checks it: what the two are comes before how they are open. */
static int copy_files(struct memory *m, int in, struct mem_node **from, int out,
		      struct mem_node **to)
{
	int err = mem_node_of(m, in, from);

	if (!err)
		err = mem_node_of(m, out, to);
	if (!err && (fcntl(in, F_GETFL) & O_PATH || fcntl(out, F_GETFL) & O_PATH))
		err = -EBADF;
	if (!err && (S_ISDIR((*from)->mode) || S_ISDIR((*to)->mode)))
		err = -EISDIR;
	if (!err && (!S_ISREG((*from)->mode) || !S_ISREG((*to)->mode)))
		err = -EINVAL;
	if (!err)
		err = file_of(m, in, O_RDONLY, from);
	if (!err)
		err = file_of(m, out, O_WRONLY, to);
	return !err && fcntl(out, F_GETFL) & O_APPEND ? -EBADF : err;
}

ssize_t mem_op_copy_range(void *arg, int in, off_t off_in, int out, off_t off_out, size_t len,
			  unsigned flags)
{
	struct memory *m = arg;
	struct mem_node *from, *to;
	size_t most = 1 << 20, done;
	char *buf;
	int err;

	if (flags)
		return -EINVAL;
	MUTEX_SCOPE(&m->lock);
	err = copy_files(m, in, &from, out, &to);
	if (!err && off_in >= from->size)
		return 0;
	if (!err && (off_t)len > from->size - off_in)
		len = (size_t)(from->size - off_in);
	if (!err && from == to && off_in < off_out + (off_t)len && off_out < off_in + (off_t)len)
		err = -EINVAL;
	if (err)
		return err;
	len = len < most ? len : most;
	buf = must(malloc(len + 1));
	len = copy_out(from, buf, len, off_in);
	done = copy_in(m, to, buf, len, off_out);
	free(buf);
	if (done)
		mem_touch(to, true);
	return done || !len ? (ssize_t)done : -ENOSPC;
}
