/* SPDX-License-Identifier: MIT */
/*
 * A process is about to begin a checkpoint whose name belonged to one that has failed. If that was
 * of the same incarnation, the process has to hear so first. Else it would begin anew, alone, what
 * the other ranks do not save. Takes the units' lock, and asks no other node.
 */
#include "engine/cluster/accord_impl.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/cluster/claim.h"
#include "engine/coord/nodes.h"
#include "engine/journal/journal_pending.h"

#define LATE_SEED 2 /* in units.left, where accord_join.c uses 0 and 1 */

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

/* True if @p is of the incarnation with @key, of whose failure this node heard at @at_ns. */
static bool is_of_epoch(const struct process *p, const char *key, uint64_t at_ns)
{
	return epoch_order(p, key, epoch_is_counted(p) ? EPOCH_LASTS : at_ns) == EPOCH_SAME;
}

/*
 * True if @w had the name of @cp and failed, no process here was told, and the process that makes
 * @cp is of the incarnation of @w.
 */
static bool is_untold_of(const struct checkpoint *w, const struct checkpoint *cp)
{
	const struct process *p = cp->maker;

	return w->accord && w->accord->untold_ns &&
	       same_inode(&w->target.dir_id, &cp->target.dir_id) &&
	       !strcmp(w->target.name, cp->target.name) &&
	       is_of_epoch(p, w->maker->key, w->accord->untold_ns);
}

/* The generation of one that this node has joined, or NULL. Others' records of it may be gone. */
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
 * True if @p is of the incarnation of @c, which this node has not joined. Where starts are counted,
 * one key is one start. Else, if this node has aborted @c for a dead root (find_free): a process
 * that was started after the root lost its lease is of a later start. If another node has: the
 * records of former failures are gone before a process of the next start is that old.
 */
static bool is_of_start(struct units *us, const struct claim *c, const struct process *p)
{
	bool ours = !strcmp(c->decider, nodes_id(us->nodes));
	uint64_t served_ns = ours ? nodes_served_ns(us->nodes, c->opened.node) : 0;

	if (!served_ns)
		served_ns = clock_mono_ns() - us->forget_ns;
	return is_of_epoch(p, c->opened.job, served_ns + START_TICK_NS);
}

/*
 * True if what had the name of @cp before, perhaps @c, has failed, and the process that makes @cp
 * has to hear of that: other ranks of its job count what they wrote there as saved. Processes of
 * this node that had something in it are told without this.
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

/* What had the name before is decided: waits until this node knows that. */
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
