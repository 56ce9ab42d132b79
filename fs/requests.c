/* SPDX-License-Identifier: MIT */
#include "fs/requests.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/list.h"
#include "engine/base/lock.h"
#include "engine/base/wait.h"
#include "engine/base/worker.h"
#include "fs/fs.h"
#include "fs/requests_inside.h"

/* As much as the kernel lets a mount have that is made now. */
static size_t write_max(void)
{
	__cleanup_file FILE *f = fopen(REQUEST_PAGES_LIMIT, "re");
	size_t pages;

	if (!f || fscanf(f, "%zu", &pages) != 1 || pages < REQUEST_MAX_BYTES / PAGE)
		return REQUEST_MAX_BYTES;
	return pages < WRITE_MAX_BYTES / PAGE ? pages * PAGE : WRITE_MAX_BYTES;
}

struct requests *requests_create(struct fs *fs)
{
	struct requests *rs = calloc(1, sizeof(*rs));

	if (!rs)
		return NULL;
	rs->fs = fs;
	lock_init(&rs->lock, LOCK_REQUESTS);
	waitq_init(&rs->changed, &rs->lock);
	waitq_init(&rs->called, &rs->lock);
	receiver_init(&rs->receiver, write_max());
	list_init(&rs->active);
	list_init(&rs->queued);
	list_init(&rs->free);
	return rs;
}

void requests_destroy(struct requests *rs)
{
	struct list *l, *tmp;

	if (!rs)
		return;
	list_for_each_safe (l, tmp, &rs->queued)
		request_free(rs, container_of(l, struct request, link));
	list_for_each_safe (l, tmp, &rs->free)
		request_free(rs, container_of(l, struct request, link));
	receiver_finish(&rs->receiver);
	lock_finish(&rs->lock);
	free(rs);
}

/* Waits until no thread is left, at most @drain_s after the end was seen. 0 or -EBUSY. */
static int wait_for_end(struct requests *rs, int drain_s)
{
	uint64_t until;
	int err = 0;
	LOCK_SCOPE(&rs->lock);

	while (!rs->exited)
		wait_out(&rs->changed, CLOCK_NEVER);
	until = clock_mono_ns() + (uint64_t)drain_s * NSEC_PER_SEC;
	while (rs->nr_threads && !err)
		err = wait_out(&rs->changed, until);
	return rs->nr_threads ? -EBUSY : 0;
}

int requests_serve(struct requests *rs, struct fuse_session *se,
		   void (*ready)(struct fs *fs, int err), int drain_s)
{
	struct worker watchdog;
	bool started;
	int err;

	rs->se = se;
	rs->fd = rs->receiver.fd = fuse_session_fd(se);
	fcntl(rs->fd, F_SETFL, fcntl(rs->fd, F_GETFL) | O_NONBLOCK);
	rs->ready = ready;
	err = worker_start(&watchdog, "ckptfs-watchdog", requests_watchdog_main, rs);
	if (err)
		return err;
	{
		LOCK_SCOPE(&rs->lock);
		started = requests_start_server_locked(rs, MAX_THREADS) &&
			  requests_start_server_locked(rs,
						       MAX_THREADS); /* one serves, one is called */
		rs->exited = !rs->nr_threads;
	}
	if (!started)
		ready(rs->fs, -EAGAIN); /* unmounts, which ends the thread that may run */
	err = wait_for_end(rs, drain_s);
	if (err)
		return err; /* the watchdog stays, for the requests that are left */
	worker_join(&watchdog);
	return started ? 0 : -EAGAIN;
}
