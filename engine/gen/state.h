/* SPDX-License-Identifier: MIT */
/*
 * The states of a save: facts that hold for every thread.
 *
 * A save of one file (save/generation.h) and a checkpoint directory (save/checkpoint.h) are two
 * machines with one set of states. Both headers have diagrams. Each machine has one setter
 * (generation_set_state, checkpoint_set_state), which aborts at a transition that is not in its
 * table (state.c). Pure, like all of gen/.
 *
 * A change that one thread makes to a save for a moment, and undoes, is no state: save/busy.h.
 */
#ifndef ENGINE_GEN_STATE_H
#define ENGINE_GEN_STATE_H

#include <stdbool.h>

#include "engine/base/machine.h"

enum generation_state {
	GENERATION_OPEN,
	GENERATION_SEALED,
	GENERATION_PUBLISHING, /* of a file: a publisher makes it durable */
	GENERATION_TAKEN,      /* of a pointer: commits with the checkpoint that it names */
	GENERATION_COMMITTING, /* of a checkpoint: a committer lists it and makes it durable */
	GENERATION_NAMING,     /* durable in staging; its name is being given */
	GENERATION_DURABLE,    /* final, as all below: of a part, or of an ordinary file */
	GENERATION_COMMITTED,
	GENERATION_FAILED,
	GENERATION_DROPPED
};

extern const struct machine file_machine, checkpoint_machine;

/* The name of @state for people and programs. */
const char *generation_state_name(enum generation_state state);

/* True if @state is final. */
static inline bool state_is_over(enum generation_state state)
{
	return state >= GENERATION_DURABLE;
}

/* True if one thread is working towards the end of a save in @state. */
static inline bool state_is_ending(enum generation_state state)
{
	return state > GENERATION_SEALED && state < GENERATION_DURABLE;
}

#endif
