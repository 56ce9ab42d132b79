/* SPDX-License-Identifier: MIT */
/*
 * How much of each piece of its rule's evidence was seen of a checkpoint, counted as its events come and go: whether its end
 * was seen is asked again and again, and of 10^4 nodes there may be 10^5 events.
 *
 * Guarded by the units' lock.
 */
#ifndef ENGINE_UNIT_TALLY_H
#define ENGINE_UNIT_TALLY_H

#include <limits.h>

#include "engine/rule/rule.h"

struct checkpoint;
struct event;

struct tally_piece {
	unsigned nr[EVIDENCE_UNLINK + 1]; /* operations that fit, of each kind */
	unsigned *of_rank; /* of EVERY_RANK: closes and renames that are this rank's */
	unsigned nr_ranks;
};

struct tally {
	const struct rule *rule; /* of which, and of what name, these are; NULL: of none */
	char name[NAME_MAX + 1];
	struct tally_piece *pieces;
};

/* Before it is put on the checkpoint's list, and before it is taken from it. */
void tally_add(struct checkpoint *cp, const struct event *e);
void tally_remove(struct checkpoint *cp, const struct event *e);
void tally_free(struct checkpoint *cp);

/* Of @ev, a piece of the checkpoint's rule: events of @kind; closes and renames, of @rank or -1: of any. */
unsigned tally_nr(struct checkpoint *cp, const struct evidence *ev, enum evidence_kind kind);
unsigned tally_files(struct checkpoint *cp, const struct evidence *ev, int rank);

#endif
