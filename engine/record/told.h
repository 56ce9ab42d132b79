/* SPDX-License-Identifier: MIT */
/*
 * The payload of a report, which a node sends to the nodes above while a checkpoint is open. Only
 * this module writes and reads it; events.h has the events, engine/cluster/others.h what is open:
 *
 *	{"open":true,"writers":true,"events":[[0,"a",3]],"last":false,
 *	 "dead":{"reason":"rank 3 died","unranked":false,"node":"n1","age_us":15},"rule":"dcp",
 *	 "removing":true,"name":"step-9","open_on":[{"node":"n1","ranks":[3]}]}
 *
 * No state and no lock.
 */
#ifndef ENGINE_RECORD_TOLD_H
#define ENGINE_RECORD_TOLD_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>

/* A death, as the node tells that knows of it. */
struct told_death {
	const char *reason, *node; /* for people; label of the node */
	bool unranked;		   /* of a process without a rank */
	json_int_t age_us;	   /* since the death */
};

struct told {
	bool open;	  /* a file is open, or about to be */
	bool writers;	  /* a process that wrote lives, or did not end well */
	bool last;	  /* after a death: no event comes any more */
	bool removing;	  /* the last event is a removal */
	bool died;	  /* @death is told */
	const char *rule; /* name of the rule that claims the directory; NULL: none */
	const char *name; /* the name that the directory was renamed to; NULL: none */
	json_t *events;	  /* NULL: none */
	json_t *open_on;  /* NULL: nothing is open */
	struct told_death death;
	/* of a report that was read: */
	char new_name[NAME_MAX + 1];
	json_t *text; /* owns all the above */
};

/* The text, for the caller to free; NULL: no memory. */
char *told_write(const struct told *t);

/*
 * @payload may be malformed: then nothing is told. @rule is any text, @name the name of a file.
 * Undo with told_finish.
 */
void told_read(struct told *t, const char *payload);
void told_finish(struct told *t);

#endif
