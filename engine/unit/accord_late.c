/* SPDX-License-Identifier: MIT */
/*
 * A process is about to begin a checkpoint, and what had its name before has failed. If that was of
 * the same start of its job, the process has to hear so before it begins anew, alone, what the
 * other ranks do not save.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/coord/nodes.h"
#include "engine/unit/accord_impl.h"
#include "engine/unit/claim.h"
#include "engine/unit/pointer.h"

#define LATE_SEED 2 /* in units.left, beside 0 and 1 of accord_join.c */

bool accord_tells_none_locked(struct checkpoint *cp, uint64_t at_ns)
{
	if (!cp->accord || !cp->accord->a.slot || !list_empty(&cp->participants) ||
	    cp->nr_changing || pointers_wait_for_locked(cp->units, cp->staging))
		return false;
	cp->accord->untold_ns = at_ns;
	return true;
}

static bool took_part_locked(struct units *us, const char *gen)
{
	struct list *l;

	list_for_each (l, &us->wrecks.all)
		if (!strcmp(accord_generation(container_of(l, struct checkpoint, link)), gen))
			return true;
	return accord_part(us, gen);
}

/*
 * Is @p of the start of the job with @key in which something failed that was heard of here at
 * @at_ns?
 */
static bool is_of_epoch(const struct process *p, const char *key, uint64_t at_ns)
{
	return epoch_order(p, key, epoch_is_counted(p) ? EPOCH_LASTS : at_ns) == EPOCH_SAME;
}

/*
 * Has @w, which had the name of @cp, failed with nobody here being told, in the start of the job
 * that the process which makes @cp is of?
 */
static bool is_untold_of(const struct checkpoint *w, const struct checkpoint *cp)
{
	const struct process *p = cp->maker;

	return w->accord && w->accord->untold_ns &&
	       same_inode(&w->target.dir_id, &cp->target.dir_id) &&
	       !strcmp(w->target.name, cp->target.name) &&
	       is_of_epoch(p, w->maker->key, w->accord->untold_ns);
}

/*
 * One that this node has joined: what others recorded of it may be gone. Its generation; NULL:
 * none.
 */
static const char *untold_locked(struct units *us, const struct checkpoint *cp)
{
	struct list *l;

	list_for_each (l, &us->wrecks.all) {
		struct checkpoint *w = container_of(l, struct checkpoint, link);

		if (is_untold_of(w, cp))
			return accord_generation(w);
	}
	list_for_each (l, &us->accords) {
		struct checkpoint *w = container_of(l, struct accord, link)->cp;

		if (is_untold_of(w, cp))
			return accord_generation(w);
	}
	return NULL;
}

/*
 * One that this node has not joined. Where starts are counted, the same key is the same start.
 * Else, if this node itself has decided so for a root that is dead (find_free): what that has begun
 * is of the start before the one of a process that was started when it had lost its lease. If
 * another node has, the records of former failures are gone before a process of the next start is
 * that old.
 */
static bool is_of_start(struct units *us, const struct claim *c, const struct process *p)
{
	bool ours = !strcmp(c->decider, nodes_id(us->nodes));
	uint64_t served_ns = ours ? nodes_served_ns(us->nodes, c->node) : 0;

	if (!served_ns)
		served_ns = clock_mono_ns() - us->forget_ns;
	return is_of_epoch(p, c->job, served_ns + START_TICK_NS);
}

/*
 * True if what had the name of @cp before, perhaps @c, has failed, and the process that makes @cp
 * has to hear of that: other ranks of its job count what they wrote there as saved. Where processes
 * of this node had something in it, they are told without this.
 */
static bool is_late(struct checkpoint *cp, const struct claim *c)
{
	struct units *us = cp->units;
	struct process *p = cp->maker;
	bool alive = c->failed && nodes_alive(us->nodes, c->decider);
	const char *gen;
	uint64_t *told;
	LOCK_SCOPE(&us->lock);

	gen = untold_locked(us, cp);
	if (!gen && alive && !took_part_locked(us, c->end.last) && is_of_start(us, c, p))
		gen = c->end.last;
	told = gen ? known_make(&us->left, p, hash_text(LATE_SEED, gen)) : NULL;
	if (!told || *told)
		return false;
	*told = clock_mono_ns();
	return true;
}

static int tell_late(struct checkpoint *cp)
{
	struct units *us = cp->units;
	char path[PATH_MAX];

	checkpoint_path(cp, path, sizeof(path));
	LOCK_SCOPE(&us->lock);
	casualty_add(&us->casualties, cp->maker, path, -EIO, clock_mono_ns());
	return checkpoints_tell_casualty_locked(us, cp->maker);
}

/* What had the name before is decided; here that may be known in a moment only. */
static int await_former(struct checkpoint *cp, const struct claim *c)
{
	struct units *us = cp->units;
	struct checkpoint *former;
	int err = 0;
	LOCK_SCOPE(&us->lock);

	while (!err && (former = accord_part(us, c->end.last)) && !state_is_over(former->state))
		err = units_wait(us);
	return err ? err : checkpoints_tell_casualty_locked(us, cp->maker);
}

int accord_hear_of_former(struct checkpoint *cp, const struct claim *c)
{
	int err = await_former(cp, c);

	return !err && is_late(cp, c) ? tell_late(cp) : err;
}
