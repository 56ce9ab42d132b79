/* SPDX-License-Identifier: MIT */
/*
 * Gives a closed generation its name. The order is such that at every crash instant the name shows
 * the old file or the new one, whole:
 *
 *   the bytes are on the backing; digested, and their structure looked at
 *   time stamp and digest record are set
 *   the file is synced		(O1: from here on it is durable)
 *   the staging name becomes the target's		(O5: this is the decision, of a single file)
 *   the directory is synced	(from here on it is committed)
 *
 * A crash before the rename leaves the hidden staging file, which fsck clears away. Generations of
 * one name are published in the order in which they were begun; an overtaken one is dropped.
 *
 * The publisher threads do this; a committer does it for the pointers of its checkpoint. They hold
 * the units' lock to choose a generation, and drop it to work.
 */
#include "engine/commit/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/wait.h"
#include "engine/calls/generation_impl.h"
#include "engine/calls/journal_held.h"
#include "engine/cluster/fail.h"
#include "engine/commit/layout.h"
#include "engine/commit/ordinary.h"
#include "engine/content/recorded.h"
#include "engine/content/structure.h"
#include "engine/flush/flush.h"
#include "engine/journal/journal_removal.h"
#include "engine/journal/journal_written.h"
#include "engine/redo/order.h"

/*
 * After this time an expected open, or the first one, will not come: its program died. If it is too
 * short, a slow open fails with ESTALE, and the kernel repeats it.
 */
#define ABANDONED_NS   (5 * NSEC_PER_SEC)
#define LOOK_NS	       (NSEC_PER_SEC / 4)
#define FIRST_PAUSE_NS (10 * NSEC_PER_MSEC)
#define MOST_PAUSE_NS  NSEC_PER_SEC

/* True if it is useless to go on. */
static bool is_over(struct generation *g)
{
	struct units *us = g->units;

	return us->ending || wait_interrupted() || content_error(g->content);
}

/* True if the publish failed by an error that may pass, and is retried later, after others. */
static bool try_again(struct generation *g, int err)
{
	struct units *us = g->units;
	uint64_t now = clock_mono_ns(), patience = flush_patience_ns(err, us->retry_ns);
	bool late = g->failing_ns && now - g->failing_ns > patience;

	if (!flush_error_may_pass(err) || is_over(g))
		return false;
	if (late && !(room_is_short(err) && room_for_file(g, &g->shortage)))
		return false;
	LOCK_SCOPE(&us->lock);
	if (!g->failing_ns || late) {
		g->failing_ns = now;
		g->pause_ns = FIRST_PAUSE_NS;
	}
	g->again_ns = now + g->pause_ns;
	g->pause_ns = g->pause_ns < MOST_PAUSE_NS ? g->pause_ns * 2 : MOST_PAUSE_NS;
	return true;
}

/* Repeats @expr until it works, fails for good, or has failed for io_retry_s. */
#define RETRY(g, expr) \
	({ \
		uint64_t since_ = clock_mono_ns(), pause_ = FIRST_PAUSE_NS; \
		int err_; \
		while ((err_ = (expr)) < 0 && flush_error_may_pass(err_) && \
		       clock_mono_ns() - since_ < flush_patience_ns(err_, (g)->units->retry_ns) && \
		       !is_over(g)) { \
			wait_ns(pause_); \
			pause_ = pause_ < MOST_PAUSE_NS ? pause_ * 2 : MOST_PAUSE_NS; \
		} \
		err_; \
	})

static int digest(struct generation *g, uint64_t size, char hex[DIGEST_HEX], struct error *e)
{
	struct source src = {.read = content_source_read, .arg = g->content};
	char name[NAME_MAX + 1];
	int err = digest_finish(g->content->digest, size, &src, NULL, hex);

	if (err) {
		char path[PATH_MAX];

		generation_path(g, path, sizeof(path));
		return FAIL(e, -err, PUBLISH_FAILED, path, "reading it back", strerror(-err), path);
	}
	{
		LOCK_SCOPE(&g->units->lock);
		memcpy(name, g->target.name, sizeof(name));
	}
	/* A file of a checkpoint may be closed before it is whole: the rule tells when all are. */
	return g->checkpoint ? 0 : structure_check(&src, name, size, e);
}

