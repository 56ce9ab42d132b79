/* SPDX-License-Identifier: MIT */
/*
 * The chain of records of one name: each gives the name to a generation, and the last counts. The
 * key of the first record is made of the name alone, the key of each later one of the first key,
 * its number and the generation before it. So of several nodes that begin at once one makes the
 * next record, and the others find it.
 *
 * When the last generation of a chain is over and its records are cleared up, no node needs the
 * chain, and the node that cleared up removes it: else there would be a record for each checkpoint
 * that was ever saved. What makes that safe:
 *
 * - No node adds to a chain that is being removed. The remover first closes it, by a record at its
 *   end: either that is there, or the record of a node which begins, never both. A node that finds
 *   a closed chain waits. If the node that closed it is dead, one other node closes it once more,
 *   and goes on.
 * - The first record goes first. From then on there is no chain, and the name begins anew. What is
 *   left leads nowhere, since no other chain has such keys. A crash may bring records back, in any
 *   combination: all of them are of generations that are over.
 * - A node that was held up may add a record behind what was removed meanwhile. So a record that is
 *   not the first counts only if the chain still leads to it after it was made (namechain_add).
 * - A node that was held up, and counts as dead, may remove the first record of a chain that was
 *   begun anew meanwhile. Then another node may begin a second generation of the name. So the end
 *   of a generation counts only if the chain leads to it after the end was seen (accord_decide):
 *   what a job wrote before that, on any node, is in this generation.
 *
 * No state, no lock, no clock.
 */
#ifndef ENGINE_RECORD_NAMECHAIN_H
#define ENGINE_RECORD_NAMECHAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/coord/coord.h"

/* The records to use, and as which user and node. */
struct namechain {
	const struct coord_ops *coord;
	void *arg;
	const struct caller *owner;
	const char *node;
};

/* The end of a chain. */
struct namechain_end {
	char first[COORD_GEN_MAX];
	unsigned nr;		     /* number of records, and of the next one */
	char last[COORD_GEN_MAX];    /* last owner of the name; "": no records */
	bool renamed;		     /* that one has another name now */
	char closed[COORD_NODE_MAX]; /* by this node; or "" */
	bool met;		     /* the generation sought is in the chain */
};

/* The key of the first record of @name in the directory whose inode number is @ino. */
void namechain_first(char first[COORD_GEN_MAX], uint64_t ino, const char *name);

/* Follows the chain that begins at @first. @sought: a generation, or NULL. 0 or -errno. */
int namechain_follow(const struct namechain *ch, const char *first, const char *sought,
		     struct namechain_end *end);

/*
 * Gives the name to @gen, after @end; @renamed: records that @gen has another name. 1: done; 0:
 * another node was quicker, or the chain was removed meanwhile. -errno: unknown.
 */
int namechain_add(const struct namechain *ch, const struct namechain_end *end, const char *gen,
		  bool renamed);

/*
 * Closes the chain after @end, which is over, or was closed by a dead node; or finds that this node
 * has closed it. 1: this node may remove it, by one thread at a time. 0: another node was quicker.
 * -errno: unknown.
 */
int namechain_close(const struct namechain *ch, const struct namechain_end *end);

/*
 * Removes the chain that this node has closed. 0; -errno: something may be left, so this node has
 * to try again.
 */
int namechain_remove(const struct namechain *ch, const char *first);

/*
 * Of the record @key, at an unknown place in a chain: the first record of the chain, and whether
 * the chain leads to @key. -ENOENT: there is none; -EPERM: it is no record of a name.
 */
int namechain_of(const struct namechain *ch, const char *key, char first[COORD_GEN_MAX],
		 bool *leads);

/* Removes a record to which no chain leads. */
int namechain_drop(const struct namechain *ch, const char *key);

/*
 * 1: each generation of the chain but @but is decided, or over; 0: one that was renamed is not. The
 * renamed one has lost the name, and its end still counts by this chain. -errno: unknown.
 */
int namechain_rests(const struct namechain *ch, const char *first, const char *but);

/* True if the generation that the record @key names has no records any more. */
bool namechain_is_over(const struct namechain *ch, const char *key);

#endif
