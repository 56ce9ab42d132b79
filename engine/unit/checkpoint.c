/* SPDX-License-Identifier: MIT */
#include "engine/unit/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/wait.h"
#include "engine/unit/accord.h"
#include "engine/unit/fresh.h"
#include "engine/unit/internal.h"
#include "engine/unit/removal.h"
#include "engine/unit/replace.h"
#include "engine/unit/rules.h"
#include "engine/unit/trash.h"
#include "engine/unit/wreck.h"

#define READ_NS (2 * NSEC_PER_SEC) /* for who a process is, of whom other nodes may know */

/* --- the table --- */

static struct checkpoint *find_locked(struct units *us, const struct inode_id *dir,
				      const char *name)
{
	struct list *l;

	for (l = us->checkpoints.prev; l != &us->checkpoints; l = l->prev) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (cp->visible && same_inode(&cp->target.dir_id, dir) &&
		    !strcmp(cp->target.name, name))
			return cp;
	}
	return NULL;
}

struct checkpoint *checkpoints_find(struct units *us, const struct inode_id *dir, const char *name)
{
	LOCK_SCOPE(&us->lock);
	struct checkpoint *cp = find_locked(us, dir, name);

	if (cp)
		cp->refs++;
	return cp;
}

struct checkpoint *checkpoints_find_inode(struct units *us, const struct inode_id *id)
{
	struct checkpoint *cp;
	struct list *l;

	if (!atomic_load(&us->nr_checkpoints))
		return NULL;
	LOCK_SCOPE(&us->lock);
	list_for_each (l, &us->checkpoints) {
		cp = container_of(l, struct checkpoint, link);

		if (same_inode(&cp->id, id)) {
			cp->refs++;
			return cp;
		}
	}
	cp = wreck_find_locked(us, id);
	if (cp)
		cp->refs++;
	return cp;
}

bool checkpoints_any_replaced(struct units *us)
{
	return atomic_load(&us->replaced.nr);
}

bool checkpoints_replaced(struct units *us, const struct inode_id *id)
{
	if (!checkpoints_any_replaced(us))
		return false;
	LOCK_SCOPE(&us->lock);
	return replaced_has(&us->replaced, id);
}

unsigned checkpoints_published(struct units *us)
{
	return atomic_load(&us->nr_published);
}

void checkpoint_get(struct checkpoint *cp)
{
	LOCK_SCOPE(&cp->units->lock);
	cp->refs++;
}

static void free_participants(struct list *participants)
{
	while (!list_empty(participants)) {
		struct participant *p = container_of(participants->next, struct participant, link);

		list_del(&p->link);
		if (p->watched)
			jobs_unwatch(p->process);
		process_put(p->process);
		free(p);
	}
}

void checkpoint_put(struct checkpoint *cp)
{
	int fd = -1, dir = -1;
	bool last;

	if (!cp)
		return;
	{
		LOCK_SCOPE(&cp->units->lock);
		last = !--cp->refs;
		if (!last && wreck_rests_locked(cp))
			wreck_shrink_locked(cp, &fd, &dir);
	}
	if (fd >= 0)
		close(fd);
	if (dir >= 0)
		close(dir);
	if (!last)
		return;
	checkpoint_forget_evidence(cp);
	free_participants(&cp->participants);
	if (cp->target.dir >= 0)
		close(cp->target.dir);
	if (cp->fd >= 0)
		close(cp->fd);
	process_put(cp->maker);
	free(cp->shared);
	free(cp->following);
	accord_free(cp->accord);
	checkpoint_forget_filed(cp);
	free(cp->rivals);
	free(cp->below);
	free(cp->path);
	free(cp);
}

/* --- the beginning --- */

static struct process *maker_of(struct checkpoint *cp)
{
	LOCK_SCOPE(&cp->units->lock);

	return process_get(cp->maker);
}

/* What has its name on the backing is what it is going to replace. 0 or -errno. */
static int note_replaced(struct checkpoint *cp)
{
	struct backing *b = cp->units->contents->backing;
	struct process *maker = maker_of(cp);
	struct statx stx;
	int pin = fresh_pin(cp->units, maker, &cp->owner, cp->target.dir, cp->target.name);
	int fd, err;

	process_put(maker);
	if (pin < 0)
		return pin;
	err = backing_stat(b, pin, &stx);
	fd = err ? err : backing_reopen(b, pin, O_RDONLY | O_DIRECTORY);
	close(pin);
	if (fd == -ESTALE) /* removed just now */
		return -ENOENT;
	if (fd < 0)
		return fd;
	cp->replaces = true;
	cp->replaced = inode_id_of(&stx);
	unit_generation(b, fd, cp->replaced_generation);
	close(fd);
	return 0;
}

/* -EEXIST: something has its name, and programs see that. */
static int check_free(struct checkpoint *cp)
{
	struct units *us = cp->units;
	bool hidden = removals_hide(us, &cp->target.dir_id, cp->target.name); /* first: it may go */
	struct statx stx;
	int err = backing_stat_at(us->contents->backing, cp->target.dir, cp->target.name, &stx);

	if (!err)
		err = hidden ? note_replaced(cp) : -EEXIST;
	return err == -ENOENT ? 0 : err;
}

/* @was: the directory that has the name, and must still have it in the end; NULL: nothing has. */
static int stage(struct checkpoint *cp, mode_t mode, const struct statx *was)
{
	struct units *us = cp->units;
	struct backing *b = us->contents->backing;
	struct statx stx;
	int pin, err = was ? note_replaced(cp) : check_free(cp);

	if (err)
		return err;
	err = AS_CALLER(&cp->owner, backing_mkdir(b, cp->target.dir, cp->staging, mode));
	creds_restore();
	if (err)
		return err;
	pin = backing_pin(b, cp->target.dir, cp->staging);
	err = pin < 0 ? pin : backing_stat(b, pin, &stx);
	if (!err) {
		cp->id = inode_id_of(&stx);
		cp->fd = backing_reopen(b, pin, O_RDONLY | O_DIRECTORY);
		if (cp->fd <
		    0) /* its mode is not for the daemon: a pin does for all but the lock */
			cp->fd = take_fd(&pin);
		else
			backing_lock(b, cp->fd, false);
	}
	if (pin >= 0)
		close(pin);
	if (err)
		backing_unlink(b, cp->target.dir, cp->staging, true);
	return err;
}