/*
 * Sets the mtime, and the digest record, which is valid for this size and mtime only. *@mtime_ns
 * becomes what the backing, with its coarser clock, made of it.
 */
static int stamp(struct generation *g, const char *hex, uint64_t size, uint64_t *mtime_ns)
{
	struct backing b = backing_for(g->units->contents->backing, &g->owner);
	struct timespec times[2] = {
		{.tv_nsec = UTIME_OMIT},
		{.tv_sec = (time_t)(*mtime_ns / NSEC_PER_SEC),
		 .tv_nsec = (long)(*mtime_ns % NSEC_PER_SEC)},
	};
	char record[DIGEST_RECORD_MAX];
	struct statx stx;
	int err = backing_utimens(&b, g->content->fd, times);

	if (!err)
		err = backing_stat(&b, g->content->fd, &stx);
	if (err)
		return err;
	*mtime_ns = (uint64_t)stx.stx_mtime.tv_sec * NSEC_PER_SEC + stx.stx_mtime.tv_nsec;
	digest_record_format(record, sizeof(record), hex, size, *mtime_ns);
	/* The commit file has the digest of a file of a checkpoint. */
	return recorded_put(&b, &g->owner, g->content->fd, record, !g->checkpoint);
}

/* Writes, stamps, syncs. A failed sync means another write, and so another mtime. */
static int seal(struct generation *g, const char *hex, uint64_t size, uint64_t *mtime_ns,
		const char **step)
{
	int err = content_write_back(g->content);

	*step = "writing it";
	if (!err) {
		*step = "setting its attributes";
		err = stamp(g, hex, size, mtime_ns);
	}
	if (!err) {
		*step = "syncing it";
		err = FAULT(FILE_UNSYNCED) ? 0 : content_sync(g->content);
	}
	return err;
}

/* True if this mount published that inode, perhaps just when this generation was being begun. */
static bool is_ours(struct generation *g, const struct inode_id *id)
{
	const struct ended *e;
	LOCK_SCOPE(&g->units->lock);

	e = history_find_inode(&g->units->history, id);
	return e && e->state == GENERATION_COMMITTED;
}

/* Another node has changed this pointer: no conflict, the later write counts. 1: the other. */
static int take_turns(struct generation *g, struct backing *b, int dir, const char *name)
{
	struct units *us = g->units;

	if (!order_is_newer(b, dir, name, generation_written_ns(g)))
		return 0;
	LOCK_SCOPE(&us->lock);
	g->overtaken = true;
	return 1;
}

/* Checks that the name is what it was when the generation was opened. 1: a later pointer has it. */
static int check_target(struct generation *g, int dir, const char *name, struct error *e)
{
	struct backing b = backing_for(g->units->contents->backing, &g->owner);
	struct inode_id id, expected;
	struct statx stx;
	bool replaces;
	int err = backing_stat_at(&b, dir, name, &stx);

	if (err && err != -ENOENT)
		return FAIL(e, -err, PUBLISH_FAILED, name, "looking at its name", strerror(-err),
			    name);
	{
		LOCK_SCOPE(&g->units->lock);
		replaces = g->replaces;
		expected = g->replaced;
	}
	if (err == -ENOENT)
		return 0; /* what it was to replace is gone: nothing is lost */
	id = inode_id_of(&stx);
	if ((replaces && same_inode(&id, &expected)) || is_ours(g, &id))
		return 0;
	if (g->pointer && accord_has_others(g->units) && stx.stx_uid == g->owner.uid)
		return take_turns(g, &b, dir, name);
	return FAIL(e, EBUSY, PUBLISH_CONFLICT, name, g->staging);
}

