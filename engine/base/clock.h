/* SPDX-License-Identifier: MIT */
/*
 * The clock: the only module that reads the time.
 *
 * - The source is the kernel until a test or a simulator installs its own. One source serves the
 *   whole process. A source that gives each simulated node its own time tells the nodes apart by
 *   the calling thread.
 * - The owner of a source calls clock_moved() after each change, so that waits with a passed
 *   deadline end (wait.h). Monotonic time never goes back, wall time may.
 * - Install a source while no other thread waits. A thread that waits by the old source looks again
 *   only when the old deadline has passed.
 */
#ifndef ENGINE_BASE_CLOCK_H
#define ENGINE_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define NSEC_PER_SEC  1000000000ull
#define NSEC_PER_MSEC 1000000ull
#define NSEC_PER_USEC 1000ull

/* A deadline that never passes. */
#define CLOCK_NEVER UINT64_MAX

/* Any thread may call both functions, with any lock held. Both return at once. */
struct clock_source {
	uint64_t (*mono_ns)(void *arg);
	uint64_t (*wall_ns)(void *arg);
	void *arg;
};

/* Monotonic nanoseconds, for ages and deadlines. Never show them to a user as a date. */
uint64_t clock_mono_ns(void);

/* Nanoseconds since 1970, for records that people and other machines read. */
uint64_t clock_wall_ns(void);

/*
 * Nanoseconds since the boot, with suspension, as in /proc/PID/stat. An owned clock never sleeps.
 */
uint64_t clock_boot_ns(void);

/* Converts @ns for calls of the C library. */
static inline struct timespec clock_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / NSEC_PER_SEC),
				 .tv_nsec = (long)(ns % NSEC_PER_SEC)};
}

/* Installs @source, which must stay valid until the next call. NULL: the kernel's clock. */
void clock_set_source(const struct clock_source *source);

/* True if a source is installed, so that the kernel does not give the time. */
bool clock_is_owned(void);

/* The owner of the source calls this after it has changed the time. */
void clock_moved(void);

/* For wait.c: clock_moved() calls @moved. */
void clock_on_move(void (*moved)(void));

/* A built-in source that the caller moves. Neither of its times starts at 0. */
void clock_own(void);
void clock_set(uint64_t mono_ns, uint64_t wall_ns);
void clock_advance(uint64_t ns);
void clock_disown(void);

#endif
