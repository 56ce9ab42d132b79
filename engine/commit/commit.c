/* SPDX-License-Identifier: MIT */
/*
 * Commits a checkpoint whose end was seen. The order is such that at every crash instant the name
 * shows the old checkpoint or the new one, whole:
 *
 *   O1  its files are durable and digested (publish.c; others here, commit_list.c)
 *   O2  its directories are synced, and the one that it is in
 *   O3  the commit file is written and synced, in staging
 *   O4  the decision is recorded, write-once; a crash after this is redone by engine/redo/recover.c
 *   O5  the staging directory gets its name, the parent is synced
 *   O6  pointers that wait for it get their names (journal_following.h)
 *   O7  what was removed leaves; then the record goes
 *
 * A committed checkpoint of which all files were removed goes the same way, but without a commit
 * file: it is an ordinary directory then.
 *
 * The committer threads do this. They hold the units' lock to choose a checkpoint, and drop it to
 * work. One thread at a time has a checkpoint (cp->taken).
 */
#include "engine/commit/commit_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/calls/checkpoint_impl.h"
#include "engine/calls/journal_held.h"
#include "engine/calls/journal_resolve.h"
#include "engine/cluster/cluster.h"
#include "engine/cluster/fail.h"
#include "engine/cluster/missing.h"
#include "engine/commit/decide.h"
#include "engine/commit/journal_following.h"
#include "engine/commit/journal_removal_work.h"
#include "engine/flush/flush.h"
#include "engine/save/publish_checkpoint.h"

#define FIRST_PAUSE_NS (10 * NSEC_PER_MSEC)
#define MOST_PAUSE_NS  NSEC_PER_SEC

/* Takes over what is known of tensors in files that are unchanged. */
static int inherit_tensors(struct listing *l)
{
	struct checkpoint *cp = l->cp;
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	__cleanup_fd int old = -1;

	if (!cp->inherits)
		return 0;
	old = backing_pin(&b, cp->target.dir, cp->target.name);
	if (old < 0)
		return 0; /* nothing had the name after all */
	return shards_inherit(&l->shards, &b, old, l->entries, l->nr);
}

/*
 * Decides between checkpoint and ordinary directory. @cp becomes ordinary if nothing is left of the
 * committed checkpoint, and no file shows a new one. -ENODATA: no files. -ECANCELED: @cp must not
 * become ordinary, and the removal is cancelled.
 */
static int judge(struct listing *l)
{
	struct checkpoint *cp = l->cp;

	if (!l->files && !cp->follows)
		return -ENODATA;
	cp->ordinary = cp->follows && (!l->files || (!cp->nr_shared && !cp->rule));
	if (!cp->ordinary)
		return 0;
	following_release(cp); /* an ordinary directory is never committed: nothing follows */
	return cp->may_be_ordinary ? 0 : -ECANCELED;
}

/* (O2, O3) Makes @l durable in staging; with a commit file unless ordinary. @step: for messages. */
static int make_whole(struct listing *l, struct commit_header *header, const char **step)
{
	struct checkpoint *cp = l->cp;
	struct units *us = cp->units;
	struct backing b = backing_owner(us->contents->backing, &cp->owner);
	int err = inherit_tensors(l);

	if (!err)
		err = commit_fill_header(cp, l->path, header);
	if (!err && cp->ordinary) {
		err = backing_sync(&b, cp->fd, false);
	} else if (!err) {
		*step = "writing its commit file";
		err = commit_put_into_staging(l, header);
	}
	if (err)
		return err;
	following_prepare(cp);
	err = backing_sync_dir(&b, cp->target.dir);
	return err ? err : above_sync(us, &cp->owner, cp->target.dir);
}

/* (O4, O5) @cp is NAMING. Repeating this after a crash or an error changes nothing decided. */
static int decide(struct checkpoint *cp, const char **step)
{
	int err = 0;

	if (!cp->recorded) {
		*step = "recording the decision";
		cp->decided = true;
		if (cp->following)
			cp->following->recorded = true;
		if (FAULT(PUBLISHED_FIRST))
			publish_checkpoint(cp);
		err = decision_record(cp, cp->unit, cp->following ? &cp->following->order : NULL);
		cp->recorded = !err;
	}
	if (!err) {
		*step = "giving it its name";
		accord_tidy(cp);
		err = publish_checkpoint(cp);
	}
	if (!err)
		following_point(cp);
	return err;
}

