/* SPDX-License-Identifier: MIT */
/*
 * What people are told of the other nodes that write to a checkpoint (accord.h): who they are, and
 * who is waited for.
 */
#ifndef ENGINE_UNIT_OTHERS_H
#define ENGINE_UNIT_OTHERS_H

#include <jansson.h>

#include "engine/base/text.h"
#include "engine/unit/checkpoint.h"

/* --- lock held --- */

/*
 * For the parent: [{"node", "ranks": [...]}, ...] of who has files of it open, on this node and
 * those below; some of them.
 */
json_t *others_open(struct checkpoint *cp);

/* "two, three": whose vote has not come. How many. */
unsigned others_without_vote(const struct checkpoint *cp, struct text *t);

/*
 * "node two (rank 3), node three (rank 4)" after @before: who has files open, elsewhere. How many.
 */
unsigned others_say_open(const struct checkpoint *cp, struct text *t, const char *before);

/* What it waits for, if that is another node. False: no, or it is this node's alone. */
bool others_missing(struct checkpoint *cp, char *buf, size_t size);

/*
 * NULL if it is this node's alone. {"node", "sees_end": the label of the root, "state": of this
 * node in the agreement, "others": [{"node", "state": "writing"|"closed"|"voted"|"dead", "open": as
 * others_open}, ...]}, those that this node hears.
 */
json_t *others_to_json(const struct checkpoint *cp);

#endif
