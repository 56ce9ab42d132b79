/* SPDX-License-Identifier: MIT */
/*
 * Why a checkpoint of several nodes was aborted: the payload of the record `decision` when it says
 * abort, which any node may have written. This is its only writer and its only reader.
 */
#ifndef ENGINE_UNIT_REFUSAL_H
#define ENGINE_UNIT_REFUSAL_H

#include <jansson.h>
#include <stdbool.h>

struct refusal {
	int err;	    /* positive; 0: it is ordinary */
	const char *reason; /* for people */
	const char *node;   /* whose it is, by its label */
	bool dropped;	    /* a program removed it */
	bool ordinary;	    /* it is an ordinary directory */
	json_int_t age_us;  /* how long ago the cause was; 0: not told */
	json_t *text;	    /* has the strings of one that was read */
};

/* To be freed. NULL without memory. */
char *refusal_write(const struct refusal *r);

/* @payload may be NULL, and is not believed to be well-formed. Undo with refusal_finish. */
void refusal_read(struct refusal *r, const char *payload);
void refusal_finish(struct refusal *r);

#endif
