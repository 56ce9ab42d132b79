/* SPDX-License-Identifier: MIT */
/*
 * Reading back: the bytes of many tensors are cut into pieces, which several threads take one after
 * the other. Contiguous memory of the host is read into directly, any other by way of a buffer of
 * each thread. The lock guards the choice of the next piece and the first error.
 */
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cuda_driver.h"
#include "client/io.h"
#include "client/session.h"

#define PIECE_BYTES	(4u << 20)
#define BUFFER_BYTES	(1u << 20)
#define PAGE		4096
#define THREADS_MAX	64
#define THREADS_DEFAULT 8 /* at most, and not more than there are processors */

struct reading {
	struct ckptfs_session *session;		    /* NULL: none */
	const struct ckpt_bound_device *devices[2]; /* of the host; of another device */
	int fd;
	const struct ckptfs_read_op *ops;
	size_t nr;

	pthread_mutex_t lock; /* for all that follows */
	size_t op;	      /* of the next piece */
	uint64_t at;	      /* how much of it was taken */
	int err;
	char text[CKPTFS_TEXT_MAX];
};

static const struct ckpt_bound_device host = {.ops = &ckpt_device_host};

static bool is_host(const struct ckptfs_read_op *op)
{
	return op->memory == CKPTFS_HOST || op->memory == CKPTFS_HOST_PINNED;
}

/* --- checks --- */

static int check(struct ckptfs_session *s, const struct ckptfs_read_op *op, size_t i)
{
	uint64_t end, bytes, span;

	if (op->memory > CKPTFS_CUDA_MANAGED || op->reserved)
		return ckpt_error(s, -EINVAL, "read %zu: is into memory of no kind that there is",
				  i);
	if (!is_host(op) && !(s && ckpt_session_device(s, op->memory)))
		return ckpt_error(s, -EOPNOTSUPP,
				  "read %zu: is into a device that libckptfs cannot use here%s", i,
				  s ? "" : ", without a session");
	if (!is_host(op) && ckpt_session_device(s, op->memory)->ops == &ckpt_device_cuda &&
	    !cuda_driver())
		return ckpt_error(s, -EOPNOTSUPP,
				  "read %zu: is into a device that libckptfs cannot use here: %s",
				  i, cuda_driver_missing());
	if (__builtin_add_overflow(op->file_off, op->len, &end) || end > LLONG_MAX)
		return ckpt_error(s, -EFBIG, "read %zu: ends behind the largest offset of files",
				  i);
	if (op->len && !op->addr)
		return ckpt_error(s, -EFAULT, "read %zu: is without an address", i);
	if (__builtin_add_overflow(op->dst_off, op->len, &end))
		return ckpt_error(s, -EINVAL, "read %zu: ends behind all memory", i);
	if (op->rows && (__builtin_mul_overflow(op->rows, op->row_bytes, &bytes) ||
			 __builtin_mul_overflow(op->rows, op->pitch, &span) ||
			 op->pitch < op->row_bytes || end > bytes))
		return ckpt_error(s, -EINVAL,
				  "read %zu: %llu rows of %llu bytes, %llu apart, have no bytes "
				  "%llu to %llu",
				  i, (unsigned long long)op->rows,
				  (unsigned long long)op->row_bytes, (unsigned long long)op->pitch,
				  (unsigned long long)op->dst_off, (unsigned long long)end);
	return 0;
}

/* --- one piece --- */