int generation_sync(struct generation *g)
{
	int err = RETRY(g, content_sync(g->content)), sticking = content_error(g->content);

	if (sticking)
		return sticking;
	if (err && is_over(g))
		return -EINTR;
	if (err && err != -EINTR)
		content_fail(g->content, err);
	return err;
}

/* An XFS that has shut down reports that at the fsync of a file, but not of a directory. */
static int make_name_durable(struct generation *g, int dir)
{
	struct backing b = backing_for(g->units->contents->backing, &g->owner);
	int err = backing_sync_dir(&b, dir);

	return err ? err : backing_sync(&b, g->content->fd, false);
}

/*
 * Tells other generations that @g has the name: what they replace is @g now. Older ones that are
 * still being written are overtaken.
 */
static void tell_others(struct generation *g)
{
	struct generation *o;
	bool older = true;
	LOCK_SCOPE(&g->units->lock);

	removal_of_file_replaced_locked(g->units, &g->target.dir_id, g->target.name);
	if (g->pointer)
		held_overtake_locked(g->units, &g->target, g->opened_ns);
	live_for_each_of (o, &g->units->live, &g->target.dir_id, g->target.name) {
		if (o == g) {
			older = false;
		} else {
			o->replaces = true;
			o->replaced = g->id;
			o->overtaken = older;
		}
	}
}

/* Drops the cached content of the file that had the name, which no lookup finds any more. */
static void forget_replaced(struct generation *g)
{
	struct content *old = g->replaces ? content_find(g->units->contents, &g->replaced) : NULL;

	if (old)
		content_forget(old);
	content_put(old);
}

/* Makes the inode of @g a file like any other. */
static void known_to_others(struct generation *g)
{
	struct backing b = backing_for(g->units->contents->backing, &g->owner);
	struct statx stx;

	if (backing_stat(&b, g->content->fd, &stx))
		stx = (struct statx){0}; /* the next open drops what is cached of it */
	content_published(g->content, &stx);
}

static void file_in(struct generation *g, const char *hex, uint64_t size, uint64_t mtime_ns)
{
	struct filed f = {.id = g->id,
			  .size = size,
			  .mtime_ns = mtime_ns,
			  .rank = g->rank,
			  .by_handle = content_by_handle(g->content)};

	memcpy(f.xxh3, hex, sizeof(f.xxh3));
	f.tensors = content_tensors(g->content);
	checkpoint_add_filed(g->checkpoint, &f);
}

/* The target of @g. No thread changes it during a publish. */
static int target_of(struct generation *g, char path[PATH_MAX], char name[NAME_MAX + 1])
{
	generation_path(g, path, PATH_MAX);
	LOCK_SCOPE(&g->units->lock);
	memcpy(name, g->target.name, NAME_MAX + 1);
	return g->target.dir;
}

int publish_whole(struct generation *g, struct error *e)
{
	struct units *us = g->units;
	struct content *ct = g->content;
	char hex[DIGEST_HEX], path[PATH_MAX];
	uint64_t size, mtime_ns;
	const char *step;
	int err = 0;
	{
		LOCK_SCOPE(&us->contents->cache->lock);
		size = ct->size;
	}
	mtime_ns = generation_written_ns(g);
	generation_path(g, path, sizeof(path));
	{
		LOCK_SCOPE(&us->lock);
		g->size = size;
		g->flushed_ns = clock_mono_ns();
		free(g->path);
		g->path = strdup(path);
	}
	if (!g->ordinary)
		err = digest(g, size, hex, e);
	if (err)
		return err;
	err = g->ordinary ? ordinary_prepare(g, &step) : seal(g, hex, size, &mtime_ns, &step);
	if (err)
		return FAIL(e, -err, PUBLISH_FAILED, path, step, strerror(-err), path);
	if (g->checkpoint) { /* a file of a checkpoint */
		file_in(g, hex, size, mtime_ns);
		known_to_others(g);
		return 0;
	}
	if (!g->ordinary) {
		LOCK_SCOPE(&us->lock);
		generation_set_state(g, GENERATION_NAMING);
		log_debug("'%s' is durable: %llu bytes, xxh3 %s", path, (unsigned long long)size,
			  hex);
	}
	return 0;
}

