/* SPDX-License-Identifier: MIT */
/*
 * Why a checkpoint of several nodes was aborted: the payload of a `decision` record that says
 * abort. Any node may have written the record. Only this module writes and reads the payload.
 */
#ifndef ENGINE_RECORD_REFUSAL_H
#define ENGINE_RECORD_REFUSAL_H

#include <jansson.h>
#include <stdbool.h>

struct refusal {
	int err;	    /* positive; 0: the checkpoint became ordinary */
	const char *reason; /* for people */
	const char *node;   /* label of the node that refused */
	bool dropped;	    /* a program removed it */
	bool ordinary;	    /* it became an ordinary directory */
	json_int_t age_us;  /* how long ago the cause was; 0: unknown */
	json_t *text;	    /* owns the strings of a refusal that was read */
};

/* Returns text that the caller frees; NULL without memory. */
char *refusal_write(const struct refusal *r);

/* @payload may be NULL or malformed. Undo with refusal_finish. */
void refusal_read(struct refusal *r, const char *payload);
void refusal_finish(struct refusal *r);

#endif
