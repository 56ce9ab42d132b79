/* SPDX-License-Identifier: MIT */
#include "engine/commit/start.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/base/wait.h"
#include "engine/calls/checkpoint_impl.h"
#include "engine/calls/generation_impl.h"
#include "engine/calls/journal_held.h"
#include "engine/cluster/cluster.h"
#include "engine/cluster/fail.h"
#include "engine/commit/commit_impl.h"
#include "engine/commit/journal_following.h"
#include "engine/commit/journal_removal_work.h"
#include "engine/commit/publish.h"
#include "engine/commit/trash_thread.h"
#include "engine/save/trash_queue.h"

void units_content_failed(struct units *us, const struct inode_id *id, int err)
{
	struct generation *g = units_find_inode(us, id);
	char text[MESSAGE_MAX], path[PATH_MAX];
	struct content *ct;

	if (g) {
		generation_path(g, path, sizeof(path));
		MESSAGE(text, FLUSH_FAILED, path, strerror(-err), path);
		generation_fail(g, err, text);
		generation_put(g);
		return;
	}
	{
		LOCK_SCOPE(&us->lock);
		if (history_find_inode(&us->history, id))
			return; /* its save ended before, and people know that */
	}
	ct = content_find(us->contents, id);
	units_path(us, ct ? ct->fd : -1, "", path, sizeof(path));
	content_put(ct);
	MESSAGE(text, FILE_FLUSH_FAILED, path, strerror(-err));
	failures_add(us->failures, (uid_t)-1, "flush", path, -err, text);
}

bool units_content_full(struct units *us, const struct inode_id *id, struct shortage *s)
{
	struct generation *g = units_find_inode(us, id);
	bool may = g && room_for_file(g, s);

	generation_put(g);
	return may;
}

void units_content_rested(struct units *us)
{
	LOCK_SCOPE(&us->lock);

	waitq_wake(&us->work);
}

static int start(struct units *us, const char *name, void *(*main)(void *), unsigned nr)
{
	int err = 0;

	while (!err && nr--) {
		err = worker_start(&us->threads[us->nr_threads], name, main, us);
		us->nr_threads += !err;
	}
	return err;
}

static void take_options(struct units *us, const struct unit_options *o)
{
	us->contents = o->contents;
	us->failures = o->failures;
	us->notices = o->notices;
	us->rules = o->rules;
	us->coord = o->coord;
	us->coord_arg = o->coord_arg;
	us->node = o->node;
	us->nodes = o->nodes;
	us->forget_ns = 2 * o->lease_s * NSEC_PER_SEC;
	us->retry_ns = o->retry_s * NSEC_PER_SEC;
	us->quiet_ns = o->quiet_s * NSEC_PER_SEC;
	us->order_ns = o->order_timeout_s * NSEC_PER_SEC;
	us->commit_ns = o->commit_timeout_s * NSEC_PER_SEC;
	us->open_ns = o->open_max_s * NSEC_PER_SEC;
	us->room.delete_last = o->delete_last;
	us->room.wait_ns = o->full_wait_s * NSEC_PER_SEC;
}

/* The lock, queues and lists: what cannot fail. */
static void init_lists(struct units *us)
{
	lock_init(&us->lock, LOCK_UNITS);
	waitq_init(&us->changed, &us->lock);
	waitq_init(&us->work, &us->lock);
	waitq_init(&us->commits, &us->lock);
	waitq_init(&us->trashed, &us->lock);
	us->recover_ns = CLOCK_NEVER;
	list_init(&us->litter);
	list_init(&us->checkpoints);
	list_init(&us->wrecks.all);
	list_init(&us->accords);
	list_init(&us->trash);
	list_init(&us->room.wanted);
	list_init(&us->removals);
	list_init(&us->held);
	list_init(&us->drains);
	list_init(&us->committed.list);
	waitq_init(&us->committed.added, &us->lock);
}

static int init_tables(struct units *us)
{
	int err = live_init(&us->live);

	if (!err)
		err = table_init(&us->removed);
	if (!err)
		err = casualties_init(&us->casualties);
	if (!err)
		err = replaced_dirs_init(&us->replaced_dirs);
	if (!err)
		err = wrecks_init(&us->wrecks);
	if (!err)
		err = known_init(&us->left, true);
	if (!err)
		err = known_init(&us->savers, false);
	return err;
}