static struct checkpoint *create(struct units *us, const struct caller *c, struct process *p,
				 const struct place *at)
{
	struct checkpoint *cp = calloc(1, sizeof(*cp));

	if (!cp)
		return NULL;
	cp->units = us;
	cp->owner = *c;
	cp->refs = 1;
	cp->fd = -1;
	cp->done = -1;
	cp->opened_ns = cp->changed_ns = clock_mono_ns();
	list_init(&cp->link);
	list_init(&cp->by_inode.link);
	list_init(&cp->events);
	list_init(&cp->participants);
	list_init(&cp->files);
	cp->maker = process_get(p);
	snprintf(cp->target.name, sizeof(cp->target.name), "%s", at->name);
	cp->target.dir_id = at->id;
	cp->target.dir = backing_dup(us->contents->backing, at->dir);
	return cp;
}

int checkpoint_make(struct units *us, const struct caller *c, struct process *p,
		    const struct place *at, mode_t mode, const struct statx *was,
		    struct checkpoint **out)
{
	struct checkpoint *cp = create(us, c, p, at);
	int err;

	*out = NULL;
	if (!cp)
		return -ENOMEM;
	err = cp->target.dir < 0 ? -EMFILE : units_new_id(cp->staging);
	if (!err)
		err = stage(cp, mode, was);
	if (err)
		checkpoint_put(cp);
	else
		*out = cp;
	return err;
}

/* The staging directory is there, and another node's lock may be on it. */
static int adopt_staged(struct checkpoint *cp)
{
	struct backing *b = cp->units->contents->backing;
	struct statx stx;
	int pin = AS_OWNER_FIRST(&cp->owner, backing_pin(b, cp->target.dir, cp->staging));
	int err = pin < 0 ? pin : backing_stat(b, pin, &stx);

	if (!err && (!S_ISDIR(stx.stx_mode) || stx.stx_uid != cp->owner.uid))
		err = -ENOENT; /* only its owner's is believed */
	if (!err) {
		cp->id = inode_id_of(&stx);
		cp->fd = AS_OWNER_FIRST(&cp->owner, backing_reopen(b, pin, O_RDONLY | O_DIRECTORY));
		err = cp->fd < 0 ? cp->fd : 0;
	}
	if (!err)
		backing_lock(b, cp->fd, false);
	if (pin >= 0)
		close(pin);
	if (err)
		return err;
	err = note_replaced(cp);
	return err == -ENOENT || err == -ENOTDIR || err == -ELOOP ? 0
								  : err; /* it replaces nothing */
}

int checkpoint_adopt(struct units *us, const struct caller *c, struct process *p,
		     const struct place *at, const char *gen, bool inherits, bool follows,
		     struct checkpoint **out)
{
	struct checkpoint *cp = create(us, c, p, at);
	int err;

	*out = NULL;
	if (!cp)
		return -ENOMEM;
	cp->inherits = inherits;
	cp->follows = follows;
	snprintf(cp->staging, sizeof(cp->staging), "%s%s", STAGING_PREFIX, gen);
	err = cp->target.dir < 0 ? -EMFILE : adopt_staged(cp);
	if (!err && inherits)
		err = checkpoint_knows_inherited(cp);
	if (err)
		checkpoint_put(cp);
	else
		*out = cp;
	return err;
}

int checkpoint_show(struct checkpoint *cp)
{
	int err;
	{
		LOCK_SCOPE(&cp->units->lock);
		err = checkpoint_show_locked(cp);
	}
	replaced_sweep(cp->units);
	return err;
}

int checkpoint_show_locked(struct checkpoint *cp)
{
	struct units *us = cp->units;

	if (find_locked(us, &cp->target.dir_id, cp->target.name))
		return -EEXIST; /* somebody was quicker */
	if (cp->replaces)
		replaced_add(&us->replaced, &cp->replaced);
	cp->visible = true;
	list_append(&us->checkpoints, &cp->link);
	atomic_fetch_add(&us->nr_checkpoints, 1);
	cp->refs++; /* the list's; the first is the caller's */
	return 0;
}

/* Is one of its job, of which a writer has died, about to be judged? */
static bool is_mourned_locked(struct units *us, const struct process *p)
{
	struct list *l;

	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (accord_is_in_doubt(cp) && job_same(cp->maker, p) &&
		    casualty_concerns(accord_cause_ns(cp), p))
			return true;
	}
	return false;
}

/* The first call that would go on says why it does not. */
static int tell_casualty_locked(struct units *us, struct process *p)
{
	char text[MESSAGE_MAX], path[PATH_MAX];
	int err = casualty_tell(&us->casualties, p, path, sizeof(path));

	if (err) {
		MESSAGE(text, CHECKPOINT_CASUALTY, *path ? path : "?", strerror(-err));
		failures_add(us->failures, p->uid, "save", path, -err, text);
	}
	return err;
}

int checkpoints_tell_casualty_locked(struct units *us, struct process *p)
{
	uint64_t until = clock_mono_ns() + us->commit_ns;
	int err = 0;

	while (!err && is_mourned_locked(us, p) && clock_mono_ns() < until)
		err = units_wait(us);
	return err ? err : tell_casualty_locked(us, p);
}