/* Commits @cp, which no process changes any more. @step: for the message, unless @e has one. */
static int commit(struct checkpoint *cp, const char *path, const char **step, struct error *e)
{
	struct listing l = {.cp = cp, .path = path, .e = e};
	struct commit_header *header = malloc(sizeof(*header));
	int err = header ? 0 : -ENOMEM;

	*step = "listing its files";
	if (!err)
		err = accord_inherit(cp);
	if (!err)
		err = commit_listing_fill(&l);
	if (!err)
		err = judge(&l);
	if (!err) {
		LOCK_SCOPE(&cp->units->lock);
		cp->flushed_ns = clock_mono_ns();
		cp->size = l.bytes;
	}
	if (!err)
		err = make_whole(&l, header, step);
	if (!err) {
		LOCK_SCOPE(&cp->units->lock);
		free(cp->unit);
		cp->unit = strdup(header->unit);
		err = cp->unit ? 0 : -ENOMEM;
		if (!err)
			checkpoint_set_state(cp, GENERATION_NAMING);
	}
	if (!err)
		err = decide(cp, step);
	commit_listing_finish(&l);
	free(header);
	return err;
}

/* The pause until the next try: each is twice as long, up to MOST_PAUSE_NS. */
static uint64_t next_pause(struct checkpoint *cp)
{
	uint64_t pause = cp->pause_ns ? cp->pause_ns : FIRST_PAUSE_NS;

	cp->pause_ns = pause < MOST_PAUSE_NS ? pause * 2 : MOST_PAUSE_NS;
	return pause;
}

static bool try_again(struct checkpoint *cp, int err)
{
	struct units *us = cp->units;
	/* The service by which all nodes agree may be away for longer than a write may fail. */
	bool outage = err == -EHOSTDOWN && us->commit_ns > us->retry_ns;
	uint64_t now = clock_mono_ns();
	uint64_t patience = outage ? us->commit_ns : flush_patience_ns(err, us->retry_ns);
	bool late = cp->failing_ns && now - cp->failing_ns > patience;

	if (!flush_error_may_pass(err) || us->ending)
		return false;
	if (late && !(room_is_short(err) && room_for_checkpoint(cp, &cp->shortage)))
		return false;
	LOCK_SCOPE(&us->lock);
	if (!cp->failing_ns || late) {
		cp->failing_ns = now;
		cp->pause_ns = FIRST_PAUSE_NS;
	}
	cp->again_ns = now + next_pause(cp);
	return true;
}

static void end(struct checkpoint *cp, const char *path)
{
	struct units *us = cp->units;
	{
		LOCK_SCOPE(&us->lock);
		free(cp->path);
		cp->path = strdup(path);
		cp->err = 0; /* an error of its job meanwhile comes too late */
		cp->reason[0] = '\0';
		checkpoint_end_locked(cp, cp->ordinary ? GENERATION_DROPPED : GENERATION_COMMITTED);
		removals_committed_locked(us, cp);
		if (!cp->ordinary)
			wrecks_outlived_locked(us, cp);
	}
	accord_has_name(cp);
	if (!cp->ordinary)
		committed_add(cp, path);
	log_debug("'%s' is %s", path, cp->ordinary ? "an ordinary directory" : "committed");
	if (following_remove(cp))
		decision_forget(cp);
	else
		accord_followed(cp, false);
	backing_unlock(cp->fd);
}

/*
 * @cp is NAMING, and a try ended with @err. True if no commit is decided, nor will be, or the name
 * belongs to another: then @cp fails. Else this mount, and then the next, retries without end: a
 * failure that is told now might turn out wrong.
 */
static bool is_undone(struct checkpoint *cp, int err, bool again)
{
	if (cp->recorded)
		return err == -EBUSY || err == -ENOENT || err == -EBADMSG;
	if (cp->accord || err == -ECANCELED)
		return true;
	return !again && !cp->units->ending && decision_withdraw(cp, cp->unit);
}

/* Keeps @cp NAMING, to be tried again; tells people once. */
static void stay(struct checkpoint *cp, const char *path, const char *step, int err, bool again)
{
	struct units *us = cp->units;
	char text[MESSAGE_MAX];

	if (again || us->ending)
		return;
	{
		LOCK_SCOPE(&us->lock);
		cp->again_ns = clock_mono_ns() + next_pause(cp);
		if (cp->stuck)
			return;
		cp->stuck = true;
	}
	MESSAGE(text, COMMIT_STUCK, path, step, strerror(-err), cp->staging);
	failures_add(us->failures, cp->owner.uid, "checkpoint", path, -err, text);
}

