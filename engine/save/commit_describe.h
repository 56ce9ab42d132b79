/* SPDX-License-Identifier: MIT */
/*
 * What a checkpoint is, for its commit file and for its decision, by what this node knows. Lock not
 * held.
 */
#ifndef ENGINE_SAVE_COMMIT_DESCRIBE_H
#define ENGINE_SAVE_COMMIT_DESCRIBE_H

#include "engine/format/commit.h"
#include "engine/record/decision.h"
#include "engine/save/checkpoint.h"

/*
 * Fills in those header fields that only the node that saw the end can know: all but sequence,
 * time, and number of nodes.
 */
void commit_describe(struct checkpoint *cp, const char *path, struct commit_header *h);

/* What decision_record would record. For a root that may be lost before that (accord_heir.c). */
void decision_propose(struct checkpoint *cp, const char *path, const struct order *order,
		      struct decision *d);

#endif
