/* SPDX-License-Identifier: MIT */
/*
 * The states of a save, and what a thread may be busy with meanwhile.
 *
 * A save of one file (unit.h) and a checkpoint directory (checkpoint.h) are two machines with one
 * set of states. Each has one setter (generation_set_state, checkpoint_set_state), which aborts at
 * a transition that its table (state.c) does not have. The two headers draw the machines.
 *
 * A state says what is true of the save, whichever thread looks. What one thread does to the save
 * for a moment, and undoes, is no state: it is `busy`, a set of reasons, each of which one thread
 * has at a time.
 *
 * All with the units' lock held. This module does not know what a reason protects: the code that
 * takes it does.
 */
#ifndef ENGINE_UNIT_STATE_H
#define ENGINE_UNIT_STATE_H

#include <stdbool.h>

#include "engine/base/machine.h"

struct units;

enum generation_state {
	GENERATION_OPEN,
	GENERATION_SEALED,
	GENERATION_PUBLISHING, /* of a file: a publisher makes it durable */
	GENERATION_TAKEN, /* of a pointer: goes with the commit of the checkpoint that it names */
	GENERATION_COMMITTING, /* of a checkpoint: a committer lists it, and makes it durable */
	GENERATION_NAMING,     /* it is durable in staging, and gets its name */
	GENERATION_DURABLE,    /* these are final: of a file that is a part, or became ordinary */
	GENERATION_COMMITTED,
	GENERATION_FAILED,
	GENERATION_DROPPED
};

extern const struct machine file_machine, checkpoint_machine;

/* As people and programs are told; a function of the state alone. */
const char *generation_state_name(enum generation_state state);

/* True if nothing follows @state. */
static inline bool state_is_over(enum generation_state state)
{
	return state >= GENERATION_DURABLE;
}

/* True if one thread works towards the end of the save in @state. */
static inline bool state_is_ending(enum generation_state state)
{
	return state > GENERATION_SEALED && state < GENERATION_DURABLE;
}

enum busy {
	BUSY_RENAME = 1 << 0,	/* a program renames it */
	BUSY_REMOVE = 1 << 1,	/* a program removes it */
	BUSY_ORDINARY = 1 << 2, /* it becomes an ordinary file or directory */
	BUSY_CLAIM = 1 << 3,	/* of a checkpoint: the rule that it goes by is being found */
	BUSY_UNSHARE = 1 << 4,	/* of a checkpoint: an inherited file is being made its own */
	BUSY_INHERIT = 1 << 5,	/* of the mount: a checkpoint takes over what a directory has */
	BUSY_ASK = 1 << 6,	/* of a pointer: other nodes are asked what it waits for */
	BUSY_APPLY =
		1 << 7, /* of a held pointer, or a removal: it is being applied, or about to be */
	BUSY_MOVE = 1 << 8 /* of a held pointer: and the name may be its own by now */
};

/* While one of these is on nobody else changes the save, ends it, or sets its state. */
#define BUSY_HELD (BUSY_RENAME | BUSY_REMOVE | BUSY_ORDINARY)

/*
 * Waits, with the lock dropped, until no thread is busy with @with, as *@busy tells. Then the
 * caller is. 0, or -EINTR.
 */
int busy_wait(struct units *us, unsigned *busy, enum busy with);

/* The caller becomes busy with @with, which nobody is. */
void busy_begin(unsigned *busy, enum busy with);

/* The caller was busy with @with, and is not any more. */
void busy_end(struct units *us, unsigned *busy, enum busy with);

#endif
