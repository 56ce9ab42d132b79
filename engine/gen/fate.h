/* SPDX-License-Identifier: MIT */
/*
 * The fate of an operation on the backing that waits for a commit: a pure function of what is known
 * of it. journal/journal.h tells which operations these are, and which files find out and act.
 *
 * A pointer waits for the commit of the checkpoint that it names. A removal of a committed
 * checkpoint waits for the commit of a newer one by the same job. So:
 *
 *   F1  Once that commit is there the operation is applied; but a removal waits while a pointer
 *       names what is removed.
 *   F2  If that commit cannot come any more, or has not come within order_timeout_s, the operation
 *       is dropped: a pointer keeps what it says on the backing, and what was removed reappears.
 *       But for a removal a newer checkpoint that was committed before suffices, by any job. So it
 *       does once the remover has ended; if there is none then, the removal waits on.
 *   F3  After order_timeout_s no pointer keeps a removal waiting.
 *   F4  A pointer that a later one of its name has overtaken is dropped.
 *   F5  A pointer waits as long as it is unknown whether another node saves what it names.
 *   F6  The removal of some names in a checkpoint waits for nothing: after some silence it becomes
 *       a change to the checkpoint. If its process died in the middle, it is dropped.
 *
 * tests/unit/fate.c has each case.
 */
#ifndef ENGINE_GEN_FATE_H
#define ENGINE_GEN_FATE_H

#include <stdbool.h>

#include "engine/gen/state.h"

enum fate {
	FATE_WAIT,
	FATE_LOOK,   /* waits, but the caller is to look for `unknown`, or `newer` and `named` */
	FATE_APPLY,  /* it is done on the backing */
	FATE_DROP,   /* it is never done */
	FATE_CHANGE, /* of a removal in part: the checkpoint changes */
};

struct fate_facts {
	bool pointer;		       /* else a removal */
	enum generation_state awaited; /* of the save whose commit it waits for */
	bool late;		       /* order_timeout_s has passed */
	/* of a pointer */
	bool overtaken, unknown;
	/* of a removal */
	bool in_part;	/* of some names in the checkpoint */
	bool cut_short; /* a process died before it had removed the checkpoint's own name */
	bool quiet;	/* nothing was removed for quiet_s */
	bool ended;	/* the remover has ended, and the caller has not looked since */
	bool looked;	/* the caller has looked, and found: */
	bool newer;	/* a newer committed checkpoint beside it */
	bool named;	/* a pointer that names it */
};

enum fate fate_of(const struct fate_facts *f);

/* True if nothing is done to the operation now. */
static inline bool fate_waits(enum fate fate)
{
	return fate <= FATE_LOOK;
}

#endif
