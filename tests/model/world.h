/* SPDX-License-Identifier: MIT */
/*
 * The mount that a sequence is played in: an engine over a backing, of which there is one at a
 * time.
 */
#ifndef TESTS_MODEL_WORLD_H
#define TESTS_MODEL_WORLD_H

#include "tests/backing/record.h"
#include "tests/unit/mnt.h"

struct world {
	struct mnt m;
	char path[PATH_MAX];   /* of the backing */
	struct memory *memory; /* which is that instead, or NULL */
	struct backing look;   /* the same, open while nothing is mounted, too */
	struct record *record;
};

extern struct world world;

/* True: backings lie in memory from here on. */
extern bool world_in_memory;

/*
 * An empty backing, mounted. @record: all that is done to it, until it is unmounted, which then is
 * for good.
 */
void world_begin(bool record);
/* Unmounted if it is not yet; removed. */
void world_end(void);

void world_mount(void);
/* As `ckptfs umount` does. */
void world_unmount(void);
/* Without any of that. */
void world_drop(void);

/* Waits until there is nothing that can be done without more silence, or another call. */
void world_settle(void);

/* Lets quiet_s pass for all that waits for it, and settles. */
void world_pass(void);

#endif