/* Between the look and the show another of that name may have been committed, or an ordinary file made. */
static int check_still_free(struct checkpoint *cp)
{
	struct units *us = cp->units;
	struct statx stx;
	struct inode_id id;
	int err = backing_stat_at(us->contents->backing, cp->target.dir, cp->target.name, &stx);

	if (err == -ENOENT)
		return 0;
	id = err ? (struct inode_id){0} : inode_id_of(&stx);
	if (!err && cp->replaces && same_inode(&id, &cp->replaced))
		return 0;
	LOCK_SCOPE(&us->lock);
	if (!state_is_over(cp->state)) /* it was shown, and may have been ended by others */
		checkpoint_end_locked(cp, GENERATION_DROPPED);
	return err ? err : -EEXIST;
}

int checkpoint_begin(struct units *us, const struct caller *c, struct process *p,
		     const struct place *at, mode_t mode, struct checkpoint **out)
{
	int err;
	{
		LOCK_SCOPE(&us->lock);
		*out = NULL;
		err = checkpoints_tell_casualty_locked(us, p);
		if (err)
			return err;
	}
	err = WITH_ROOM(us, c, &at->id, checkpoint_make(us, c, p, at, mode, NULL, out));
	if (err)
		return err;
	if (accord_is_for(us, p))
		err = accord_begin(*out);
	if (!err)
		err = checkpoint_show(*out);
	if (!err)
		err = check_still_free(*out);
	if (!err)
		return 0;
	accord_never_shown(*out);
	backing_unlink(us->contents->backing, at->dir, (*out)->staging, true);
	checkpoint_put(*out);
	*out = NULL;
	return err;
}

/* --- changes --- */

static struct participant *participant_of_locked(struct checkpoint *cp, const struct process *p)
{
	struct list *l;

	list_for_each (l, &cp->participants) {
		struct participant *part = container_of(l, struct participant, link);

		if (part->process == p)
			return part;
	}
	return NULL;
}

static bool restarted(const struct process *maker, const struct process *p)
{
	return maker->read && maker->uid == p->uid && job_restarted(maker->key, p);
}

/*
 * Is it known to be of a job that @p is not to change it for? Which rule it goes by may be known on
 * other nodes alone: of those that only look nobody says so to each other. Then the job of @p,
 * started again, takes the place of what it was.
 */
static bool is_taken_locked(const struct checkpoint *cp, const struct process *p)
{
	return cp->rule || cp->follows || (accord_is_shared(cp) && restarted(cp->maker, p));
}

enum others { NO_OTHERS, OTHERS_ENDING, OTHERS_LIVE };

/*
 * Does anybody of another job than @p write to it? Of whom nothing is seen it is not known. A job
 * may begin in the very moment in which the one before has ended, which is to be told yet.
 */
static enum others others_of_locked(struct checkpoint *cp, const struct process *p)
{
	enum others found = NO_OTHERS;
	struct list *l;

	list_for_each (l, &cp->participants) {
		struct participant *part = container_of(l, struct participant, link);

		if (part->ended || !part->process->visible || job_same(part->process, p))
			continue;
		if (!part->watched || !process_has_ended(part->process))
			return OTHERS_LIVE;
		found = OTHERS_ENDING;
	}
	return found;
}

/*
 * Drops the lock while it waits for the commit of what has ended, which is that of all who wrote to
 * it: what comes later is a change to the committed one.
 */
static int hold_still_locked(struct checkpoint *cp)
{
	int err = 0;

	/* The committer looks, too, when it has time; by then the next save would have begun in this one. */
	checkpoint_look_for_end_locked(cp);
	while (!err && (cp->state == GENERATION_SEALED || checkpoint_is_held_locked(cp)))
		err = units_wait(cp->units);
	if (err)
		return err;
	switch (cp->state) {
	case GENERATION_OPEN:
		return 0;
	case GENERATION_FAILED:
		return cp->err;
	default:
		return -EEXIST;
	}
}

/* Does the job of @p have a part in it? */
static bool is_of_job_locked(struct checkpoint *cp, const struct process *p)
{
	struct list *l;

	list_for_each (l, &cp->participants)
		if (job_same(container_of(l, struct participant, link)->process, p))
			return true;
	return job_same(cp->maker, p);
}

static bool fail_if(struct checkpoint *cp, bool only_open, int err, const char *reason);
static bool let_go(struct checkpoint *cp, enum busy with);

/*
 * Nobody who wrote to it is left: another job begins it anew, from what the name had before. 1: its end was seen just
 * now.
 */
static int supersede(struct checkpoint *cp, struct process *p)
{
	struct backing *b = cp->units->contents->backing;
	struct caller c = {.uid = p->uid, .gid = cp->owner.gid};
	char text[MESSAGE_MAX], path[PATH_MAX];
	struct checkpoint *new = NULL;
	struct statx stx;
	bool hidden;
	int err;

	checkpoint_path(cp, path, sizeof(path));
	MESSAGE(text, CHECKPOINT_SUPERSEDED, path, cp->maker->key, p->key);
	if (!fail_if(cp, true, -ESTALE, text))
		return 1;
	hidden = removals_hide(cp->units, &cp->target.dir_id, cp->target.name);
	if (!backing_stat_at(b, cp->target.dir, cp->target.name, &stx) && !hidden)
		return -ESTALE; /* that is shown again */
	err = backing_stat(b, cp->fd, &stx);
	if (!err)
		err = checkpoint_begin(
			cp->units, &c, p,
			&(struct place){cp->target.dir, cp->target.dir_id, cp->target.name},
			stx.stx_mode & 07777, &new);
	checkpoint_put(new);
	return !err || err == -EEXIST ? -ESTALE : err;
}

/* -EBUSY, and says why. */
static int refuse(struct checkpoint *cp, const struct process *p)
{
	char text[MESSAGE_MAX], path[PATH_MAX];

	checkpoint_path(cp, path, sizeof(path));
	MESSAGE(text, CHECKPOINT_BUSY, path, cp->maker->key, p->key);
	failures_add(cp->units->failures, cp->owner.uid, "save", path, EBUSY, text);
	return -EBUSY;
}

