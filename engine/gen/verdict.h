/* SPDX-License-Identifier: MIT */
/*
 * Has a generation come to its end, and does it commit? Pure functions of what is known of it;
 * DESIGN 4, steps 2 and 3.
 *
 * Its *end* is seen while it is open: what its rule asks for is there, and nothing of it is open.
 * That freezes it, and so does a death, a node that leaves, a time-out, a person. The *verdict* is
 * given once it is frozen and every node has told all that happened there: its log, as far as its
 * cut, which is the first death of a writer on that node. What a node does after its cut it does
 * not tell. So:
 *
 *   V1  Without a death the verdict is that of the end.
 *   V2  After a death nothing holds that only silence, exits or a person bring: `quiet`,
 *       `exited_0`, `asked`.
 *   V3  After a death each rank must be covered: the alternative that holds asks for a file of
 *       every rank, or comes only after all ranks are done with the checkpoint (after_all), or
 *       there is but one rank.
 *   V4  A node on which a file is open when a writer dies asks for no verdict: the checkpoint
 *       aborts.
 *
 * No clock: two events on two nodes, between which no word passed, are concurrent. Then a death
 * that no cut covers loses a save which may have been whole, and never commits a torn one.
 */
#ifndef ENGINE_GEN_VERDICT_H
#define ENGINE_GEN_VERDICT_H

#include <stdbool.h>

#include "engine/gen/tally.h"

/* What is known of one generation, over all of its nodes. */
struct gen_facts {
	/* NULL: nobody knows yet what it is, or it is a change whose files tell nothing */
	const struct rule *rule;
	const char *name;
	const struct tally *tally; /* of that rule and name */
	int world;		   /* the largest that a writer knows; 0: none does */
	bool closed;		   /* nothing of it is open */
	bool quiet;    /* and nothing was done to it for quiet_s, nor is it being copied */
	bool exited_0; /* all who wrote to it have ended, and well */
	bool asked;    /* a person wants its commit */
	bool sibling;  /* the job's next was begun beside it ... */
	bool goes_on;  /* ... by the process that alone wrote to this */
	bool removing; /* the last that happened to a name in it was a removal */
	bool follows;  /* it is a change to a committed one ... */
	/*
	 * ... of which something is left, or which may be ordinary once nothing is, and which is
	 * not saved anew
	 */
	bool keeps;
	bool died, died_unranked; /* a writer has; and one whose rank nobody knows */
};

#define GEN_NO_RULE (-1) /* a change: no alternative of a rule, but its last close */
#define GEN_NO_END  (-2)

/* Does @ev, a piece of its rule, hold? @facts: a struct gen_facts. For rule.h. */
bool gen_holds(void *facts, const struct evidence *ev);

/* The alternative of its rule by which it has ended, or one of the above. */
int gen_end(const struct gen_facts *f);

/*
 * Of one that has ended by @alternative: is what that asks for in files still there? Not so where a
 * node was removing files, and those above heard of it when they had seen the end.
 */
bool gen_stands(const struct gen_facts *f, int alternative);

/*
 * The same as gen_end, of a frozen one whose logs are all there: GEN_NO_END means that it aborts.
 */
int gen_verdict(const struct gen_facts *f);

#endif
