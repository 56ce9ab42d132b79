/* SPDX-License-Identifier: MIT */
/*
 * The world of a simulation: one backing, one coordination service or none, and nodes that mount
 * the backing and are paused, killed and mounted anew. All of it lives in this process; the nodes
 * run the engine as it is.
 */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/calls.h"

#define NODES_MAX	 4 /* 1 .. NODES_MAX */
#define COMMIT_TIMEOUT_S 30u

struct world_options {
	unsigned nodes;
	bool service;	   /* coordination by a service; else by records on the backing */
	bool power_fails;  /* it may: what is durable is known */
	const char *mount; /* more mount options; "" or ",KEY=VALUE" */
};

/* Before the scheduler runs. */
void world_begin(const struct world_options *o);
void world_end(void);

unsigned world_nodes(void);
/* Records are in a service, which knows all that ever stood. */
bool world_has_service(void);

/* Mounts node @n; blocks until it serves. 0 or -errno. */
int world_mount(unsigned n);
/* Unmounts it as `ckptfs umount` does. 0; -EIO: something was left uncommitted; -ETIMEDOUT. */
int world_unmount(unsigned n);
/* The host is gone in this moment, with all its processes. */
void world_kill(unsigned n);

/* All hosts are gone in this moment, and so is, in part, what was not durable; @seed chooses. */
void world_power_fails(uint64_t seed);

/* True while a mount or an unmount of it is under way. */
bool world_is_changing(unsigned n);

/* NULL: it is not mounted. */
struct mnt *world_at(unsigned n);
struct faults *world_faults(unsigned n);

/* The backing as a bare directory, beside all mounts: no faults, no waits. */
struct backing *world_eye(void);
/* Counts changes of names on the backing. */
uint64_t world_changes(void);

#endif
