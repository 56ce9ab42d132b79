/* SPDX-License-Identifier: MIT */
/*
 * State machines: a table says which state may follow which. The one setter of a machine checks
 * each transition against the table, in release builds too. An illegal transition is a bug, and the
 * daemon aborts at once, because its next step could harm saved data. The next mount redoes what
 * was decided.
 */
#ifndef ENGINE_BASE_MACHINE_H
#define ENGINE_BASE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#define MACHINE_STATES_MAX 32

/* One bit per state, for next[]. */
#define MACHINE_TO(state) (1u << (state))

struct machine {
	const char *what; /* "checkpoint" */
	unsigned nr_states;
	const char *names[MACHINE_STATES_MAX];
	uint32_t next[MACHINE_STATES_MAX]; /* for each state, the states that may follow it */
};

/* True if @to may follow @from. */
bool machine_allows(const struct machine *m, unsigned from, unsigned to);

/* Logs the illegal transition that the function @who makes of the object @fmt, and aborts. */
void machine_abort(const struct machine *m, unsigned from, unsigned to, const char *who,
		   const char *fmt, ...) __attribute__((noreturn, format(printf, 5, 6)));

/* The arguments that name the object are evaluated only if the transition is illegal. */
#define MACHINE_CHECK(m, from, to, who, ...) \
	do { \
		if (!machine_allows(m, from, to)) \
			machine_abort(m, from, to, who, __VA_ARGS__); \
	} while (0)

#endif
