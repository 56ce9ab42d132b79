/* SPDX-License-Identifier: MIT */
/*
 * Asynchronous writes to the backing: the lowest layer of the flush. Two engines behind one table:
 * io_uring, and a pool of threads where the host forbids that. This layer passes results on, raw:
 * it knows nothing of retries, order, files or checksums.
 *
 * - io_submit never fails and never waits for the backing. What is beyond `depth` waits in a queue.
 * - Writes end in any order. One that hangs holds up no other, as long as fewer hang than there are
 *   workers: `depth` of io_uring, IO_MAX_THREADS threads. Two limits are the kernel's: buffered
 *   writes of one file run one after the other, and with io_uring so do, by chance of 1 in 64,
 *   those of two files; writes with O_DIRECT on ext4 or xfs do not.
 * - SIGXFSZ is for the process to ignore.
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
 * One write. All of it, @buf and @fd included, is the caller's and stays as it is until done() is
 * called; then it is free for anything, to be submitted again as well.
 */
struct io_write {
	int fd; /* better without O_NONBLOCK, which some kernel may take at its word (-EAGAIN) */
	const void *buf;
	size_t len;
	uint64_t off;	  /* at most INT64_MAX */
	struct caller as; /* for quota, reserved blocks, root_squash; no supplementary groups */
	/*
	 * Called once, in a thread of the engine that acts as the daemon and holds no lock of it.
	 * @result: bytes written, maybe fewer than len (0 too: the caller counts how often), or
	 * -errno of the backing. An O_DIRECT write that the backing finds misaligned is -EINVAL
	 * from io_uring, and served through the page cache by threads (backing_write). May submit;
	 * must not wait for anything slow, least of all the backing: with io_uring one thread makes
	 * all these calls, and the kernel may interrupt its system calls (EINTR) without any
	 * signal.
	 */
	void (*done)(struct io_write *w, ssize_t result);

	struct list node; /* the engine's from here on */
	unsigned person;
};

struct io {
	const struct io_ops *ops; /* const after create */
};

struct io_ops {
	const char *name;
	/* 0 or -errno. @depth: 1 to IO_MAX_DEPTH. */
	int (*create)(struct io **out, struct backing *b, unsigned depth);
	/* From any thread, also from done(). */
	void (*submit)(struct io *io, struct io_write *w);
	/* Waits until everything submitted is done, and for the threads. Not from done(). */
	void (*destroy)(struct io *io);
};

extern const struct io_ops io_uring_ops, io_threads_ops;

/*
 * With io_uring if that is wanted, not turned off, works here (the features of @b say so
 * afterwards) and @b has no ops of a test, which would see nothing of it; else with threads.
 * @depth, put in range: how many the backing is given at once. Acts as io_write.as if @b has
 * FEATURE_ACT_AS_CALLER. 0 or -errno, @e filled.
 */
int io_create(struct io **out, struct backing *b, unsigned depth, bool want_uring, struct error *e);
void io_submit(struct io *io, struct io_write *w);
void io_destroy(struct io *io); /* NULL is fine */
const char *io_name(const struct io *io);

/* How long a thread of a pool made from now on waits for work before it ends. For tests. */
extern unsigned io_threads_idle_ms;

#endif
