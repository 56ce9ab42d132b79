/* SPDX-License-Identifier: MIT */
/*
 * libckptfs with a daemon in its own process (the unit tests' one), for machines that have a GPU
 * and no FUSE: a program calls standin_begin, and opens its session with the path that that
 * returns.
 */
#define DAEMON_WITHOUT_CMOCKA
#include "tests/unit/client_daemon.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT const char *standin_begin(unsigned slot_bytes, unsigned nr_slots);
EXPORT void standin_sink(int sink);

/* A directory: files in it are written to by handle. */
const char *standin_begin(unsigned slot_bytes, unsigned nr_slots)
{
	assert_true(nr_slots <= SLOTS_MAX);
	daemon_setup(NULL);
	daemon_.slot_bytes = slot_bytes;
	daemon_.nr_slots = nr_slots;
	return daemon_.top;
}

/* What is captured from now on goes nowhere, or to its file. */
void standin_sink(int sink)
{
	DAEMON_SET(daemon_.sink = sink);
}
