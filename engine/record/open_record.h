/* SPDX-License-Identifier: MIT */
/*
 * The record `open`: what other nodes must know of a generation before they join. Only this module
 * writes and reads it:
 *
 *	{"gid":100,"inherits":true,"job":"0/master/10.0.0.1:1234","label":"n1","node":"9bc4..."}
 *
 * "inherits" and "follows" are missing if they are false. No state and no lock.
 */
#ifndef ENGINE_RECORD_OPEN_RECORD_H
#define ENGINE_RECORD_OPEN_RECORD_H

#include <limits.h>

#include "engine/coord/coord.h"
#include "engine/liveness/job.h"

struct open_record {
	char node[COORD_NODE_MAX]; /* the root, which began it */
	char label[NAME_MAX + 1];  /* ... for people */
	char job[JOB_KEY_MAX];
	gid_t gid;
	bool inherits, follows; /* as in its checkpoint */
};

/* The text, for the caller to free; NULL: no memory. */
char *open_record_write(const struct open_record *o);

/* 0. -EPERM: @text is something else, and *@o is unchanged. */
int open_record_read(const char *text, size_t len, struct open_record *o);

#endif
