/* SPDX-License-Identifier: MIT */
/*
 * What has happened to a checkpoint's files on one node, as it is told to others: [kind, path,
 * rank], in their order. What every rank has done to a file of its own is told as one line, [kind,
 * pattern, [first rank, last rank, ...]]: of 10^5 ranks that is some KiB, whose names alone would
 * be some MiB.
 *
 * In a pattern EVENTS_RANK stands for the rank as a decimal number.
 */
#ifndef ENGINE_UNIT_EVENTS_H
#define ENGINE_UNIT_EVENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define EVENTS_RANK '\001'
#define EVENTS_MAX  (256u << 20) /* bytes that what one report stands for may take */

/*
 * Puts as many of @events, from the first on, into *@told as have room in @most bytes of text, one
 * at least. How many; with *@told the caller's to release, NULL: no memory.
 */
size_t events_tell(const json_t *events, size_t most, json_t **told);

/* Is one of @events that a name has gone? @events: as the two others have them. */
bool events_remove(const json_t *events);

/*
 * [kind, path, rank] of all that is in @told, which is not believed to be well-formed: what is no
 * event is left out.
 */
json_t *events_heard(const json_t *told);

#endif
