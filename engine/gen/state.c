/* SPDX-License-Identifier: MIT */
#include "engine/gen/state.h"

#include "engine/base/fault.h"

#define TO(state) MACHINE_TO(GENERATION_##state)

#define STATE_NAMES \
	{ \
		[GENERATION_OPEN] = "OPEN", [GENERATION_SEALED] = "SEALED", \
		[GENERATION_PUBLISHING] = "PUBLISHING", [GENERATION_TAKEN] = "TAKEN", \
		[GENERATION_COMMITTING] = "COMMITTING", [GENERATION_NAMING] = "NAMING", \
		[GENERATION_DURABLE] = "DURABLE", [GENERATION_COMMITTED] = "COMMITTED", \
		[GENERATION_FAILED] = "FAILED", [GENERATION_DROPPED] = "DROPPED", \
	}

/* save/generation.h has the diagram. */
const struct machine file_machine = {
	.what = "save",
	.nr_states = GENERATION_DROPPED + 1,
	.names = STATE_NAMES,
	.next =
		{
			[GENERATION_OPEN] = TO(SEALED) | TO(DURABLE) | TO(FAILED) | TO(DROPPED),
			[GENERATION_SEALED] =
				TO(OPEN) | TO(PUBLISHING) | TO(TAKEN) | TO(FAILED) | TO(DROPPED),
			[GENERATION_PUBLISHING] =
				TO(SEALED) | TO(NAMING) | TO(DURABLE) | TO(DROPPED),
			[GENERATION_TAKEN] = TO(SEALED) | TO(NAMING),
			[GENERATION_NAMING] = TO(SEALED) | TO(COMMITTED) | TO(DROPPED),
		},
};

/* save/checkpoint.h has the diagram. */
const struct machine checkpoint_machine = {
	.what = "checkpoint",
	.nr_states = GENERATION_DROPPED + 1,
	.names = STATE_NAMES,
	.next =
		{
			[GENERATION_OPEN] = TO(SEALED) | TO(COMMITTED) | TO(FAILED) | TO(DROPPED),
			[GENERATION_SEALED] =
				TO(COMMITTING) | TO(COMMITTED) | TO(FAILED) | TO(DROPPED),
			[GENERATION_COMMITTING] = TO(SEALED) | TO(NAMING),
			[GENERATION_NAMING] = TO(SEALED) | TO(COMMITTED) | TO(DROPPED),
		},
};

const char *generation_state_name(enum generation_state state)
{
	static const char *const names[] = {
		[GENERATION_OPEN] = "open",	    [GENERATION_SEALED] = "sealed",
		[GENERATION_PUBLISHING] = "sealed", [GENERATION_TAKEN] = "sealed",
		[GENERATION_COMMITTING] = "sealed", [GENERATION_NAMING] = "durable",
		[GENERATION_DURABLE] = "durable",   [GENERATION_COMMITTED] = "committed",
		[GENERATION_FAILED] = "failed",	    [GENERATION_DROPPED] = "dropped",
	};

	if (FAULT(TOLD_EARLY) && state == GENERATION_SEALED)
		state = GENERATION_COMMITTED;
	return names[state];
}
