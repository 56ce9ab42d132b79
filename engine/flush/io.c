/* SPDX-License-Identifier: MIT */
#include "engine/flush/io.h"

#include <assert.h>
#include <signal.h>
#include <string.h>

int io_create(struct io **out, struct backing *b, unsigned depth, bool want_uring, struct error *e)
{
	struct features *f = b->features;
	int err;

	if (depth < 1)
		depth = 1;
	if (depth > IO_MAX_DEPTH)
		depth = IO_MAX_DEPTH;
	if (b->ops != &backing_real_ops) /* a test's table, which must see every write */
		want_uring = false;
	if (want_uring && (feature(f, FEATURE_IO_URING) || feature_untried(f, FEATURE_IO_URING))) {
		err = io_uring_ops.create(out, b, depth);
		features_set(f, FEATURE_IO_URING, !err);
		if (!err)
			return 0;
	}
	err = io_threads_ops.create(out, b, depth);
	return err ? FAIL(e, -err, IO_THREADS, strerror(-err)) : 0;
}

void io_submit(struct io *io, struct io_write *w)
{
	assert(w->off <= INT64_MAX && w->done);
	io->ops->submit(io, w);
}

void io_destroy(struct io *io)
{
	if (io)
		io->ops->destroy(io);
}

const char *io_name(const struct io *io)
{
	return io->ops->name;
}
