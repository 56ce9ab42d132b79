/* SPDX-License-Identifier: MIT */
/* Reads, writes, seeks and copies through an open slot. */
#include "randops.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* One data transfer as it will be done: O_DIRECT slots get aligned ones. */
struct xfer {
	enum op_kind kind;
	int fd;
	unsigned char *buf;
	size_t len;
	off_t off;
	int pieces;
};

static struct xfer xfer_plan(const struct side *s, const struct op *op)
{
	const struct slot *slot = &s->slots[op->slot];
	struct xfer x = {op->kind, slot->fd, s->buf + op->align, op->len, op->off, op->n};

	if (slot->flags & O_DIRECT) {
		x.buf = s->buf;
		x.len &= ~(size_t)(PAGE - 1);
		x.len = x.len ? x.len : PAGE;
		x.off &= ~(off_t)(PAGE - 1);
		if (op->kind == OP_READ || op->kind == OP_READV)
			x.kind = OP_PREAD;
		if (op->kind == OP_WRITE || op->kind == OP_WRITEV)
			x.kind = OP_PWRITE;
	}
	return x;
}

static int iov_split(const struct xfer *x, struct iovec *iov)
{
	int n = x->pieces < 1 ? 1 : x->pieces > 16 ? 16 : x->pieces;
	size_t from, to;
	int i;

	for (i = 0; i < n; i++) {
		from = x->len * i / n;
		to = x->len * (i + 1) / n;
		iov[i] = (struct iovec){x->buf + from, to - from};
	}
	return n;
}

static void do_read(struct side *s, const struct xfer *x, struct result *r)
{
	struct iovec iov[16];
	ssize_t got;

	if (x->kind == OP_PREAD)
		got = pread(x->fd, x->buf, x->len, x->off);
	else if (x->kind == OP_READ)
		got = read(x->fd, x->buf, x->len);
	else
		got = readv(x->fd, iov, iov_split(x, iov));
	result_ret(r, got);
	if (got > 0) {
		if (faulty(s, FAULT_FLIP_READ) && x->kind == OP_PREAD && x->off >= PAGE)
			x->buf[got / 2] ^= 1;
		r->data = x->buf;
		r->len = got;
	}
}

/* The mistake: an overwrite inside the file is acknowledged, not done. */
static bool write_dropped(const struct side *s, const struct xfer *x)
{
	struct stat st;

	return faulty(s, FAULT_DROP_WRITE) && x->kind == OP_PWRITE && !fstat(x->fd, &st) &&
	       x->off + (off_t)x->len <= st.st_size;
}

static void do_write(struct side *s, const struct xfer *x, uint64_t seed, struct result *r)
{
	struct iovec iov[16];
	ssize_t put;

	fill_pattern(x->buf, x->len, seed);
	if (write_dropped(s, x))
		put = x->len;
	else if (x->kind == OP_PWRITE)
		put = pwrite(x->fd, x->buf, x->len, x->off);
	else if (x->kind == OP_WRITE)
		put = write(x->fd, x->buf, x->len);
	else
		put = writev(x->fd, iov, iov_split(x, iov));
	result_ret(r, put);
}

/* Nonzero bytes between from and to (or the end of the file), or -1. */
static int64_t count_nonzero(const struct side *s, const struct slot *slot, off_t from, off_t to)
{
	bool direct = slot->flags & O_DIRECT;
	off_t at = direct ? from & ~(off_t)(PAGE - 1) : from;
	int64_t bad = 0;
	ssize_t got, i;
	size_t want;

	while (at < to) {
		want = to - at < MAX_IO ? to - at : MAX_IO;
		if (direct)
			want = (want + PAGE - 1) & ~(size_t)(PAGE - 1);
		got = pread(slot->fd, s->buf, want, at);
		if (got < 0)
			return -1;
		for (i = 0; i < got; i++)
			bad += s->buf[i] && at + i >= from && at + i < to;
		at += got;
		if (!got || at % PAGE)
			break; /* the end */
	}
	return bad;
}

/*
 * Where holes are is the filesystem's own business; that a hole reads as
 * zeros, lies behind the offset asked for and inside the file is not.
 */
static void do_hole(struct side *s, const struct op *op, struct result *r)
{
	const struct slot *slot = &s->slots[op->slot];
	off_t pos = lseek(slot->fd, 0, SEEK_CUR), at;
	struct stat st;
	bool ok;

	if (accmode(slot) == O_WRONLY || fstat(slot->fd, &st))
		return;
	at = lseek(slot->fd, op->off, op->flags);
	if (op->off >= st.st_size) {
		result_ret(r, at);
	} else if (op->flags == SEEK_HOLE) {
		ok = at >= op->off && at <= st.st_size;
		result_field(r, "SEEK_HOLE plausible", ok);
	} else {
		ok = at < 0 ? errno == ENXIO : at >= op->off && at < st.st_size;
		result_field(r, "SEEK_DATA plausible", ok);
		result_field(r, "nonzero bytes in what SEEK_DATA skipped",
			     count_nonzero(s, slot, op->off, at < 0 ? st.st_size : at));
	}
	lseek(slot->fd, pos, SEEK_SET);
}

static void do_copy_range(struct side *s, const struct op *op, struct result *r)
{
	const struct slot *in = &s->slots[op->slot], *out = &s->slots[op->slot2];
	off_t from = op->off, to = op->off2;
	int64_t left = op->len, done = 0;
	ssize_t n = 0;

	/* O_DIRECT constrains the generic copy in ways POSIX does not know. */
	if (out->fd < 0 || (in->flags | out->flags) & O_DIRECT)
		return;
	while (left > 0) {
		n = copy_file_range(in->fd, &from, out->fd, &to, left, 0);
		if (n <= 0)
			break;
		done += n;
		left -= n;
	}
	result_ret(r, done ? done : n);
	result_fstat(r, s, out);
}

static void do_read_file(struct side *s, const struct op *op, struct result *r)
{
	char name[NAME_TEXT_MAX];
	size_t len = 0;
	ssize_t got = 0;
	int fd;

	path_real(&op->path, name);
	fd = openat(s->rootfd, name, O_RDONLY | O_CLOEXEC);
	result_ret(r, fd < 0 ? -1 : 0);
	if (fd < 0)
		return;
	while (len < MAX_IO && (got = read(fd, s->buf + len, MAX_IO - len)) > 0)
		len += got;
	if (got < 0)
		result_ret(r, -1);
	close(fd);
	result_field(r, "length read", len);
	r->data = s->buf;
	r->len = len;
}

void exec_io(struct side *s, const struct op *op, struct result *r)
{
	const struct slot *slot = &s->slots[op->slot];
	struct xfer x;
	off_t at;

	if (op->kind == OP_READ_FILE) {
		do_read_file(s, op, r);
		return;
	}
	if (slot->fd < 0)
		return;
	x = xfer_plan(s, op);
	switch (op->kind) {
	case OP_READ:
	case OP_PREAD:
	case OP_READV:
		do_read(s, &x, r);
		break;
	case OP_WRITE:
	case OP_PWRITE:
	case OP_WRITEV:
		do_write(s, &x, op->seed, r);
		break;
	case OP_LSEEK:
		if (slot->dir)
			return;
		at = lseek(slot->fd, op->off, op->flags);
		result_ret(r, at);
		break;
	case OP_HOLE:
		if (!slot->dir)
			do_hole(s, op, r);
		break;
	default:
		do_copy_range(s, op, r);
	}
	result_fstat(r, s, slot);
}
