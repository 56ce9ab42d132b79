/* SPDX-License-Identifier: MIT */
/*
 * In place of engine/liveness: processes that are what the simulator says. Each node has a watcher,
 * a task that learns of ends as the daemon does: a moment later, and not while the node is paused.
 */
#ifndef TESTS_SIM_PEOPLE_H
#define TESTS_SIM_PEOPLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/liveness/job.h"

/*
 * A process on @node, which was started @age_ns ago: rank @rank of @world of the job @key ("": of
 * none, as a person's shell). Its id, which is never used twice.
 */
pid_t people_start(unsigned node, const char *key, int rank, int world, uint64_t age_ns);
struct process *people_process(pid_t pid);

/* It closes its files from here on because it ends. */
void people_ending(pid_t pid, bool well);

/* It has ended. The watchers learn of it. */
void people_ended(pid_t pid);

/* The node and all its processes are gone. */
void people_lost(unsigned node);

#endif
