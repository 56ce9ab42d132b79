/* SPDX-License-Identifier: MIT */
/*
 * What people are told of the other nodes that write to a checkpoint (accord.h): their names, and
 * which of them are waited for. This module reads what nodes have reported, asks no node, and
 * changes nothing.
 */
#ifndef ENGINE_CLUSTER_OTHERS_H
#define ENGINE_CLUSTER_OTHERS_H

#include <jansson.h>

#include "engine/base/text.h"
#include "engine/save/checkpoint.h"

/* --- lock held --- */

/*
 * For the parent: [{"node", "ranks": [...]}, ...], the nodes here and below that have files of the
 * checkpoint open, with those ranks; some of them.
 */
json_t *others_open(struct checkpoint *cp);

/*
 * "node two (rank 3), node three (rank 4)" after @before: the nodes below with open files; their
 * number.
 */
unsigned others_say_open(const struct checkpoint *cp, struct text *t, const char *before);

/* True if @cp waits for another node; @buf says for what. False: it does not, or has no accord. */
bool others_missing(struct checkpoint *cp, char *buf, size_t size);

/*
 * NULL if it has no accord. {"node", "sees_end": the label of the root, "state": of this node in
 * the agreement, "others": [{"node", "state": "writing"|"closed"|"voted"|"dead", "open": as
 * others_open}, ...]}, the others being the children of this node.
 */
json_t *others_to_json(const struct checkpoint *cp);

#endif
