/* SPDX-License-Identifier: MIT */
/*
 * What a root adds to its vote for an heir (cluster/accord_heir.c). Only this module writes and
 * reads it:
 *
 *	"done":"rename .metadata","ranks":8,"decision":{"decision":"commit","replaces":null,
 *	"unit":"run/step-9"},"pointers":[{"link":false,"mode":420,"written_ns":17957431271,
 *	"name":"latest","text":"step-9\n"}],"rule":"dcp","judged":true
 *
 * decision.h has the decision. No state and no lock.
 */
#ifndef ENGINE_RECORD_FOR_HEIR_H
#define ENGINE_RECORD_FOR_HEIR_H

#include "engine/record/decision.h"
#include "engine/rule/rule.h"

#define LEFT_POINTERS_MAX 8    /* pointers in all */
#define LEFT_POINTER_TEXT 1024 /* bytes of the text of one */

/* A pointer that waited for the commit on a lost root. */
struct left_pointer {
	char name[NAME_MAX + 1], text[LEFT_POINTER_TEXT + 1]; /* content, or target of the link */
	bool link;
	mode_t mode;
	uint64_t written_ns; /* wall clock */
};

struct for_heir {
	const struct rule *rule;    /* that claims the checkpoint; NULL: none */
	char done[COMMIT_TEXT_MAX]; /* the evidence; "": unknown */
	unsigned ranks;		    /* 0: unknown */
	bool judged;		    /* a writer has died, and the checkpoint had ended by that */
	bool decides;		    /* @decision is known */
	struct decision decision;   /* what the root would record, without pointers */
	size_t nr_pointers;
	struct left_pointer pointers[LEFT_POINTERS_MAX];
};

/* Adds it to the object @vote. 0 or -ENOMEM. */
int for_heir_write(const struct for_heir *h, json_t *vote);

/* @vote may be malformed: what is missing in it is 0 or "". NULL: no memory. For the caller to free. */
struct for_heir *for_heir_read(const json_t *vote, const struct rules *rules);

#endif
