/* SPDX-License-Identifier: MIT */
/*
 * The states of a save: what is true of it, whichever thread looks.
 *
 * A save of one file (unit/unit.h) and a checkpoint directory (unit/checkpoint.h) are two machines
 * with one set of states. The two headers draw them. Each has one setter (generation_set_state,
 * checkpoint_set_state), which aborts at a transition that its table (state.c) does not have. Pure,
 * as all of gen/.
 *
 * What one thread does to a save for a moment, and undoes, is no state: unit/busy.h.
 */
#ifndef ENGINE_GEN_STATE_H
#define ENGINE_GEN_STATE_H

#include <stdbool.h>

#include "engine/base/machine.h"

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

#endif