static void fail(struct checkpoint *cp, const char *path, const char *step, int err,
		 const struct error *e)
{
	char text[MESSAGE_MAX];

	if (err == -EBUSY)
		MESSAGE(text, PUBLISH_CONFLICT, path, cp->staging);
	else if (err == -ECANCELED && cp->ordinary)
		MESSAGE(text, REMOVAL_KEPT, path);
	else if (err == -EILSEQ && e->err)
		memcpy(text, e->text, sizeof(text));
	else
		MESSAGE(text, COMMIT_FAILED, path, step, strerror(-err), path);
	if (!accord_refuse(cp, -failure_of_backing(err), text))
		checkpoint_fail(cp, failure_of_backing(err), text);
}

/* Makes one try for @cp, which is COMMITTING or NAMING. Only this thread has it. */
static void work_on(struct checkpoint *cp)
{
	char path[PATH_MAX];
	struct error e = {0};
	const char *step = "";
	bool again;
	int err;

	checkpoint_path(cp, path, sizeof(path));
	err = cp->state == GENERATION_NAMING ? decide(cp, &step) : commit(cp, path, &step, &e);
	if (!err) {
		end(cp, path);
		return;
	}
	if (accord_is_decided_elsewhere(cp)) {
		following_release(cp);
		checkpoint_give_back(cp);
		return;
	}
	again = try_again(cp, err);
	if (cp->state == GENERATION_NAMING && !is_undone(cp, err, again)) {
		stay(cp, path, step, err, again);
		return;
	}
	if (!again || !cp->following || !cp->following->recorded)
		following_release(cp);
	if (!cp->units->ending && !again)
		fail(cp, path, step, err, &e);
	checkpoint_give_back(cp);
}

/*
 * True if another checkpoint in the same directory comes first: it is being committed, or it ended,
 * or was frozen by a death, before @cp.
 */
static bool must_wait_locked(struct checkpoint *cp)
{
	struct list *l;

	list_for_each (l, &cp->units->checkpoints) {
		struct checkpoint *o = container_of(l, struct checkpoint, link);

		if (o == cp || !same_inode(&o->target.dir_id, &cp->target.dir_id))
			continue;
		if (checkpoint_is_held_locked(o) ||
		    (o->state <= GENERATION_SEALED && o->closed_ns && o->closed_ns < cp->closed_ns))
			return true;
	}
	if (removal_is_applied_locked(cp->units, &cp->target.dir_id, cp->target.name))
		return true;
	return !following_rests_locked(cp);
}

/* The next checkpoint to commit, or NULL. */
static struct checkpoint *choose_locked(struct units *us)
{
	uint64_t now = clock_mono_ns();
	struct list *l;

	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		checkpoint_look_for_end_locked(cp);
		if (cp->again_ns > now || cp->taken)
			continue;
		if (cp->state == GENERATION_NAMING ||
		    (cp->state == GENERATION_SEALED && checkpoint_is_flushed_locked(cp) &&
		     accord_may_commit(cp) && !must_wait_locked(cp)))
			return cp;
	}
	return NULL;
}

/* Drops the lock meanwhile. Does one thing that is due in the journal. False: nothing is. */
static bool journal_work_locked(struct units *us)
{
	return held_work_locked(us, false) || removals_work_locked(us) ||
	       pointers_work_locked(us) || held_work_locked(us, true);
}

void *committer_main(void *units)
{
	struct units *us = units;

	lock_take(&us->lock);
	while (!us->ending) {
		struct checkpoint *cp = choose_locked(us);

		if (!cp && (missing_work_locked(us) || journal_work_locked(us)))
			continue;
		if (!cp) {
			units_wait_for_commits_locked(us);
			continue;
		}
		cp->taken = true;
		cp->refs++;
		if (cp->state == GENERATION_SEALED) {
			checkpoint_set_state(cp, GENERATION_COMMITTING);
			following_take_locked(cp);
		}
		lock_drop(&us->lock);
		work_on(cp);
		lock_take(&us->lock);
		cp->taken = false;
		lock_drop(&us->lock);
		checkpoint_put(cp);
		lock_take(&us->lock);
	}
	lock_drop(&us->lock);
	return NULL;
}
