/* SPDX-License-Identifier: MIT */
/*
 * What the daemon remembers of processes, or of jobs: one number for each of these and a thing. An
 * entry lives as long as its process, or as any process of its job that is known here. So the
 * number of entries is bounded by what runs on this node, and nothing of a process is forgotten
 * before it has ended. An entry keeps a reference to the process that made it.
 *
 * The owner of a struct known guards it. A process whose end cannot be seen is forgotten when room
 * is made.
 */
#ifndef ENGINE_LIVENESS_KNOWN_H
#define ENGINE_LIVENESS_KNOWN_H

#include "engine/base/table.h"
#include "engine/liveness/epoch.h"
#include "engine/liveness/job.h"

struct known {
	struct table entries;
	bool of_jobs;	 /* const */
	size_t sweep_at; /* so many entries: those of what has ended go */
};

/* @of_jobs: entries are of jobs, else of processes. 0 or -ENOMEM. */
int known_init(struct known *k, bool of_jobs);
void known_finish(struct known *k);

/* The number of @p, or its job, and @thing, a hash; or NULL. */
uint64_t *known_find(const struct known *k, const struct process *p, uint64_t thing);

/* The same; a new one is 0. NULL without memory. */
uint64_t *known_make(struct known *k, struct process *p, uint64_t thing);

#endif