/* Removes the staging file of @g, which is not to be published. */
static void forget(struct generation *g)
{
	generation_unstage(g, g->target.dir);
}

int publish_name(struct generation *g, bool *named, struct error *e)
{
	char path[PATH_MAX], name[NAME_MAX + 1];
	struct backing b = backing_for(g->units->contents->backing, &g->owner);
	int dir = target_of(g, path, name), err = check_target(g, dir, name, e);
	__cleanup_fd int held = -1; /* the file that has the name now */
	struct statx replaced;

	*named = false;
	if (err > 0)
		forget(g);
	if (err)
		return err < 0 ? err : 0;
	err = above_sync(g->units, &g->owner, dir);
	if (err)
		return FAIL(e, -err, PUBLISH_FAILED, path, "syncing the directories above it",
			    strerror(-err), path);
	held = recorded_hold(&b, dir, name, &replaced);
	err = generation_move(g, dir, dir, name);
	if (err)
		return FAIL(e, -err, PUBLISH_FAILED, path, "giving it its name", strerror(-err),
			    path);
	*named = true;
	tell_others(g);
	/* @g has its name: a failed sync is retried, not put off. */
	err = RETRY(g, make_name_durable(g, dir));
	if (err)
		return FAIL(e, -err, PUBLISH_UNSYNCED, path, strerror(-err), path);
	backing_unlock(g->content->fd);
	known_to_others(g);
	forget_replaced(g);
	if (held >= 0)
		recorded_forget(&b, &replaced);
	if (!g->ordinary)
		log_debug("'%s' is committed", path);
	return 0;
}

/* True if an older generation of its name waits, or any is being published now. */
static bool must_wait_locked(struct generation *g)
{
	struct generation *o;
	bool older = true;

	live_for_each_of (o, &g->units->live, &g->target.dir_id, g->target.name) {
		if (o == g)
			older = false;
		else if (g->pointer && generation_rests_in(o, GENERATION_SEALED))
			continue; /* it waits for another commit, or comes after @g */
		else if (older ? !generation_rests_in(o, GENERATION_OPEN)
			       : generation_is_held_locked(o))
			return true;
	}
	return removal_is_applied_locked(g->units, &g->target.dir_id, g->target.name);
}

void publish_end(struct generation *g, enum generation_state state, int err, bool named,
		 const char *reason)
{
	enum busy with = g->ordinary ? BUSY_ORDINARY : 0;
	struct units *us = g->units;

	if (err) {
		/* At umount an interrupted publish stays in staging, for fsck. */
		if (!us->ending && (named || !try_again(g, err)))
			generation_fail(g, err, reason);
		g->ordinary = false; /* it has to fall due once more */
		generation_let_go(g, with);
	} else {
		LOCK_SCOPE(&us->lock);
		if (state == GENERATION_COMMITTED)
			removals_published_locked(us, g->inherited ? NULL : g->maker,
						  &g->target.dir_id, g->target.name);
		g->err = 0; /* an error of its program meanwhile comes too late */
		g->reason[0] = '\0';
		if (with)
			busy_end(us, &g->busy, with);
		generation_end_locked(g, state);
	}
	if (!err && state == GENERATION_COMMITTED && !g->checkpoint && !g->pointer)
		layout_notice(g);
}

/* Publishes @g, which is PUBLISHING, or becomes ordinary. Only this thread has it. */
static void work_on(struct generation *g)
{
	struct units *us = g->units;
	struct error e = {0};
	bool needless, dropped, named = false;
	char path[PATH_MAX];
	int err = 0;
	{
		LOCK_SCOPE(&us->lock);
		/* After a later pointer nothing is missed. */
		dropped = g->pointer && !g->overtaken && pointer_fate(g) == FATE_DROP;
		needless = g->overtaken || dropped || (g->abandoned && !g->checkpoint) ||
			   (g->inherited && !g->changed);
	}
	if (needless && g->checkpoint)
		known_to_others(g); /* nothing was written to it after all */
	else if (needless)
		forget(g);
	else
		err = publish_whole(g, &e);
	if (!needless && !err && !g->checkpoint)
		err = publish_name(g, &named, &e);
	if (dropped) {
		generation_path(g, path, sizeof(path));
		pointer_tell_dropped(us, g->owner.uid, path, g->names, g->waits_for);
	}
	publish_end(g,
		    g->checkpoint || g->ordinary ? GENERATION_DURABLE
		    : named			 ? GENERATION_COMMITTED
						 : GENERATION_DROPPED,
		    err, named, e.text);
}