/* Has it failed for what is nothing to @p: of another job, or started after that was? */
static bool is_nothing_to_locked(struct checkpoint *cp, const struct process *p)
{
	return cp->state == GENERATION_FAILED && !participant_of_locked(cp, p) &&
	       (!is_of_job_locked(cp, p) || !casualty_concerns(accord_cause_ns(cp), p));
}

/*
 * As hold_still_locked, for @p: that it failed is told to those whom it concerns. Another one, which found
 * it just before, looks for the name once more.
 */
static int hold_still_for_locked(struct checkpoint *cp, const struct process *p)
{
	int err = hold_still_locked(cp);

	return err && p && is_nothing_to_locked(cp, p) ? -ESTALE : err;
}

/* Was @p started after it was begun, and does not write to it yet? */
static bool is_latecomer(struct checkpoint *cp, const struct process *p)
{
	LOCK_SCOPE(&cp->units->lock);
	return cp->accord && !participant_of_locked(cp, p) && !casualty_concerns(cp->opened_ns, p);
}

/* Is it what a later start of the job of @p saves? That is none of its business any more. */
static bool is_former_locked(const struct checkpoint *cp, const struct process *p)
{
	return cp->accord && p->read && p->uid == cp->maker->uid &&
	       job_restarted(p->key, cp->maker);
}

int checkpoint_enter(struct checkpoint *cp, struct process *p)
{
	struct units *us = cp->units;
	enum others others;
	bool other, busy;
	int err, told;

	err = p && is_latecomer(cp, p) ? accord_check_open(cp) : 0;
	if (err)
		return err;
	{
		LOCK_SCOPE(&us->lock);
		do {
			err = hold_still_for_locked(cp, p);
			told = p && (!err || (err == cp->err && err != -ESTALE))
				       ? tell_casualty_locked(us, p)
				       : 0;
			err = err ? err : told;
			others = !err && p && is_taken_locked(cp, p) ? others_of_locked(cp, p)
								     : NO_OTHERS;
			busy = others == OTHERS_LIVE || (!err && p && is_former_locked(cp, p));
			other = !err && !others && p && is_taken_locked(cp, p) &&
				!is_of_job_locked(cp, p);
			if (others == OTHERS_ENDING)
				err = units_wait(us);
		} while (!err && (others == OTHERS_ENDING ||
				  (other && checkpoint_ends_with_writers_locked(cp))));
		if (!err && !busy && !other) {
			cp->nr_changing++;
			cp->changed_ns = clock_mono_ns();
		}
	}
	if (busy)
		return refuse(cp, p);
	err = other ? supersede(cp, p) : err;
	return err == 1 ? checkpoint_enter(cp, p) : err;
}

int checkpoint_enter_open(struct checkpoint *cp)
{
	char text[MESSAGE_MAX], path[PATH_MAX];
	int err = checkpoint_enter(cp, NULL);
	{
		LOCK_SCOPE(&cp->units->lock);
		if (err != -EEXIST || cp->state != GENERATION_COMMITTED)
			return err;
	}
	checkpoint_path(cp, path, sizeof(path));
	MESSAGE(text, CHECKPOINT_STALE, path);
	failures_add(cp->units->failures, cp->owner.uid, "write", path, ESTALE, text);
	return -ESTALE;
}

void checkpoint_leave(struct checkpoint *cp)
{
	LOCK_SCOPE(&cp->units->lock);
	cp->nr_changing--;
	cp->changed_ns = clock_mono_ns();
	if (cp->unwanted) /* what is left of it was in use */
		wreck_unwanted_locked(cp);
	waitq_wake(&cp->units->commits);
	accord_wake(cp);
}

int checkpoint_join(struct checkpoint *cp, struct process *p)
{
	struct participant *part = calloc(1, sizeof(*part));
	struct units *us = cp->units;
	LOCK_SCOPE(&us->lock);
	if (!part || participant_of_locked(cp, p)) {
		free(part);
		return part ? 0 : -ENOMEM;
	}
	part->process = process_get(p);
	part->watched = !jobs_watch(p); /* who is told of its end waits for the lock */
	list_append(&cp->participants, &part->link);
	removal_note_saver_locked(us, p, &cp->target.dir_id);
	return 0;
}

void checkpoint_copied_by(struct checkpoint *cp, const struct process *p)
{
	LOCK_SCOPE(&cp->units->lock);
	struct participant *part = participant_of_locked(cp, p);

	if (part && p->rank < 0 && p->visible)
		part->copies = true;
}

struct process *units_process(struct units *us, const struct caller *c)
{
	uint64_t until = clock_mono_ns() + READ_NS;
	struct process *p;

	creds_restore(); /* what may be read of it is the daemon's right */
	p = jobs_process(us->jobs, c->pid, c->uid);
	/* On one node who was not read in time may be of any job; but what other nodes save is hidden from him. */
	while (p && p->visible && !p->read && accord_has_others(us) && !process_has_ended(p) &&
	       clock_mono_ns() < until && !wait_interrupted()) {
		process_put(p);
		p = jobs_process(us->jobs, c->pid, c->uid);
	}
	return p;
}

/* --- what it is --- */

static int hold_locked(struct checkpoint *cp, enum busy with);

bool checkpoint_has_name(struct checkpoint *cp, const char *name)
{
	struct statx stx;
	struct inode_id id;

	if (AS_OWNER_FIRST(&cp->owner, backing_stat_at(cp->units->contents->backing, cp->target.dir,
						       name, &stx)))
		return false;
	id = inode_id_of(&stx);
	return same_inode(&id, &cp->id);
}

