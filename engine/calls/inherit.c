/* SPDX-License-Identifier: MIT */
/*
 * Begins a checkpoint from what a directory has already: a change to a committed checkpoint, or a
 * directory that a late file shows to be one. Files are inherited as hard links, so an unchanged
 * file keeps its inode; directories are made anew. The first change of an inherited file makes a
 * copy of it (unshare.c).
 *
 * Takes the units' lock, and makes no call to the backing with it. BUSY_INHERIT lets one thread at
 * a time inherit. change.c says when such a checkpoint ends.
 */
#include "engine/calls/checkpoint_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/backing/dirwalk.h"
#include "engine/backing/take_over.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/wait.h"
#include "engine/cluster/checkpoint_stage.h"
#include "engine/cluster/cluster.h"
#include "engine/journal/journal.h"
#include "engine/redo/trash.h"
#include "engine/redo/unit_header.h"

#define LINK_NS	 NSEC_PER_SEC
#define PAUSE_NS (20 * NSEC_PER_MSEC)

static int link_tree(struct checkpoint *cp, int from, int to);

static int take_over_symlink(struct backing *b, int pin, int to, const char *name)
{
	char target[PATH_MAX];
	int len = backing_readlink(b, pin, target, sizeof(target) - 1);

	if (len < 0)
		return len;
	target[len] = '\0';
	return backing_symlink(b, target, to, name);
}

/* Makes a directory of the same attributes, with links to the same files. */
static int take_over_directory(struct checkpoint *cp, int pin, const struct statx *stx, int to,
			       const char *name)
{
	struct units *us = cp->units;
	struct backing b = backing_for(us->contents->backing, &cp->owner);
	struct timespec times[2] = {
		{.tv_nsec = UTIME_OMIT},
		{.tv_sec = stx->stx_mtime.tv_sec, .tv_nsec = stx->stx_mtime.tv_nsec},
	};
	int fd, old, err = backing_mkdir(&b, to, name, 0700);

	if (err)
		return err;
	fd = backing_pin(&b, to, name);
	if (fd < 0)
		return fd;
	old = backing_reopen(&b, pin, O_RDONLY | O_DIRECTORY);
	err = old < 0 ? old : link_tree(cp, old, fd);
	if (!err)
		err = backing_take_over(&b, old, fd, stx, false);
	if (!err)
		err = backing_utimens(&b, fd, times);
	if (old >= 0)
		close(old);
	close(fd);
	return err;
}

static bool is_passing(const struct backing *b, int err)
{
	return b->fuse && (err == -ENODATA || err == -ESTALE || err == -EPERM);
}

static bool leads_to(struct backing *b, int dir, const char *name, const struct inode_id *id)
{
	struct inode_id there;
	struct statx stx;

	if (backing_stat_at(b, dir, name, &stx))
		return false;
	there = inode_id_of(&stx);
	return same_inode(&there, id);
}

/*
 * Links a file. GlusterFS sometimes refuses with one of these errors while other nodes link the
 * same file, and may have made the link. Retries for LINK_NS; if that is too short, the begin
 * fails.
 */
static int link_beside_others(struct checkpoint *cp, int pin, const struct inode_id *id, int to,
			      const char *name)
{
	struct units *us = cp->units;
	struct backing b = backing_for(us->contents->backing, &cp->owner);
	uint64_t until = clock_mono_ns() + LINK_NS;
	int err = backing_link(&b, pin, to, name);

	while (is_passing(&b, err) && clock_mono_ns() < until) {
		if (units_pause(us, PAUSE_NS))
			return -EINTR;
		err = backing_link(&b, pin, to, name);
		if (err == -EEXIST && leads_to(&b, to, name, id))
			err = 0;
	}
	return err;
}

static int take_over_file(struct checkpoint *cp, int pin, const struct statx *stx, int to,
			  const char *name)
{
	struct inode_id id = inode_id_of(stx);
	int err = checkpoint_note_shared(cp, &id);

	return err ? err : link_beside_others(cp, pin, &id, to, name);
}

