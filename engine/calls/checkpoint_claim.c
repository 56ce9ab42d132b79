/* SPDX-License-Identifier: MIT */
/*
 * Decides what a provisional checkpoint is, by its first file: one that goes by a rule, or an
 * ordinary directory, which gets its name at once.
 *
 * Takes the units' lock, and drops it for rules, backing and other nodes; BUSY_CLAIM lets one
 * thread decide at a time. The rules themselves are not here (engine/rule).
 */
#include "engine/calls/checkpoint_impl.h"

#include <errno.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/lock.h"
#include "engine/base/wait.h"
#include "engine/cluster/cluster.h"
#include "engine/journal/journal.h"
#include "engine/rule/reserved_names.h"
#include "engine/save/publish_checkpoint.h"

/* Makes @cp an ordinary directory, which gets its name at once: -EEXIST. Or another error. */
static int make_ordinary(struct checkpoint *cp)
{
	int err;
	{
		LOCK_SCOPE(&cp->units->lock);
		/* Meanwhile no program removes or renames it. */
		err = checkpoint_hold_locked(cp, BUSY_ORDINARY);
		if (err)
			return err;
	}
	err = accord_make_ordinary(cp);
	if (err == -EEXIST) { /* its name is there, or will be in a moment */
		checkpoint_let_go(cp, BUSY_ORDINARY);
		LOCK_SCOPE(&cp->units->lock);
		while (cp->state == GENERATION_OPEN && !units_wait(cp->units))
			;
		return cp->state == GENERATION_DROPPED ? -EEXIST : cp->err ? cp->err : -EINTR;
	}
	if (!err && cp->replaces)
		err = removal_make_way(cp->units, &cp->target.dir_id, cp->target.name);
	if (!err)
		err = checkpoint_name_ordinary(cp);
	if (err) {
		checkpoint_let_go(cp, BUSY_ORDINARY);
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
	struct backing b = backing_for(cp->units->contents->backing, &cp->owner);
	struct statx stx;

	return !backing_stat_at(&b, cp->target.dir, name, &stx);
}

/* Lets one thread decide. 1: the caller does, and calls decided. 0 or -EEXIST: it was decided. */
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
 * @p makes @cp a unit of its job. What other jobs did to it before, without knowing what it would
 * be, was no part of a save; from now on they get EBUSY.
 */
static void take_from_others(struct checkpoint *cp, struct process *p)
{
	struct process *maker = NULL;
	struct list *l, *tmp, others;

	list_init(&others);
	{
		LOCK_SCOPE(&cp->units->lock);
		list_for_each_safe (l, tmp, &cp->participants) {
			if (epoch_same(container_of(l, struct participant, link)->process, p))
				continue;
			list_del(l);
			list_append(&others, l);
		}
		if (!epoch_same(cp->maker, p)) {
			maker = cp->maker;
			cp->maker = process_get(p);
		}
	}
	checkpoint_free_participants(&others);
	process_put(maker);
}

static void decided(struct checkpoint *cp, const struct rule *rule)
{
	LOCK_SCOPE(&cp->units->lock);
	busy_end(cp->units, &cp->busy, BUSY_CLAIM);
	if (!cp->rule)
		cp->rule = rule; /* another node may have told it meanwhile */
	if (rule)
		checkpoint_tell_sibling_locked(cp);
	accord_wake(cp);
	waitq_wake_all(&cp->units->changed);
}

int checkpoint_claim(struct checkpoint *cp, const char *rel, struct process *p)
{
	const char *slash = strrchr(rel, '/'), *name = slash ? slash + 1 : rel;
	const struct rule *rule;
	char path[PATH_MAX];
	int err = name_is_kept_or_copied(name) ? 0 : begin_deciding(cp);

	if (err != 1)
		return err;
	checkpoint_path(cp, path, sizeof(path));
	rule = rules_claim(cp->units->rules, path, rel, is_beside, cp);
	if (!rule)
		rule = accord_rule_of_others(cp, path);
	if (rule)
		take_from_others(cp, p);
	/*
	 * If the directory's name suggests a unit, a file whose name tells nothing does not decide;
	 * nor does any where @cp replaces something, which is kept.
	 */
	if (!rule && !cp->inherits && !cp->rule &&
	    !((name_tells_nothing(name) || cp->replaces) && rules_suggest(cp->units->rules, path)))
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

/* A checkpoint in @dir that may still become ordinary. */
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
