/* SPDX-License-Identifier: MIT */
/*
 * Pointers (pointer.h) that are whole when they come: a file that gets the name of one by a rename,
 * and symbolic links, made or renamed. Those that name a unit which is still to be committed are
 * held under a staging name beside it, and get their own when it is; never if it fails. Until then
 * their name shows what was applied last; in the mount, where nothing has the name, what is held.
 *
 * Guarded by the units' lock.
 */
#ifndef ENGINE_UNIT_HELD_H
#define ENGINE_UNIT_HELD_H

#include "engine/unit/unit.h"

struct held {
	struct units *units;	   /* const */
	struct caller owner;	   /* const */
	char staging[STAGING_MAX]; /* const */
	struct inode_id id;	   /* const */
	mode_t type;		   /* const; S_IFMT bits */
	int pin;		   /* const */
	char names[NAME_MAX + 1];  /* const: the unit, which is known as ... */
	struct process *writer;	   /* for who has it taken; referenced, or NULL */
	/* units lock */
	char waits_for[STAGING_MAX];
	bool asks; /* it is not known yet what it waits for */
	unsigned refs;
	struct list link; /* units->held, oldest first; else alone */
	struct target target;
	unsigned busy;	/* of enum busy; BUSY_APPLY also while a commit is to apply it */
	bool overtaken; /* a later one was applied, or its name removed */
	uint64_t since_ns, failing_ns, again_ns;
	uint64_t since_wall_ns; /* since_ns, by the clock that other nodes know */
};

/*
 * @c makes @at a symbolic link to @target. 1: that waits, and is held. 0: it names nothing that
 * is still to be committed, nothing was done. Or -errno.
 */
int held_link(struct units *us, const struct caller *c, const struct place *at, const char *target);

/*
 * @c renames @from in @from_dir, a file or symbolic link on the backing that says @names, to @at.
 * As above; *@id: of it.
 */
int held_rename(struct units *us, const struct caller *c, int from_dir, const char *from,
		const struct place *at, const char *names, struct inode_id *id);

/*
 * The same of one that is held as @from in @from_id. 0: it has its new name, held or on the
 * backing. -ENOENT: there is none.
 */
int held_move(struct units *us, const struct caller *c, const struct inode_id *from_id,
	      const char *from, const struct place *at, struct inode_id *id);

/*
 * A descriptor for paths of what is held as @name, the newest; -ENOENT: nothing is. Cheap when
 * nothing is at all.
 */
int held_pin(struct units *us, const struct inode_id *dir, const char *name);

/* --- for engine/unit --- */

/* Those of that name that came before @since_ns will not be applied. */
void held_overtake_locked(struct units *us, const struct target *t, uint64_t since_ns);

/*
 * What is held as @name will not be applied. Waits for what is being applied. True: there was
 * something.
 */
bool held_drop(struct units *us, const struct inode_id *dir, const char *name);

/* For who has @h taken, without the lock: it gets its name. 0 or -errno: then it is tried again. */
int held_apply(struct held *h);

/* Without the lock. Makes durable what @h says, before its name may show it. 0 or -errno. */
int held_sync(struct held *h);

/* Not taken any more; @applied: nor held. */
void held_let_go_locked(struct held *h, bool applied);

void held_put(struct held *h);

/* The path of its name, for people. Lock not held. */
void held_path(struct held *h, char *buf, size_t size);

/* Drops the lock meanwhile. Does what is due. False: there was nothing. */
bool held_work_locked(struct units *us);

/* The same for one of which it is not known what it waits for: asks again. */
bool held_ask(struct units *us);

/* Is one of that name just getting it, or being moved? */
bool held_is_taken_locked(struct units *us, const struct target *t);

/* Is there one that will not wait, or not for something that is known? */
bool held_any_due_locked(struct units *us);

/* The mount ends: what is left stays in staging. */
void held_finish(struct units *us);

#endif
