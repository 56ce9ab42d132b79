/* SPDX-License-Identifier: MIT */
/*
 * How much of each piece of its rule's evidence was seen of a generation, counted as operations on
 * names come and go: whether its end was seen is asked again and again, and of 10^4 nodes there may
 * be 10^5 operations.
 *
 * Pure: no I/O, clock or lock, and memory only as its owner gives it. The order of operations does
 * not matter, so that the logs of nodes may be counted as they are heard. The owner counts each
 * name once: it subtracts what it has added when the name goes.
 */
#ifndef ENGINE_GEN_TALLY_H
#define ENGINE_GEN_TALLY_H

#include <limits.h>
#include <stddef.h>

#include "engine/rule/rule.h"

/* An operation on a name: @path is relative to the generation; beside it: "../NAME". */
struct tally_op {
	enum evidence_kind kind; /* CLOSE, RENAME or UNLINK */
	const char *path;
	int rank; /* of who wrote that file; -1: unknown */
};

struct tally_piece {
	unsigned nr[EVIDENCE_UNLINK + 1]; /* operations that fit, of each kind */
	unsigned *of_rank; /* of EVERY_RANK: closes and renames that are this rank's */
	unsigned nr_ranks; /* of which there is room in that */
};

/* A value that is zero counts nothing, until tally_begin. All members are private. */
struct tally {
	const struct rule *rule; /* NULL: of none */
	char name[NAME_MAX + 1];
	struct tally_piece pieces[RULE_EVIDENCE_MAX];
	void *(*grow)(void *memory, size_t size);
};

/*
 * Counts from now on, from nothing, by @rule (which lives as long), of a generation that is called
 * @name. @grow is as realloc(3), and frees where @size is 0; where it fails the ranks that have no
 * room are not counted: other evidence has to do.
 */
void tally_begin(struct tally *t, const struct rule *rule, const char *name,
		 void *(*grow)(void *memory, size_t size));

/* True if that is what it counts by. */
bool tally_is_of(const struct tally *t, const struct rule *rule, const char *name);

/* Counts nothing any more, and has no memory. */
void tally_end(struct tally *t);

void tally_add(struct tally *t, const struct tally_op *op);
void tally_subtract(struct tally *t, const struct tally_op *op);

/* Of @ev, a piece of the rule: operations of @kind; closes and renames, of @rank or -1: of any. */
unsigned tally_nr(const struct tally *t, const struct evidence *ev, enum evidence_kind kind);
unsigned tally_files(const struct tally *t, const struct evidence *ev, int rank);

#endif
