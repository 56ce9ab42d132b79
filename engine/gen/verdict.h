/* SPDX-License-Identifier: MIT */
/*
 * The end and the verdict of a generation: pure functions of what is known of it.
 * ckptfs-coordination(7), WHEN SOMETHING DIES, explains it to users.
 *
 * The *end* of a generation is seen while it is open: the evidence of its rule is there, and no
 * file of it is open. The end freezes the generation; so does a death, a node that leaves, a
 * time-out, or a person. The *verdict* follows once the generation is frozen and every node has
 * sent its log up to its cut. The cut of a node is the first death of a writer there; the node
 * sends nothing that happened after it. So:
 *
 *   V1  Without a death the verdict is that of the end.
 *   V2  After a death the evidence of silence, exits or a person does not hold: `quiet`,
 *       `exited_0`, `asked`.
 *       Nor is silence evidence where the end of a writer cannot be seen. It still delays other
 *       ends, as that of a copy.
 *   V3  After a death each rank must be covered: the alternative that holds asks for a file of
 *       every rank, or comes only after all ranks are done with the checkpoint (after_all), or
 *       there is only one rank.
 *   V4  A node on which a file is open when a writer dies asks for no verdict: the checkpoint
 *       aborts.
 *
 * No clock: two events on two nodes are concurrent if no message passed between them. Then a death
 * outside every cut may lose a whole save, but never commits a torn one.
 */
#ifndef ENGINE_GEN_VERDICT_H
#define ENGINE_GEN_VERDICT_H

#include <stdbool.h>

#include "engine/gen/tally.h"

/* What all nodes know of one generation. */
struct gen_facts {
	/* NULL: the kind is still unknown, or it is a change whose files are no evidence */
	const struct rule *rule;
	const char *name;
	const struct tally *tally; /* by that rule and name */
	int world;		   /* the largest that a writer knows; 0: unknown */
	bool closed;		   /* no file of it is open */
	bool quiet;		   /* closed, unchanged for quiet_s, and not being copied */
	bool unseen;		   /* a writer's end cannot be seen: its silence may be its death */
	bool exited_0;		   /* every writer has exited with status 0 */
	bool asked;		   /* a person asked for its commit */
	bool sibling;		   /* the job began its next sibling ... */
	bool goes_on;		   /* ... by the process that alone wrote this one */
	bool removing;		   /* the last operation on a name in it was a removal */
	bool follows;		   /* it is a change to a committed unit ... */
	/*
	 * ... that has something left, or that may be ordinary once nothing is left; and it is no
	 * full new save
	 */
	bool keeps;
	bool died, died_unranked; /* a writer died; one of unknown rank died */
};

#define GEN_NO_RULE (-1) /* a change that ended by its last close, not by an alternative */
#define GEN_NO_END  (-2)

/* True if @ev, a piece of its rule, holds. @facts: a struct gen_facts. For rule.h. */
bool gen_holds(void *facts, const struct evidence *ev);

/* The alternative of the rule by which the generation has ended, or one of the two above. */
int gen_end(const struct gen_facts *f);

/*
 * True if the files that @alternative, by which the generation ended, asks for are still there.
 * They are not if a node removed files and the nodes above it learned that after they had seen the
 * end.
 */
bool gen_stands(const struct gen_facts *f, int alternative);

/* As gen_end, for a frozen generation with complete logs. GEN_NO_END: the generation aborts. */
int gen_verdict(const struct gen_facts *f);

#endif
