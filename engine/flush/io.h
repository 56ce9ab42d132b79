/* SPDX-License-Identifier: MIT */
/*
 * Asynchronous writes to the backing, the lowest layer of the flush. There are two engines behind
 * one table: io_uring, and a pool of threads where the host forbids io_uring. This layer passes raw
 * results on; it knows nothing of retries, order, files or checksums.
 *
 * - io_submit never fails and never waits for the backing. Writes beyond `depth` wait in a queue.
 * - Writes end in any order. A hanging write delays no other, as long as fewer hang than there are
 *   workers: `depth` with io_uring, IO_MAX_THREADS threads. The kernel has two limits: buffered
 *   writes of one file run one after the other, and with io_uring so do, with a probability of 1 in
 *   64, those of two files. Writes with O_DIRECT on ext4 or xfs do not.
 * - The process must ignore SIGXFSZ.
 */
#ifndef ENGINE_FLUSH_IO_H
#define ENGINE_FLUSH_IO_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/backing/backing.h"
#include "engine/base/list.h"
#include "engine/base/message.h"

#define IO_MAX_DEPTH   4096
#define IO_MAX_THREADS 16

/*
 * One write. The caller owns all of it, including @buf and @fd, and leaves it unchanged until
 * done() is called. From then on the caller may do anything with it, also submit it again.
 */
struct io_write {
	int fd; /* best without O_NONBLOCK, which some kernels honour (-EAGAIN) */
	const void *buf;
	size_t len;
	uint64_t off;	  /* at most INT64_MAX */
	struct caller as; /* for quota, reserved blocks, root_squash; no supplementary groups */
	/*
	 * Called once, in a thread of the engine that acts as the daemon and holds no lock of the
	 * engine. @result: bytes written, maybe fewer than len (0 too: the caller counts how
	 * often), or -errno of the backing. If the backing finds an O_DIRECT write misaligned,
	 * io_uring gives -EINVAL, and threads write it through the page cache (backing_write).
	 * done() may submit, but must not wait for anything slow, least of all the backing: with
	 * io_uring one thread makes all these calls, and the kernel may interrupt its system calls
	 * (EINTR) without a signal.
	 */
	void (*done)(struct io_write *w, ssize_t result);

	struct list node; /* the fields from here on belong to the engine */
	unsigned person;
};

struct io {
	const struct io_ops *ops; /* const after create */
};

struct io_ops {
	const char *name;
	/* Returns 0 or -errno. @depth: 1 to IO_MAX_DEPTH. */
	int (*create)(struct io **out, struct backing *b, unsigned depth);
	/* Any thread may call it, also done(). */
	void (*submit)(struct io *io, struct io_write *w);
	/* Waits until everything submitted is done and the threads have ended. Not from done(). */
	void (*destroy)(struct io *io);
};

extern const struct io_ops io_uring_ops, io_threads_ops;

/*
 * Uses io_uring if @want_uring, it is not turned off, it works here (recorded in the features of
 * @b), and @b has no ops of a test, which would not see the writes; else threads. @depth, clamped
 * to the valid range: how many writes the backing gets at once. Writes act as io_write.as if @b has
 * FEATURE_ACT_AS_CALLER. Returns 0 or -errno with @e filled.
 */
int io_create(struct io **out, struct backing *b, unsigned depth, bool want_uring, struct error *e);
void io_submit(struct io *io, struct io_write *w);
void io_destroy(struct io *io); /* accepts NULL */
const char *io_name(const struct io *io);

/* For tests: how long a thread of a new pool waits for work before it ends. */
extern unsigned io_threads_idle_ms;

#endif
