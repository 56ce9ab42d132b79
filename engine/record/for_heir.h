/* SPDX-License-Identifier: MIT */
/*
 * What a root adds to its vote for an heir (cluster/accord_heir.c). Only this module writes and
 * reads it:
 *
 *	"done":"rename .metadata","ranks":8,"decision":{"decision":"commit","replaces":null,
 *	"unit":"run/step-9"},"rule":"dcp","judged":true
 *
 * decision.h has the decision; left.h what follows it. No state and no lock.
 */
#ifndef ENGINE_RECORD_FOR_HEIR_H
#define ENGINE_RECORD_FOR_HEIR_H

#include "engine/record/decision.h"
#include "engine/rule/rule.h"

struct for_heir {
	const struct rule *rule;    /* that claims the checkpoint; NULL: none */
	char done[COMMIT_TEXT_MAX]; /* the evidence; "": unknown */
	unsigned ranks;		    /* 0: unknown */
	bool judged;		    /* a writer has died, and the checkpoint had ended by that */
	bool decides;		    /* @decision is known */
	struct decision decision;   /* what the root would record, without what follows */
};

/* Adds it to the object @vote. 0 or -ENOMEM. */
int for_heir_write(const struct for_heir *h, json_t *vote);

/* @vote may be malformed: what is missing in it is 0 or "". NULL: no memory. For the caller to free. */
struct for_heir *for_heir_read(const json_t *vote, const struct rules *rules);

#endif
