/* SPDX-License-Identifier: MIT */
/*
 * What has happened to a checkpoint's files on one node, in the form of reports to other nodes:
 * [kind, path, rank], in their order. What every rank has done to a file of its own is one line,
 * [kind, pattern, [first rank, last rank, ...]]. For 10^5 ranks that is some KiB, where names would
 * be some MiB. In a pattern EVENTS_RANK stands for the rank as a decimal number.
 *
 * No state and no lock. What the events mean is not known here (engine/save/evidence.c).
 */
#ifndef ENGINE_RECORD_EVENTS_H
#define ENGINE_RECORD_EVENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define EVENTS_RANK '\001'
#define EVENTS_MAX  (256u << 20) /* most memory for the events of one report, in bytes */

struct told_event {
	json_int_t kind; /* enum evidence_kind; NR_EVIDENCE_KINDS: a file lost its name */
	const char *path;
	int rank;
};

void events_add(json_t *events, int kind, const char *path, int rank);

/* Number @i of events that were added or heard. False: there are fewer. */
bool events_get(const json_t *events, size_t i, struct told_event *e);

/*
 * Puts as many of @events, from the first on, into *@told as fit into @most bytes of text, at least
 * one; returns their number. The caller releases *@told; NULL: no memory.
 */
size_t events_tell(const json_t *events, size_t most, json_t **told);

/* True if one of @events, in either form, is that a name has gone. */
bool events_remove(const json_t *events);

/*
 * [kind, path, rank] of all events in @told, which may be malformed: what is no event is left out.
 */
json_t *events_heard(const json_t *told);

#endif
