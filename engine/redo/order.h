/* SPDX-License-Identifier: MIT */
/*
 * What follows the commit of a checkpoint (O6 and O7 of engine/commit/commit.c), as its decision
 * lists it: pointers get their names, then the removals of its job leave. Any daemon that finds the
 * record does that, any number of times, perhaps beside others:
 *
 * - A new pointer, a file or a symbolic link, lies durable beside the checkpoint under a staging
 *   name, which is used once. One rename, by the first daemon, gives it its own name; unless that
 *   name shows something else than at the decision.
 * - A removed checkpoint is known by its name and by the generation in its commit file. One rename
 *   moves it to trash, unless a pointer names it.
 */
#ifndef ENGINE_REDO_ORDER_H
#define ENGINE_REDO_ORDER_H

#include "engine/backing/backing.h"
#include "engine/format/names.h"
#include "engine/record/decision.h"
#include "engine/rule/rule.h"

/* Where that happens: for the committed checkpoint @unit in @dir, whose generation is @id. */
struct order_place {
	struct backing *backing;
	const struct caller *owner; /* of the record: it can name only this user's files */
	const struct rules *rules;
	int dir;
	const char *unit, *id;
	const struct order *to_come; /* its pointers count as applied; NULL: none */
	bool only_look;		     /* change nothing */
};

/* Describes what @name in @dir shows, as text for comparison. 0 or -errno. */
int order_look(struct backing *b, int dir, const char *name, char was[ORDER_WAS_MAX]);

/* True if what @name in @dir shows was written after @ns, by the writing node's clock. */
bool order_is_newer(struct backing *b, int dir, const char *name, uint64_t ns);

/* True if a pointer in @dir that is not one of @but (NULL: none) names @name. */
bool order_is_named(struct backing *b, const struct rules *rules, int dir, const char *name,
		    const struct order *but);

/* Applies a pointer. 1: done, or would be. 0: not needed any more. Or -errno. Does not sync. */
int order_point(const struct order_place *p, const struct order_pointer *pointer);

/* Applies a removal. The same, but durable: the checkpoint is the trash @trash then. */
int order_remove(const struct order_place *p, const struct order_removal *removal,
		 char trash[STAGING_MAX]);

#endif
