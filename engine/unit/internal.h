/* SPDX-License-Identifier: MIT */
/* What the files of this directory share. */
#ifndef ENGINE_UNIT_INTERNAL_H
#define ENGINE_UNIT_INTERNAL_H

#include "engine/unit/history.h"
#include "engine/unit/unit.h"

#define PUBLISHERS 4

/* A process that wrote to a generation. */
struct writer {
	struct list link;
	uint64_t key; /* 0: is gone, and ended well; others may get the key that it had */
	bool closed;
};

/* An open that was answered with ESTALE: the kernel sends it again, for this generation. */
struct opener {
	struct list link;
	pid_t pid;
	uint64_t since_ns;
};

struct units {
	struct contents *contents; /* const */
	struct failures *failures; /* const */
	bool (*given_up)(void);	   /* const */
	uint64_t quiet_ns;	   /* const */
	uint64_t retry_ns;	   /* const */
	atomic_bool ending;
	void (*name)(void *arg, const struct inode_id *dir, const char *name, char *buf,
		     size_t size);
	void *name_arg; /* const once mounted, as is name */
	pthread_mutex_t lock;
	/* lock */
	pthread_cond_t changed; /* for who waits for a generation */
	pthread_cond_t work;	/* for the publishers: one may be ready, or is litter */
	struct list litter;	/* failed: their staging files are to be removed; each referenced */
	struct list live;	/* generations that have not ended, oldest first */
	struct history history;
	uint64_t nr_committed, nr_failed;
	unsigned nr_publishers;
	pthread_t publishers[PUBLISHERS];
};

/* Lock held. */
void generation_end(struct generation *g, enum generation_state state);
bool generation_is_closed(const struct generation *g);

/* Lock held. OPEN or SEALED, as to who has it. */
void generation_settle(struct generation *g);

/* Lock held. Expects @o no longer. */
void generation_miss(struct generation *g, struct opener *o);

struct generation *units_find_staging(struct units *us, const char *staging);

/* Waits a moment for a change. -EINTR if the call was given up. */
int units_wait(struct units *us);

/* Lock held. Waits a moment for something to publish, for which time alone may be the reason, too. */
void units_wait_for_work(struct units *us);

/*
 * Ends it as failed, with @reason for people. Takes the lock. Whoever holds it in
 * GENERATION_PUBLISHING is not disturbed: it fails when that one lets go of it unpublished.
 */
void generation_fail(struct generation *g, int err, const char *reason);

/*
 * The end of GENERATION_PUBLISHING without a publish: back to @state, unless it has failed
 * meanwhile, which is told.
 */
bool generation_let_go(struct generation *g, enum generation_state state);

/* Removes its staging file from @dir. As the daemon, too, if its maker's rights are not enough. */
void generation_unstage(struct generation *g, int dir);

/* Renames its staging file to @name in @dir. 0 also if it has that name already. */
int generation_move(struct generation *g, int from, int dir, const char *name);

/* The path of its target, for people. Lock not held. */
void generation_path(struct generation *g, char *buf, size_t size);

void *publisher_main(void *units);

#endif
