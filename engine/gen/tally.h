/* SPDX-License-Identifier: MIT */
/*
 * Counts, for one generation, how often each piece of its rule's evidence was seen, as operations
 * on names come and go. The counts make the frequent check for the end cheap: 10^4 nodes may have
 * 10^5 operations.
 *
 * Pure: no I/O, clock or lock, and memory only from its owner. The order of operations does not
 * matter, so the owner may count the logs of nodes as they arrive. The owner counts each name once,
 * and subtracts what it added when the name goes.
 */
#ifndef ENGINE_GEN_TALLY_H
#define ENGINE_GEN_TALLY_H

#include <limits.h>
#include <stddef.h>

#include "engine/rule/rule.h"

/* An operation on a name. @path is relative to the generation; a name beside it is "../NAME". */
struct tally_op {
	enum evidence_kind kind; /* CLOSE, RENAME or UNLINK */
	const char *path;
	int rank; /* of the writer of that file; -1: unknown */
};

struct tally_piece {
	unsigned nr[EVIDENCE_UNLINK + 1]; /* matching operations of each kind */
	unsigned *of_rank;		  /* of EVERY_RANK: closes and renames of each rank */
	unsigned nr_ranks;		  /* the length of of_rank */
};

/* A zeroed value counts nothing until tally_begin. All members are private. */
struct tally {
	const struct rule *rule; /* NULL: no rule */
	char name[NAME_MAX + 1];
	struct tally_piece pieces[RULE_EVIDENCE_MAX];
	void *(*grow)(void *memory, size_t size);
};

/*
 * Starts counting from zero by @rule (which must live as long), for a generation called @name.
 * @grow works like realloc(3), and frees if @size is 0. If @grow fails, ranks without room are not
 * counted, and other evidence must do.
 */
void tally_begin(struct tally *t, const struct rule *rule, const char *name,
		 void *(*grow)(void *memory, size_t size));

/* True if the tally counts by @rule for @name. */
bool tally_is_of(const struct tally *t, const struct rule *rule, const char *name);

/* Stops counting and frees all memory. */
void tally_end(struct tally *t);

void tally_add(struct tally *t, const struct tally_op *op);
void tally_subtract(struct tally *t, const struct tally_op *op);

/* For @ev of the rule: operations of @kind; closes and renames by @rank (-1: by any rank). */
unsigned tally_nr(const struct tally *t, const struct evidence *ev, enum evidence_kind kind);
unsigned tally_files(const struct tally *t, const struct evidence *ev, int rank);

#endif
