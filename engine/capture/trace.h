/* SPDX-License-Identifier: MIT */
/*
 * The last captures and barriers that ended, for trace.json: one row for each session. Has its own
 * lock, which ranks behind all others.
 */
#ifndef ENGINE_CAPTURE_TRACE_H
#define ENGINE_CAPTURE_TRACE_H

#include <jansson.h>
#include <pthread.h>

#include "engine/base/lock.h"
#include "engine/content/tensors.h"
#include "engine/format/names.h"
#include "engine/save/generation.h"

#define TRACE_KEPT 4096

/* Times are monotonic, in ns; 0: did not happen. */
struct traced {
	uid_t uid;
	unsigned row; /* of the session, from 1 on; 0: unused */
	int rank;
	pid_t pid;
	struct tensor *tensor;	   /* referenced; NULL: a barrier */
	char staging[STAGING_MAX]; /* of its generation */
	uint64_t bytes;
	uint64_t written_ns;	   /* when its handle was written */
	uint64_t begin_ns, end_ns; /* of the copies, as the trainer says, or of the barrier */
	uint64_t landed_ns;	   /* when the last piece was in the cache */
	bool failed;
};

struct trace {
	struct lock lock;
	struct traced ring[TRACE_KEPT]; /* entry n in slot n % TRACE_KEPT */
	uint64_t nr;
};

void trace_init(struct trace *t);
void trace_finish(struct trace *t);

/* Takes over the reference to the tensor of @entry. */
void trace_add(struct trace *t, const struct traced *entry);

/* Appends events of @viewer's sessions, or of all, to the list of a Chrome trace. */
void trace_to_json(struct trace *t, uid_t viewer, bool all, json_t *events);

#endif