/* Keeps the first error of all threads. */
static void fail(struct reading *r, int err, uint64_t off, const char *why)
{
	char link[64], name[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", r->fd);
	n = readlink(link, name, sizeof(name) - 1);
	if (n < 0)
		n = snprintf(name, sizeof(name), "descriptor %d", r->fd);
	name[n] = '\0';
	pthread_mutex_lock(&r->lock);
	if (!r->err) {
		r->err = err;
		snprintf(r->text, sizeof(r->text), "%.300s: at byte %llu: %s", name,
			 (unsigned long long)off, why);
	}
	pthread_mutex_unlock(&r->lock);
}

static bool read_some(struct reading *r, void *to, size_t len, uint64_t off)
{
	size_t done;
	int err = ckpt_read_all(r->fd, to, len, off, &done);

	if (err)
		fail(r, err, off + done,
		     err == -ENODATA ? "the file ends there, and more is wanted" : strerror(-err));
	return !err;
}

/* Reads bytes [at, at + len) of an op. *buffer is made when it is needed. */
static bool read_piece(struct reading *r, const struct ckptfs_read_op *op, uint64_t at, size_t len,
		       char **buffer)
{
	const struct ckpt_bound_device *d = r->devices[!is_host(op)];
	struct ckpt_source to = {.addr = op->addr,
				 .stream = op->stream,
				 .rows = op->rows,
				 .row_bytes = op->row_bytes,
				 .pitch = op->pitch};

	if (is_host(op) && !op->rows)
		return read_some(r, (char *)op->addr + op->dst_off + at, len, op->file_off + at);
	if (!*buffer && posix_memalign((void **)buffer, PAGE, BUFFER_BYTES)) {
		*buffer = NULL;
		fail(r, -ENOMEM, op->file_off + at, strerror(ENOMEM));
		return false;
	}
	for (size_t part; len; at += part, len -= part) {
		int err;

		part = len < BUFFER_BYTES ? len : BUFFER_BYTES;
		if (!read_some(r, *buffer, part, op->file_off + at))
			return false;
		err = d->ops->put(d->state, &to, op->dst_off + at, part, *buffer);
		if (err) {
			const char *said = r->session ? ckptfs_error(r->session) : "";
			char why[CKPTFS_TEXT_MAX];

			snprintf(why, sizeof(why), "cannot be copied to the device (%s): %.400s",
				 d->ops->name, *said ? said : strerror(-err));
			fail(r, err, op->file_off + at, why);
			return false;
		}
	}
	return true;
}

/* --- all --- */

static bool next_piece(struct reading *r, const struct ckptfs_read_op **op, uint64_t *at,
		       size_t *len)
{
	bool more;

	pthread_mutex_lock(&r->lock);
	while (r->op < r->nr && r->at == r->ops[r->op].len) {
		r->op++;
		r->at = 0;
	}
	more = r->op < r->nr && !r->err;
	if (more) {
		*op = &r->ops[r->op];
		*at = r->at;
		*len = (*op)->len - *at < PIECE_BYTES ? (*op)->len - *at : PIECE_BYTES;
		r->at += *len;
	}
	pthread_mutex_unlock(&r->lock);
	return more;
}

static void *read_run(void *reading)
{
	struct reading *r = reading;
	const struct ckptfs_read_op *op;
	char *buffer = NULL;
	uint64_t at;
	size_t len;

	while (next_piece(r, &op, &at, &len) && read_piece(r, op, at, len, &buffer))
		;
	free(buffer);
	return NULL;
}

static unsigned processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? 1 : (unsigned)CPU_COUNT(&set);
}

/* No more threads than pieces. The pieces are counted no further than that. */
static unsigned useful_threads(const struct reading *r, unsigned threads)
{
	uint64_t pieces = 0;

	if (!threads) {
		threads = processors();
		if (threads > THREADS_DEFAULT)
			threads = THREADS_DEFAULT;
	}
	if (threads > THREADS_MAX)
		threads = THREADS_MAX;
	for (size_t i = 0; i < r->nr && pieces < threads; i++)
		pieces += r->ops[i].len / PIECE_BYTES + (r->ops[i].len % PIECE_BYTES != 0);
	return pieces < threads ? (unsigned)pieces : threads;
}

static void read_all(struct reading *r, unsigned threads)
{
	pthread_t ids[THREADS_MAX];
	unsigned nr = 0;

	threads = useful_threads(r, threads);
	/* If no more can be had, the threads that there are do it. */
	while (nr + 1 < threads && !ckpt_thread_start(&ids[nr], "ckptfs-read", read_run, r))
		nr++;
	read_run(r);
	while (nr)
		pthread_join(ids[--nr], NULL);
}

/* A session whose daemon is gone still knows its devices. */
static int enter(struct ckptfs_session *s)
{
	int err = s ? ckpt_session_enter(s) : 0;

	if (err == -ECHILD)
		return err;
	ckpt_error(s, 0, "%s", "");
	return 0;
}

int ckptfs_read(struct ckptfs_session *s, int fd, const struct ckptfs_read_op *ops, size_t n,
		unsigned threads)
{
	struct reading r = {.session = s, .devices = {&host}, .fd = fd, .ops = ops, .nr = n};
	int err = enter(s);

	for (size_t i = 0; i < n && !err; i++) {
		err = check(s, &ops[i], i);
		if (!err && !is_host(&ops[i]))
			r.devices[1] = ckpt_session_device(s, ops[i].memory);
	}
	if (err)
		return err;
	pthread_mutex_init(&r.lock, NULL);
	read_all(&r, threads);
	pthread_mutex_destroy(&r.lock);
	return r.err ? ckpt_error(s, r.err, "%s", r.text) : 0;
}