int checkpoint_name_ordinary(struct checkpoint *cp)
{
	int err = AS_OWNER_FIRST(&cp->owner,
				 backing_rename(cp->units->contents->backing, cp->target.dir,
						cp->staging, cp->target.dir, cp->target.name, 0));

	return err == -ENOENT && checkpoint_has_name(cp, cp->target.name) ? 0 : err;
}

/* An ordinary directory after all: it gets its name at once. */
static int make_ordinary(struct checkpoint *cp)
{
	int err;
	{
		LOCK_SCOPE(&cp->units->lock);
		err = hold_locked(cp, BUSY_ORDINARY); /* others may remove or rename it */
		if (err)
			return err;
	}
	err = accord_make_ordinary(cp);
	if (err == -EEXIST) { /* its name is there, or will be in a moment */
		let_go(cp, BUSY_ORDINARY);
		LOCK_SCOPE(&cp->units->lock);
		while (cp->state == GENERATION_OPEN && !units_wait(cp->units))
			;
		return cp->state == GENERATION_DROPPED ? -EEXIST : cp->err ? cp->err : -EINTR;
	}
	if (!err && cp->replaces)
		err = removal_make_way(cp->units, &cp->target.dir_id, cp->target.name);
	if (!err)
		err = checkpoint_name_ordinary(cp);
	creds_restore();
	if (err) {
		let_go(cp, BUSY_ORDINARY);
		return err;
	}
	accord_has_name(cp);
	backing_unlock(cp->fd);
	LOCK_SCOPE(&cp->units->lock);
	busy_end(cp->units, &cp->busy, BUSY_ORDINARY);
	checkpoint_end_locked(cp, GENERATION_DROPPED);
	return -EEXIST;
}

static bool is_beside(void *checkpoint, const char *name)
{
	struct checkpoint *cp = checkpoint;
	struct statx stx;

	return !backing_stat_at(cp->units->contents->backing, cp->target.dir, name, &stx);
}

/* Was it written by @p alone? */
static bool is_of_one_locked(struct checkpoint *cp, const struct process *p)
{
	return cp->participants.next == cp->participants.prev && participant_of_locked(cp, p);
}

/* The job's last one in this directory has a successor now: that is evidence for it. */
static void tell_sibling(struct checkpoint *cp)
{
	struct list *l;

	if (cp->follows || state_is_over(cp->state))
		return; /* a late change to an older one; or none any more */
	list_for_each (l, &cp->units->checkpoints) {
		struct checkpoint *o = container_of(l, struct checkpoint, link);

		if (o == cp)
			break; /* what follows is newer; one that is not shown is the newest */
		if (o->rule == cp->rule && !accord_is_bereaved(o) &&
		    job_same(o->maker, cp->maker) &&
		    same_inode(&o->target.dir_id, &cp->target.dir_id)) {
			o->has_sibling = true;
			o->goes_on = o->goes_on || is_of_one_locked(o, cp->maker);
		}
	}
	waitq_wake(&cp->units->commits);
}

/* One at a time decides what it is. 1: the caller is to, and says decided. 0 or -EEXIST: it was. */
static int begin_deciding(struct checkpoint *cp)
{
	int err;
	LOCK_SCOPE(&cp->units->lock);

	err = busy_wait(cp->units, &cp->busy, BUSY_CLAIM);
	if (err)
		return err;
	if (!cp->rule && cp->state != GENERATION_DROPPED)
		return 1;
	busy_end(cp->units, &cp->busy, BUSY_CLAIM);
	return cp->rule ? 0 : -EEXIST;
}

/*
 * @p makes it a unit: it is that of its job. What others did before that, who did not know what it would be, was no
 * part of a save; from now on they are told that it is taken.
 */
static void take_from_others(struct checkpoint *cp, struct process *p)
{
	struct process *maker = NULL;
	struct list *l, *tmp, others;

	list_init(&others);
	{
		LOCK_SCOPE(&cp->units->lock);
		list_for_each_safe (l, tmp, &cp->participants) {
			if (job_same(container_of(l, struct participant, link)->process, p))
				continue;
			list_del(l);
			list_append(&others, l);
		}
		if (!job_same(cp->maker, p)) {
			maker = cp->maker;
			cp->maker = process_get(p);
		}
	}
	free_participants(&others);
	process_put(maker);
}

void checkpoint_takes_rule_locked(struct checkpoint *cp, const struct rule *rule)
{
	cp->rule = rule;
	tell_sibling(cp);
	waitq_wake_all(&cp->units->changed);
}

static void decided(struct checkpoint *cp, const struct rule *rule)
{
	LOCK_SCOPE(&cp->units->lock);
	busy_end(cp->units, &cp->busy, BUSY_CLAIM);
	if (!cp->rule)
		cp->rule = rule; /* another node may have told meanwhile */
	if (rule)
		tell_sibling(cp);
	accord_wake(cp);
	waitq_wake_all(&cp->units->changed);
}

int checkpoint_claim(struct checkpoint *cp, const char *rel, struct process *p)
{
	const char *slash = strrchr(rel, '/'), *name = slash ? slash + 1 : rel;
	const struct rule *rule;
	char path[PATH_MAX];
	int err = rules_commit_file(name) ? 0 : begin_deciding(cp);

	if (err != 1)
		return err;
	checkpoint_path(cp, path, sizeof(path));
	rule = rules_claim(cp->units->rules, path, rel, is_beside, cp);
	if (!rule)
		rule = accord_rule_of_others(cp, path);
	if (rule)
		take_from_others(cp, p);
	/* Where the directory's name suggests a unit the file's can be waited for; and what it replaces is kept. */
	if (!rule && !cp->inherits && !cp->rule &&
	    !((rules_tells_nothing(name) || cp->replaces) && rules_suggest(cp->units->rules, path)))
		err = make_ordinary(cp);
	else
		err = 0;
	decided(cp, rule);
	return err;
}

