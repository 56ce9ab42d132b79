/* SPDX-License-Identifier: MIT */
/*
 * Removes the records of a generation that is over, and of its name. The root does so, and the node
 * that recorded the decision, since the root may be dead. That node also clears up for the dead
 * root whose name it took. What a crash has left goes at the next mount (recover_mount.c).
 *
 * When, and why no node needs the records then:
 *
 * - The records of the generation: twice lease_s after the decision was seen here. A participant
 *   that has not seen it by then is held up, or cut off, and counts as dead. Such a node finds no
 *   `open`, and what it records then counts for nothing (agreement.h). If this node was the only
 *   participant they go at once, after a commit. The records stay until its pointers and removals
 *   are done, which the next mount would have to redo; and until each process that wrote to it here
 *   has heard of a failure.
 * - The chain of its name: at that time, too. Until then a lookup of the name learns from the chain
 *   that it was decided just now. If the name was taken since, the chain goes with that generation.
 *   namechain.h says what becomes of nodes that were held up.
 * - What a node has recorded that was held up, and came too late: that node removes it at once.
 */
#include "engine/cluster/accord_impl.h"

#include <errno.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/cluster/claim.h"

/*
 * True if a process that wrote to @cp here has not heard that @cp has failed. As long as its part
 * counts as saved, a rank that comes late must find that the checkpoint has failed.
 */
static bool is_owed_locked(const struct checkpoint *cp)
{
	struct list *l;

	list_for_each (l, &cp->participants)
		if (casualty_is_owed(&cp->units->casualties,
				     container_of(l, struct participant, link)->process))
			return true;
	return false;
}

/* True if this node clears up: it decided, or began the generation, and nothing is left to redo. */
static bool is_entitled_locked(const struct accord *a)
{
	const struct checkpoint *cp = a->cp;

	if (!agreement_is_decider(&a->a) && !agreement_is_root(&a->a))
		return false;
	if (a->a.state != AGREE_COMMIT)
		return true;
	/* The next mount does what was decided and is not done. */
	return cp->state == GENERATION_FAILED ? cp->err == -EBUSY : !a->kept;
}

/*
 * Lock not held. This node was held up, and the generation was cleared up before: removes what this
 * node has recorded since, which counts for nothing.
 */
static void clear_late(struct checkpoint *cp)
{
	struct units *us = cp->units;
	const char *gen = accord_generation(cp);
	char text[1];

	if (us->coord->read(us->coord_arg, cp->owner.uid, gen, COORD_OPEN, text, sizeof(text)) ==
	    -ENOENT)
		us->coord->forget(us->coord_arg, &cp->owner, gen);
}

/*
 * Lock not held. Clears the chains of the name by which it was begun, and of its name now. True if
 * another node does so, or it has to be tried again.
 */
static bool clear_names(struct accord *a)
{
	struct checkpoint *cp = a->cp;
	struct units *us = cp->units;
	const char *gen = accord_generation(cp);
	char first[COORD_GEN_MAX];
	int err;

	namechain_first(first, cp->target.dir_id.ino, cp->target.name);
	err = claim_clear(us, &cp->owner, first, gen);
	if (err != -EAGAIN && *a->first && strcmp(a->first, first))
		err = claim_clear(us, &cp->owner, a->first, gen);
	return err == -EAGAIN;
}

bool accord_clear(struct accord *a)
{
	struct checkpoint *cp = a->cp;
	struct units *us = cp->units;
	bool heard, late, again = false;

	if (!a->done)
		return false;
	if (a->a.state == AGREE_COMMIT && cp->state != GENERATION_FAILED && !a->followed &&
	    agreement_is_decider(&a->a))
		return a->kept;
	if (!is_entitled_locked(a)) {
		lock_drop(&us->lock);
		if (a->a.state == AGREE_LATE)
			clear_late(cp);
		lock_take(&us->lock);
		return true;
	}
	/*
	 * Before a commit the root has heard of every node that joined; before an abort a node may
	 * just have joined.
	 */
	heard = (a->a.state == AGREE_COMMIT || us->ending) && !a->a.slot && !a->a.nr_children;
	late = clock_mono_ns() - a->over_ns >= us->forget_ns ||
	       (us->ending && (heard || a->a.state == AGREE_COMMIT));
	if (!late && (!heard || a->cleared))
		return false;
	if (a->a.state == AGREE_ABORT && !us->ending && is_owed_locked(cp))
		return false;
	lock_drop(&us->lock);
	if (late)
		again = clear_names(a);
	if (!a->cleared && !again)
		a->cleared = !us->coord->forget(us->coord_arg, &cp->owner, accord_generation(cp));
	if (late && a->cleared && *a->orphan)
		us->coord->forget(us->coord_arg, &cp->owner, a->orphan);
	lock_take(&us->lock);
	return us->ending || (late && a->cleared);
}
