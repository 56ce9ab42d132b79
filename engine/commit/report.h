/* SPDX-License-Identifier: MIT */
/* What people and programs are told of saves; drains, which wait for them. Callers hold no lock. */
#ifndef ENGINE_COMMIT_REPORT_H
#define ENGINE_COMMIT_REPORT_H

#include <jansson.h>

#include "engine/base/message.h"
#include "engine/save/drain.h"

/* An array of what units_describe returns for each unit that is not committed, oldest first. */
json_t *units_to_json(struct units *us, uid_t viewer, bool all);

/*
 * {path, generation, state, uid, size, ...} of the generation @id (NULL: the newest of the name),
 * live or lately ended. NULL: this node knows of none.
 */
json_t *units_describe(struct units *us, const struct inode_id *dir, const char *name,
		       const char *id);

/* As units_describe, for a file of a checkpoint, by its inode. NULL: not being written. */
json_t *units_describe_inode(struct units *us, const struct inode_id *id);

/* True if this node knows that inode as a durable file of an uncommitted checkpoint. */
bool checkpoints_have_durable(struct units *us, const struct inode_id *id);

/* True if a unit has that inode. Sets its state, and @reason, if it failed. */
bool units_state_of(struct units *us, const struct inode_id *id, enum generation_state *state,
		    char reason[MESSAGE_MAX]);

/* As units_state_of, for a checkpoint directory that has not ended, or has failed. */
bool checkpoint_state_of(struct units *us, const struct inode_id *id, enum generation_state *state,
			 char reason[MESSAGE_MAX]);

/* {"committed": N, "failed": N} since the mount. */
json_t *units_counts(struct units *us);

/* The last generations, as a Chrome trace. */
json_t *units_trace(struct units *us, uid_t viewer, bool all);

/* --- drains: drain.c, report.c --- */

/* Waits for everything that is closed. 0, -ETIMEDOUT at the deadline, -EINTR. */
int units_drain(struct units *us, uint64_t deadline_ns);

/* As units_drain, for what @d covers. */
int units_drain_of(struct units *us, struct drain *d, uint64_t deadline_ns);

#define DRAIN_NAMED_MAX 100

/*
 * The progress of @d, which has since_ns set:
 * 	{"nr_left": N, "left": [what units_describe returns for each, DRAIN_NAMED_MAX at most],
 * 	 "bytes": of those, "dirty_bytes": of those, "committed": N,
 * 	 "failed": [the same for each that has failed]}
 * committed and failed count since since_ns. With a job, failed also has older failures, unless
 * a later commit stands beside them, the job asked for them, or another job replaced them.
 */
json_t *units_drain_to_json(struct units *us, const struct drain *d);

#endif