/* -EEXIST: it is an ordinary directory by now; 0: it turned out to be a unit. */
static int decide_ordinary(struct checkpoint *cp)
{
	int err = begin_deciding(cp);
	const struct rule *rule;
	char path[PATH_MAX];

	if (err != 1)
		return err;
	checkpoint_path(cp, path, sizeof(path));
	rule = accord_rule_of_others(cp, path);
	err = rule ? 0 : make_ordinary(cp);
	decided(cp, rule);
	return err;
}

int checkpoint_yield(struct checkpoint *cp)
{
	char path[PATH_MAX];

	checkpoint_path(cp, path, sizeof(path));
	if (cp->inherits || rules_suggest(cp->units->rules, path))
		return 0;
	return decide_ordinary(cp);
}

/* One in @dir of which it is not known what it is. */
static struct checkpoint *find_undecided_locked(struct units *us, const struct inode_id *dir)
{
	struct list *l;

	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (checkpoint_rests_in_locked(cp, GENERATION_OPEN) && !cp->rule && !cp->inherits &&
		    same_inode(&cp->target.dir_id, dir))
			return cp;
	}
	return NULL;
}

int checkpoints_yield_in(struct units *us, const struct inode_id *dir)
{
	for (;;) {
		struct checkpoint *cp;
		bool stays;
		int err;
		{
			LOCK_SCOPE(&us->lock);
			cp = find_undecided_locked(us, dir);
			if (!cp)
				return 0;
			cp->refs++;
		}
		err = decide_ordinary(cp);
		{
			LOCK_SCOPE(&us->lock);
			stays = cp == find_undecided_locked(us, dir);
		}
		checkpoint_put(cp);
		if (stays)
			return err;
	}
}

bool checkpoint_is_pending(struct checkpoint *cp)
{
	LOCK_SCOPE(&cp->units->lock);
	return !state_is_over(cp->state);
}

/* --- the end --- */

void checkpoint_set_state_by_locked(struct checkpoint *cp, enum generation_state state,
				    const char *who)
{
	MACHINE_CHECK(&checkpoint_machine, cp->state, state, who, "'%s' (%s)", cp->target.name,
		      cp->staging);
	cp->state = state;
}

void checkpoint_end_locked(struct checkpoint *cp, enum generation_state state)
{
	struct units *us = cp->units;
	struct ended *e = history_add(&us->history);
	bool shown =
		cp->visible; /* else, what another node has begun, and was over before that: not in the list */

	checkpoint_set_state(cp, state);
	cp->visible = false;
	cp->ended_ns = clock_mono_ns();
	accord_ended(cp);
	memcpy(e->staging, cp->staging, sizeof(e->staging));
	memcpy(e->name, cp->target.name, sizeof(e->name));
	e->id = cp->id;
	e->dir_id = cp->target.dir_id;
	e->path = cp->path ? strdup(cp->path) : NULL;
	e->reason = *cp->reason ? strdup(cp->reason) : NULL;
	e->state = state;
	e->uid = cp->owner.uid;
	e->err = cp->err;
	e->size = cp->size;
	e->job = strdup(cp->maker->key);
	e->opened_ns = cp->opened_ns;
	e->closed_ns = cp->closed_ns;
	e->flushed_ns = cp->flushed_ns;
	e->ended_ns = cp->ended_ns;
	us->nr_committed += state == GENERATION_COMMITTED;
	if (state == GENERATION_COMMITTED)
		atomic_fetch_add(&us->nr_published, 1);
	us->nr_failed += state == GENERATION_FAILED;
	if ((state == GENERATION_FAILED || state == GENERATION_DROPPED) && cp->accord)
		backing_unlock(cp->fd); /* another node may remove the directory that it is in */
	if (shown && state == GENERATION_FAILED) { /* which calls in it must be told of */
		wreck_add_locked(cp);
	} else if (shown) {
		list_del(&cp->link);
		atomic_fetch_sub(&us->nr_checkpoints, 1);
		cp->refs--;
	}
	waitq_wake_all(&us->changed);
	waitq_wake(&us->commits);
}

/* Those who wrote to it, and those of its job, must not go on as if nothing was. */
static void tell_writers_locked(struct checkpoint *cp, int err)
{
	struct casualties *cs = &cp->units->casualties;
	const char *path = cp->path ? cp->path : cp->target.name;
	bool by_job = cp->maker->read && !cp->maker->weak;
	uint64_t at_ns = accord_cause_ns(cp);
	struct list *l;

	if (err == -ECANCELED || err == -ESTALE)
		return;
	if (by_job) /* one for all of its job */
		casualty_add(cs, cp->maker, path, err, at_ns);
	list_for_each (l, &cp->participants) {
		struct participant *part = container_of(l, struct participant, link);

		/* Who has come after what failed it did not know of that. */
		if (!part->ended && !(by_job && casualty_concerns(at_ns, part->process)))
			casualty_add(cs, part->process, path, err, at_ns);
	}
}

/* Has @g failed, and whoever found out is about to fail its checkpoint, too? */
static bool is_about_to_fail_locked(const struct generation *g)
{
	const struct checkpoint *cp = g->checkpoint;

	return (g->state == GENERATION_FAILED || (live_has(g) && content_error(g->content))) &&
	       !state_is_over(cp->state);
}

void checkpoint_told(struct generation *g, const struct caller *c)
{
	struct units *us = g->units;
	struct process *p = units_process(us, c);
	char path[PATH_MAX];
	int err = 0;

	if (!p)
		return;
	{
		LOCK_SCOPE(&us->lock);
		while (!err &&
		       is_about_to_fail_locked(g)) /* else it would be told of that once more */
			err = units_wait(us);
		casualty_tell(&us->casualties, p, path, sizeof(path)); /* the caller says it */
	}
	process_put(p);
}