static int take_over_one(struct checkpoint *cp, int from, int to, const char *name, uint64_t ino)
{
	struct backing b = backing_for(cp->units->contents->backing, &cp->owner);
	struct backing shared = accord_backing(cp->units, cp->maker, &cp->owner);
	struct statx stx;
	int pin = backing_pin_listed(&shared, from, name, ino), err;

	if (pin < 0)
		return pin == -ENOENT ? 0 : pin;
	err = backing_stat(&b, pin, &stx);
	if (!err && S_ISDIR(stx.stx_mode))
		err = take_over_directory(cp, pin, &stx, to, name);
	else if (!err && S_ISLNK(stx.stx_mode))
		err = take_over_symlink(&b, pin, to, name);
	else if (!err)
		err = take_over_file(cp, pin, &stx, to, name);
	close(pin);
	return err;
}

/* Links all that programs see in the directory @from into @to. */
static int link_tree(struct checkpoint *cp, int from, int to)
{
	struct units *us = cp->units;
	struct backing b = backing_for(us->contents->backing, &cp->owner);
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	struct inode_id id;
	struct statx stx;
	int err = backing_stat(&b, from, &stx);

	id = inode_id_of(&stx);
	if (!err)
		err = checkpoints_yield_in(us, &id);
	if (!err)
		err = dirwalk_begin(&w, &b, from);
	while (!err && removals_next_seen(us, &id, &w)) {
		err = take_over_one(cp, w.fd, to, w.name, w.ino);
		if (!err && wait_interrupted())
			err = -EINTR;
	}
	return err ? err : w.err;
}

/* One at a time: two that inherit one directory would be two checkpoints. 0 or -EINTR. */
static int begin_inheriting(struct units *us)
{
	LOCK_SCOPE(&us->lock);

	return busy_wait(us, &us->busy, BUSY_INHERIT);
}

static void end_inheriting(struct units *us)
{
	LOCK_SCOPE(&us->lock);
	busy_end(us, &us->busy, BUSY_INHERIT);
}

static void replaces_nothing(struct checkpoint *cp)
{
	LOCK_SCOPE(&cp->units->lock);
	cp->replaces = false;
}

/*
 * -EEXIST: the name shows another directory by now than @cp has inherited. A FUSE client may show
 * stale names for long: there the commit finds the conflict.
 */
static int check_still_there(struct checkpoint *cp, const struct place *at)
{
	struct backing b = backing_for(cp->units->contents->backing, &cp->owner);
	struct inode_id id;
	struct statx stx;
	int err = b.fuse ? -ENOENT : backing_stat_at(&b, at->dir, at->name, &stx);

	if (err)
		return err == -ENOENT ? 0 : err;
	id = inode_id_of(&stx);
	return same_inode(&id, &cp->replaced) ? 0 : -EEXIST;
}

/* How such a checkpoint begins. */
struct beginning {
	bool committed, may_be_ordinary, enters;
	uint64_t removed_ns; /* the last removal, with which it begins; 0: a change is to come */
};

/*
 * -EBUSY: the committed checkpoint @old was saved by a newer incarnation of the job of @p, and @p
 * has lived since before that. If a person starts the same run again, the launcher counts from
 * zero; but then @p was started after the commit.
 */
static int check_not_former(struct units *us, const struct process *p, const struct place *at,
			    struct backing *b, int old)
{
	__cleanup_free struct commit_header *h = malloc(sizeof(*h));
	uint64_t wall = clock_wall_ns(), mono = clock_mono_ns(), ago;
	char text[MESSAGE_MAX];
	int err = h ? unit_header(b, old, h) : -ENOMEM;

	if (err || epoch_order(p, h->job, EPOCH_LASTS) != EPOCH_OLDER)
		return err == -ENOMEM ? err : 0;
	ago = wall > h->committed_ns ? wall - h->committed_ns : 0;
	if (!epoch_started_before(p, mono > ago ? mono - ago : 0))
		return 0;
	MESSAGE(text, CHECKPOINT_FORMER, at->name, h->job, p->key);
	failures_add(us->failures, p->uid, "save", at->name, EBUSY, text);
	return -EBUSY;
}

