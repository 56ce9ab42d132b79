/* SPDX-License-Identifier: MIT */
/*
 * What follows the commit of a checkpoint (DESIGN 4, O6 and O7), as its decision record has it:
 * first pointers get their names, then what its job has removed leaves. Whoever finds the record
 * does that, any number of times, perhaps beside others:
 *
 * - A new pointer, a file or a symbolic link, lies durable beside the checkpoint under a staging
 *   name, which is used once. One rename gives it its own name, for whoever comes first; unless
 *   that shows something else by now than when it was decided.
 * - What is removed is known by its name and by the generation in its commit file. It leaves by one
 *   rename to trash, unless a pointer names it.
 */
#ifndef ENGINE_UNIT_ORDER_H
#define ENGINE_UNIT_ORDER_H

#include "engine/format/commit.h"
#include "engine/rule/rule.h"
#include "engine/unit/unit.h"

#define ORDER_MAX     32 /* of each kind in one record; what is more is not redone after a crash */
#define ORDER_WAS_MAX 64

struct order_pointer {
	char name[NAME_MAX + 1];
	char staging[STAGING_MAX];
	char was[ORDER_WAS_MAX]; /* what its name showed when that was decided: order_look */
};

struct order_removal {
	char name[NAME_MAX + 1];
	char generation[COMMIT_HEX];
};

struct order {
	size_t nr_pointers, nr_removals;
	struct order_pointer pointers[ORDER_MAX]; /* each name once */
	struct order_removal removals[ORDER_MAX];
};

/* Where that is done: for the committed checkpoint @unit in @dir, whose generation is @id. */
struct order_place {
	struct backing *backing;
	const struct caller *owner; /* of the record: nobody else's pointers are believed */
	const struct rules *rules;
	int dir;
	const char *unit, *id;
	const struct order *to_come; /* its pointers are as good as changed; NULL: none */
	bool only_look;		     /* change nothing */
};

/* What @name in @dir shows, as a text for comparison. 0 or -errno. */
int order_look(struct backing *b, int dir, const char *name, char was[ORDER_WAS_MAX]);

/*
 * Was what @name in @dir shows written later than @ns? That is the time of the node which wrote it.
 */
bool order_is_newer(struct backing *b, int dir, const char *name, uint64_t ns);

/* May this be such a text? */
bool order_was_ok(const char *was);

/* Does a pointer in @dir that is not one of @but (NULL: none) name @name? */
bool order_is_named(struct backing *b, const struct rules *rules, int dir, const char *name,
		    const struct order *but);

/* Is one of its pointers called so? */
bool order_has_pointer(const struct order *o, const char *name);

/*
 * 1: it was done, or would be. 0: it is not to be done any more. Or -errno. The directory is not
 * synced yet.
 */
int order_point(const struct order_place *p, const struct order_pointer *pointer);

/* The same. It is durable, and awaits removal as the trash of @trash. */
int order_remove(const struct order_place *p, const struct order_removal *removal,
		 char trash[STAGING_MAX]);

#endif
