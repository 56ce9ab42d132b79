/* SPDX-License-Identifier: MIT */
/*
 * What waits on a node for the commit of a checkpoint: pointers and removals. A node tells them in
 * lines of the list that it votes with (vote.h), so that another can do them if the node is lost.
 * Only this module writes and reads these lines:
 *
 *	{"pointer":"latest","text":"step-9\n","link":false,"mode":420,"written_ns":17957431271,
 *	 "by":"5e0d..."}
 *	{"removal":"step-1","generation":"9bc4...","by":"5e0d..."}
 *
 * A pointer goes with its content, since what a node has staged stays that node's: a program may
 * write to it again. No state and no lock.
 */
#ifndef ENGINE_RECORD_LEFT_H
#define ENGINE_RECORD_LEFT_H

#include "engine/coord/coord.h"
#include "engine/record/decision.h"

#define LEFT_MAX	  32   /* of each kind, of all nodes; what comes after them is left out */
#define LEFT_POINTER_TEXT 1024 /* bytes of the text of one */

struct left_pointer {
	char node[COORD_NODE_MAX];			      /* on which it waits */
	char name[NAME_MAX + 1], text[LEFT_POINTER_TEXT + 1]; /* content, or target of the link */
	bool link;
	mode_t mode;
	uint64_t written_ns; /* wall clock */
	bool done;	     /* not of the line */
};

struct left_removal {
	char node[COORD_NODE_MAX];
	struct order_removal what;
	bool done;
};

struct left {
	size_t nr_pointers, nr_removals;
	struct left_pointer pointers[LEFT_MAX]; /* each name once: the last written */
	struct left_removal removals[LEFT_MAX]; /* each name once */
};

/* Add one. One too many is left out. */
void left_add_pointer(struct left *l, const struct left_pointer *p);
void left_add_removal(struct left *l, const struct left_removal *r);

/* Lines, for the caller to release. NULL: no memory. */
json_t *left_line_of_pointer(const struct left_pointer *p);
json_t *left_line_of_removal(const struct left_removal *r);

/* True if the line is one of these, perhaps malformed. */
bool left_has_line(const json_t *line);

/* Adds what the line says. False: it is malformed. */
bool left_take_line(struct left *l, const json_t *line);

#endif