static int start_threads(struct units *us)
{
	int err = start(us, "ckptfs-publish", publisher_main, PUBLISHERS);

	if (!err)
		err = start(us, "ckptfs-commit", committer_main, COMMITTERS);
	if (!err)
		err = start(us, "ckptfs-trash", trash_main, 1);
	if (!err && us->nodes)
		err = us->accord_wake < 0 ? -EMFILE : start(us, "ckptfs-accord", accord_main, 1);
	return err;
}

int units_create(struct units **out, const struct unit_options *o, struct error *e)
{
	struct units *us = calloc(1, sizeof(*us));
	int err;

	*out = us;
	if (!us)
		return FAIL(e, ENOMEM, IO_THREADS, strerror(ENOMEM));
	take_options(us, o);
	us->accord_wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	init_lists(us);
	err = init_tables(us);
	if (err)
		FAIL(e, -err, IO_THREADS, strerror(-err));
	else
		err = jobs_create(&us->jobs, checkpoints_process_ended, us, e);
	if (!err) {
		err = start_threads(us);
		if (err)
			FAIL(e, -err, IO_THREADS, strerror(-err));
	}
	if (err) {
		units_stop(us);
		units_destroy(us);
		*out = NULL;
	}
	return err;
}

void units_stop(struct units *us)
{
	uint64_t one = 1;
	struct list *l;

	if (!us)
		return;
	{
		LOCK_SCOPE(&us->lock);
		us->ending = true;
		waitq_wake_all(&us->changed);
		waitq_wake_all(&us->work);
		waitq_wake_all(&us->commits);
		waitq_wake_all(&us->trashed);
		waitq_wake_all(&us->committed.added);
		if (us->accord_wake >= 0 && write(us->accord_wake, &one, sizeof(one)) < 0)
			log_debug("eventfd: %s", strerror(errno));
	}
	contents_end(us->contents);
	while (us->nr_threads)
		worker_join(&us->threads[--us->nr_threads]);
	lock_take(&us->lock);
	trash_empty_locked(us); /* trash of other threads since the trash thread ended */
	lock_drop(&us->lock);
	accords_finish(us);
	list_for_each (l, &us->checkpoints) /* the next mount does what is decided, and not done */
		following_release(container_of(l, struct checkpoint, link));
	while (!list_empty(&us->live.all)) {
		struct generation *g = container_of(us->live.all.next, struct generation, link);

		generation_get(g);
		content_discard(g->content);
		lock_take(&us->lock);
		generation_end_locked(g, GENERATION_DROPPED);
		lock_drop(&us->lock);
		generation_put(g);
	}
	while (!list_empty(&us->checkpoints)) {
		struct checkpoint *cp = container_of(us->checkpoints.next, struct checkpoint, link);

		list_del(&cp->link);
		checkpoint_put(cp);
	}
	wrecks_finish(us);
	removals_finish(us);
	lock_take(&us->lock);
	trash_empty_locked(us);
	lock_drop(&us->lock);
	held_finish(us);
	casualties_finish(&us->casualties);
	known_finish(&us->left);
	known_finish(&us->savers);
	room_finish(us);
}

void units_destroy(struct units *us)
{
	if (!us)
		return;
	history_finish(&us->history);
	committed_finish(us);
	live_finish(&us->live);
	table_finish(&us->removed);
	replaced_dirs_finish(&us->replaced_dirs);
	jobs_destroy(us->jobs);
	lock_finish(&us->lock);
	if (us->accord_wake >= 0)
		close(us->accord_wake);
	free(us);
}

void units_set_knower(struct units *us, bool (*knows)(void *arg, const struct inode_id *id),
		      void *arg)
{
	us->knows = knows;
	us->knows_arg = arg;
}

void units_progress(struct units *us, struct units_progress *p)
{
	struct list *l;
	LOCK_SCOPE(&us->lock);

	*p = (struct units_progress){0};
	list_for_each (l, &us->live.all) {
		struct generation *g = container_of(l, struct generation, link);

		if (g->state == GENERATION_OPEN)
			p->open++;
		else
			p->closed++;
		p->dirty_bytes += content_dirty_bytes(g->content);
	}
}

void units_no_more_calls(struct units *us)
{
	struct list *l;
	LOCK_SCOPE(&us->lock);

	list_for_each (l, &us->live.all) {
		struct generation *g = container_of(l, struct generation, link);

		while (!list_empty(&g->expected))
			generation_miss_locked(g,
					       container_of(g->expected.next, struct opener, link));
		if (list_empty(&g->writers) && g->flushed)
			g->nr_handles = 0;
		generation_settle_locked(g);
	}
	us->no_more_calls = true;
}