/* False: it has failed before, or will when it is let go of; or @only_open: it was not open any more. */
static bool fail_if(struct checkpoint *cp, bool only_open, int err, const char *reason)
{
	struct units *us = cp->units;
	char path[PATH_MAX], below[PATH_MAX];
	bool first, found;

	checkpoint_path(cp, path, sizeof(path));
	found = !backing_path_below(us->contents->backing, cp->target.dir, below, sizeof(below));
	{
		LOCK_SCOPE(&us->lock);
		if (only_open && !checkpoint_rests_in_locked(cp, GENERATION_OPEN))
			return false;
		first = checkpoint_rests_locked(cp);
		if (first || (!state_is_over(cp->state) && !cp->err)) {
			cp->err = err;
			snprintf(cp->reason, sizeof(cp->reason), "%s", reason);
		}
		if (first) {
			free(cp->path);
			cp->path = strdup(path);
			cp->below = found ? strdup(below) : NULL;
			checkpoint_end_locked(cp, GENERATION_FAILED);
			tell_writers_locked(cp, err);
			if (room_is_short(err))
				wreck_unwanted_locked(cp);
		}
	}
	if (!first)
		return false;
	failures_add(us->failures, cp->owner.uid, "checkpoint", path, -err, reason);
	generations_fail(cp, err, reason);
	wrecks_sweep(us);
	return true;
}

void checkpoint_fail(struct checkpoint *cp, int err, const char *reason)
{
	fail_if(cp, false, err, reason);
}

void checkpoint_fail_open(struct checkpoint *cp, int err, const char *reason)
{
	fail_if(cp, true, err, reason);
}

/*
 * Drops the lock while it waits. The caller is busy @with it: until let_go, or its end, no other
 * thread changes it. 0, or as hold_still_locked.
 */
static int hold_locked(struct checkpoint *cp, enum busy with)
{
	int err = hold_still_locked(cp);

	if (!err)
		busy_begin(&cp->busy, with);
	return err;
}

/* The caller had it, for its commit (@with 0) or busy @with it. True if it fails, as it was to. */
static bool let_go(struct checkpoint *cp, enum busy with)
{
	char reason[MESSAGE_MAX];
	int err;
	{
		LOCK_SCOPE(&cp->units->lock);
		if (with)
			busy_end(cp->units, &cp->busy, with);
		else
			checkpoint_set_state(cp, GENERATION_SEALED);
		err = cp->err;
		memcpy(reason, cp->reason, sizeof(reason));
		waitq_wake_all(&cp->units->changed);
		waitq_wake(&cp->units->commits);
	}
	if (err)
		checkpoint_fail(cp, err, reason);
	return err;
}

bool checkpoint_give_back(struct checkpoint *cp)
{
	return let_go(cp, 0);
}

int checkpoint_remove(struct checkpoint *cp, const struct caller *c)
{
	struct units *us = cp->units;
	struct backing *b = us->contents->backing;
	struct process *p;
	int err;
	{
		LOCK_SCOPE(&us->lock);
		err = hold_locked(cp, BUSY_REMOVE);
	}
	if (err)
		return err;
	err = AS_OWNER_FIRST(&cp->owner, backing_unlink(b, cp->target.dir, cp->staging, true));
	if (err && err != -ENOENT) {
		let_go(cp, BUSY_REMOVE);
		return err;
	}
	p = cp->replaces ? units_process(us, c) : NULL;
	if (p) /* programs saw one directory, which is removed */
		removal_of_replaced(cp, c, p);
	process_put(p);
	LOCK_SCOPE(&us->lock);
	busy_end(us, &cp->busy, BUSY_REMOVE);
	checkpoint_end_locked(cp, GENERATION_DROPPED);
	return 0;
}

/*
 * It is to get the name @name in @dir. What it changes, and is to replace, goes there, too, as its name
 * does; else it replaces there what was removed, but is there until the next commit.
 */
static int take_along(struct checkpoint *cp, const struct place *at, bool *replaces,
		      struct inode_id *replaced)
{
	struct backing *b = cp->units->contents->backing;
	bool hidden = removals_hide(cp->units, &cp->target.dir_id, cp->target.name);
	struct statx stx;
	int err =
		cp->replaces ? backing_stat_at(b, cp->target.dir, cp->target.name, &stx) : -ENOENT;

	*replaced = err ? cp->replaced : inode_id_of(&stx);
	*replaces = !err && same_inode(replaced, &cp->replaced) && !hidden;
	if (*replaces) {
		err = removal_make_way(cp->units, &at->id, at->name);
		if (err)
			return err;
		err = AS_CALLER(&cp->owner, backing_rename(b, cp->target.dir, cp->target.name,
							   at->dir, at->name, 0));
		creds_restore();
		if (!err)
			removal_moved(cp->units, &cp->target.dir_id, cp->target.name, at);
		return err;
	}
	err = backing_stat_at(b, at->dir, at->name, &stx);
	*replaces = !err;
	if (!err)
		*replaced = inode_id_of(&stx);
	return err == -ENOENT ? 0 : err;
}