static int inherit(struct units *us, const struct caller *c, struct process *p,
		   const struct place *at, const struct beginning *how, struct checkpoint **out)
{
	struct backing b = backing_for(us->contents->backing, c);
	struct backing as = backing_as(&b, c), shared = accord_backing(us, p, c);
	struct checkpoint *cp;
	struct statx stx;
	int pin, old, err;

	/* As the daemon: @c need not be able to read everything, and attributes are kept. */
	pin = backing_pin_now(&shared, at->dir, at->name);
	if (pin < 0)
		return pin;
	err = backing_stat(&b, pin, &stx);
	old = err ? err : backing_reopen(&b, pin, O_RDONLY | O_DIRECTORY);
	close(pin);
	if (old < 0)
		return old;
	err = how->enters && how->committed ? check_not_former(us, p, at, &b, old) : 0;
	if (!err)
		err = checkpoint_make(us, c, p, at, 0700, &stx, &cp);
	if (!err) {
		unit_generation(&b, old, cp->replaced_generation);
		err = link_tree(cp, old, cp->fd);
		if (!err)
			err = backing_take_over(&b, old, cp->fd, &stx, false);
		checkpoint_sort_shared(cp);
		cp->follows = how->committed;
		cp->may_be_ordinary =
			how->may_be_ordinary || !removal_waits(us, p, &at->id, at->name);
		if (how->removed_ns)
			cp->changed_ns = how->removed_ns;
		cp->inherits = true;
		cp->nr_changing += how->enters; /* no other thread knows it yet */
		if (!err && accord_is_for(us, p))
			err = accord_begin(cp);
		if (!err)
			err = checkpoint_show(cp);
		if (!err)
			err = check_still_there(cp, at);
		/* An empty directory is of no more use: after a crash it would look like a unit. */
		if (!err && !how->committed && !backing_unlink(&as, at->dir, at->name, true))
			replaces_nothing(cp);
		if (err) {
			err = checkpoint_give_up(cp, err);
			if (how->enters)
				checkpoint_leave(cp);
			trash_remove(&b, us->contents, cp->target.dir, cp->staging);
			checkpoint_put(cp);
		}
	}
	close(old);
	if (!err)
		*out = cp;
	return err;
}

/* -EEXIST: another thread was first. */
static int inherit_alone(struct units *us, const struct caller *c, struct process *p,
			 const struct place *at, const struct beginning *how,
			 struct checkpoint **out)
{
	struct checkpoint *there;
	int err = begin_inheriting(us);

	if (err)
		return err;
	there = checkpoints_find(us, &at->id, at->name);
	err = there ? -EEXIST : inherit(us, c, p, at, how, out);
	checkpoint_put(there);
	end_inheriting(us);
	return err;
}

int checkpoint_inherit_now(struct units *us, const struct caller *c, struct process *p,
			   const struct place *at, uint64_t removed_ns, bool may_be_ordinary,
			   struct checkpoint **out)
{
	const struct beginning how = {
		.committed = true, .may_be_ordinary = may_be_ordinary, .removed_ns = removed_ns};

	*out = NULL;
	return inherit_alone(us, c, p, at, &how, out);
}

int checkpoint_inherit(struct units *us, const struct caller *c, struct process *p,
		       const struct place *at, bool committed, struct checkpoint **out)
{
	const struct beginning how = {.committed = committed, .enters = true};
	int err;

	*out = NULL;
	{
		LOCK_SCOPE(&us->lock);
		err = checkpoints_tell_casualty_locked(us, p);
		if (err)
			return err;
	}
	/* No thread waits for room while it inherits: that would hold up all others. */
	return WITH_ROOM(us, c, &at->id, inherit_alone(us, c, p, at, &how, out));
}