static void give_up_abandoned_locked(struct generation *g, uint64_t now)
{
	struct list *l, *tmp;

	list_for_each_safe (l, tmp, &g->expected) {
		struct opener *o = container_of(l, struct opener, link);

		if (now - o->since_ns > ABANDONED_NS) {
			generation_miss_locked(g, o);
			generation_settle_locked(g);
		}
	}
	if (!generation_rests_in(g, GENERATION_OPEN) || g->nr_handles || !list_empty(&g->writers) ||
	    now - g->opened_ns < ABANDONED_NS)
		return;
	g->abandoned = true;
	generation_set_state(g, GENERATION_SEALED);
}

/* Looks for what passing time made due: every LOOK_NS, as many may be open. */
static struct generation *look_at_open_locked(struct units *us, uint64_t now)
{
	struct list *l;

	if (now - us->looked_ns < LOOK_NS)
		return NULL;
	list_for_each (l, &us->live.all) {
		struct generation *g = container_of(l, struct generation, link);

		give_up_abandoned_locked(g, now);
		if (ordinary_is_due_locked(g, now) && !must_wait_locked(g)) {
			g->ordinary = true;
			return g; /* others may be due, too */
		}
	}
	us->looked_ns = now;
	return NULL;
}

/* The next generation to publish, or NULL. */
static struct generation *choose_locked(struct units *us)
{
	uint64_t now = clock_mono_ns();
	struct generation *due = look_at_open_locked(us, now);
	struct list *l;

	if (due)
		return due;
	list_for_each (l, &us->live.sealed) {
		struct generation *g = container_of(l, struct generation, sealed);

		if (!generation_rests(g) || g->nr_changing || g->again_ns > now)
			continue;
		if (g->pointer &&
		    (fate_waits(pointer_fate(g)) || held_is_taken_locked(us, &g->target)))
			continue;
		/*
		 * All writers have closed it, but a descriptor is left somewhere (a fork, a dup, a
		 * mapping): another write may come.
		 */
		if (g->nr_handles && !g->hurried && !g->durable_calls &&
		    now - g->closed_ns < us->quiet_ns)
			continue;
		/* One thread of a program may still write while another closes. */
		if (content_rests(g->content) && (g->checkpoint || !must_wait_locked(g)))
			return g;
	}
	return NULL;
}

/* Drops the lock meanwhile. Removes the staging file of a failed generation. */
static bool clear_one_locked(struct units *us)
{
	struct generation *g;

	if (list_empty(&us->litter))
		return false;
	g = container_of(us->litter.next, struct generation, link);
	list_del(&g->link);
	lock_drop(&us->lock);
	forget(g);
	generation_put(g);
	lock_take(&us->lock);
	return true;
}

void *publisher_main(void *units)
{
	struct units *us = units;

	lock_take(&us->lock);
	while (!us->ending || !list_empty(&us->litter)) {
		struct generation *g;

		if (clear_one_locked(us))
			continue;
		g = choose_locked(us);
		if (!g) {
			units_wait_for_work_locked(us);
			continue;
		}
		if (g->ordinary)
			busy_begin(&g->busy, BUSY_ORDINARY);
		else
			generation_set_state(g, GENERATION_PUBLISHING);
		g->refs++;
		lock_drop(&us->lock);
		work_on(g);
		generation_put(g);
		lock_take(&us->lock);
	}
	lock_drop(&us->lock);
	return NULL;
}