int checkpoint_rename(struct checkpoint *cp, const struct place *at)
{
	struct units *us = cp->units;
	struct backing *b = us->contents->backing;
	int copy = backing_dup(b, at->dir), err;
	struct inode_id replaced, old_id;
	char old_name[NAME_MAX + 1];
	bool replaces;
	{
		LOCK_SCOPE(&us->lock);
		err = copy < 0 ? -EMFILE : hold_locked(cp, BUSY_RENAME);
	}
	if (err) {
		if (copy >= 0)
			close(copy);
		return err;
	}
	if (!same_inode(&cp->target.dir_id, &at->id))
		err = AS_OWNER_FIRST(&cp->owner, backing_rename(b, cp->target.dir, cp->staging,
								at->dir, cp->staging, 0));
	if (!err) {
		err = take_along(cp, &(struct place){copy, at->id, at->name}, &replaces, &replaced);
		if (err && !same_inode(&cp->target.dir_id, &at->id))
			backing_rename(b, at->dir, cp->staging, cp->target.dir, cp->staging, 0);
	}
	if (!err) {
		LOCK_SCOPE(&us->lock);

		cp->replaces = replaces;
		cp->replaced = replaced;
		/* Under its number, as accord_join.c does; both are open, so that it cannot fail. */
		dup3(copy, cp->target.dir, O_CLOEXEC);
		old_id = cp->target.dir_id;
		memcpy(old_name, cp->target.name, sizeof(old_name));
		cp->target.dir_id = at->id;
		snprintf(cp->target.name, sizeof(cp->target.name), "%s", at->name);
		cp->changed_ns = clock_mono_ns();
		accord_tell_name(cp);
		checkpoint_event_locked(cp, EVIDENCE_RENAME, ".", -1);
	}
	if (!err && replaces)
		note_replaced(cp);
	if (!err)
		err = accord_renamed(cp, &old_id, old_name);
	close(copy);
	let_go(cp, BUSY_RENAME);
	return err;
}

bool checkpoint_is_nothing_locked(const struct checkpoint *cp)
{
	return checkpoint_rests_in_locked(cp, GENERATION_OPEN) && !cp->rule && !cp->inherits &&
	       !cp->nr_changing && !cp->filed.nr && list_empty(&cp->files) && !accord_is_shared(cp);
}

/* One that is nothing. Without locks. */
static bool checkpoint_forget(struct checkpoint *cp)
{
	struct units *us = cp->units;
	{
		LOCK_SCOPE(&us->lock);
		if (!checkpoint_is_nothing_locked(cp))
			return false;
		checkpoint_end_locked(cp, GENERATION_DROPPED);
	}
	creds_on_behalf(&cp->owner);
	if (cp->accord) /* another node may just have found it, and put something there */
		backing_unlink(us->contents->backing, cp->target.dir, cp->staging, true);
	else
		trash_remove(us->contents->backing, us->contents, cp->target.dir, cp->staging);
	creds_on_behalf(NULL);
	return true;
}

/* Referenced. */
static struct checkpoint *one_open_locked(struct units *us)
{
	struct list *l;

	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (checkpoint_rests_in_locked(cp, GENERATION_OPEN)) {
			cp->refs++;
			return cp;
		}
	}
	return NULL;
}

/* What is decided elsewhere is open here until the driver of its accord has concluded it. */
static void wait_for_its_end(struct checkpoint *cp)
{
	LOCK_SCOPE(&cp->units->lock);
	if (cp->state == GENERATION_OPEN)
		units_wait(cp->units);
}

unsigned checkpoints_leave_open(struct units *us, const char *mountpoint)
{
	unsigned nr = 0;

	for (;;) {
		char text[MESSAGE_MAX], path[PATH_MAX], words[RULE_WORDS_MAX];
		struct checkpoint *cp;
		{
			LOCK_SCOPE(&us->lock);
			cp = one_open_locked(us);
		}
		if (!cp)
			return nr;
		if (!checkpoint_forget(cp) && !accord_leave(cp)) {
			checkpoint_path(cp, path, sizeof(path));
			checkpoint_missing(cp, words, sizeof(words));
			MESSAGE(text, CHECKPOINT_LEFT, path, mountpoint, words, cp->staging);
			checkpoint_fail(cp, -ECANCELED, text);
			nr++;
		}
		wait_for_its_end(cp);
		checkpoint_put(cp);
	}
}

/* --- processes --- */

/* Its end, if it is a participant of one whose own end was not seen yet. */
static bool note_end_locked(struct checkpoint *cp, const struct process *p, struct writer_end end)
{
	struct participant *part = participant_of_locked(cp, p);

	if (!part || part->ended)
		return false;
	part->ended = true;
	part->end = end;
	cp->left_ns = clock_mono_ns();
	return cp->state == GENERATION_OPEN && end.fate == WRITER_DIED && !accord_knows_end(cp);
}

/*
 * Referenced: one that fails by the end of @p; @mourned: unless other nodes say that its own was
 * before.
 */
static struct checkpoint *next_victim_locked(struct units *us, const struct process *p,
					     struct writer_end end, bool *mourned)
{
	struct list *l;

	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		checkpoint_look_for_end_locked(cp); /* what it did before counts */
		if (note_end_locked(cp, p, end)) {
			*mourned = accord_loses_writer(cp, p->lived_ns);
			cp->refs++;
			return cp;
		}
	}
	return NULL;
}

void checkpoints_process_ended(void *units, const struct process *p, struct writer_end end)
{
	struct units *us = units;
	struct checkpoint *cp;

	if (FAULT(DEATH_IGNORED) && end.fate == WRITER_DIED)
		end = (struct writer_end){WRITER_EXITED_OK, 0};
	do {
		char text[MESSAGE_MAX], path[PATH_MAX], rank[24] = "";
		bool mourned;
		{
			LOCK_SCOPE(&us->lock);
			cp = next_victim_locked(us, p, end, &mourned);
			waitq_wake(&us->commits);
		}
		if (!cp)
			return;
		if (checkpoint_forget(cp)) {
			checkpoint_put(cp);
			continue;
		}
		checkpoint_path(cp, path, sizeof(path));
		if (p->rank >= 0)
			snprintf(rank, sizeof(rank), " (rank %d)", p->rank);
		if (end.code < 0)
			MESSAGE(text, CHECKPOINT_KILLED, path, (int)p->tgid, rank, -end.code,
				strsignal(-end.code), path);
		else
			MESSAGE(text, CHECKPOINT_EXITED, path, (int)p->tgid, rank, end.code, path);
		if (mourned)
			accord_mourns(cp, text);
		else
			checkpoint_fail(cp, -EIO, text);
		checkpoint_put(cp);
	} while (cp);
}
