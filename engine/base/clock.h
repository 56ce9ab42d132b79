/* SPDX-License-Identifier: MIT */
/*
 * The time: the one place that asks for it.
 *
 * - The source is the kernel, until a test or a simulator installs its own. One source serves the
 *   whole process; a source that gives each simulated node a time of its own tells them apart by
 *   the thread that asks.
 * - Whoever owns the source calls clock_moved() after each change, so that waits whose deadline has
 *   passed end (wait.h). Monotonic time never goes back, wall time may.
 * - Install a source while no other thread waits. A thread that waits by the old one looks again
 *   when that time has passed.
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

/* Both functions are called from any thread, with any lock held, and return at once. */
struct clock_source {
	uint64_t (*mono_ns)(void *arg);
	uint64_t (*wall_ns)(void *arg);
	void *arg;
};

/* Monotonic nanoseconds: for ages and deadlines, never for a user to read as a date. */
uint64_t clock_mono_ns(void);

/* Nanoseconds since 1970: for records that people and other machines read. */
uint64_t clock_wall_ns(void);

/*
 * Nanoseconds since the boot, suspension included, as /proc/PID/stat counts. An owned clock never
 * sleeps.
 */
uint64_t clock_boot_ns(void);

/* @ns as the C library takes it. */
static inline struct timespec clock_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / NSEC_PER_SEC),
				 .tv_nsec = (long)(ns % NSEC_PER_SEC)};
}

/* Installs @source, which stays where it is until the next call; NULL: the kernel's clock. */
void clock_set_source(const struct clock_source *source);

/* True if the time is not the kernel's. */
bool clock_is_owned(void);

/* The owner of the source has changed the time. */
void clock_moved(void);

/* For wait.c: what clock_moved calls. */
void clock_on_move(void (*moved)(void));

/* A source that is moved by hand. Both times begin at a second that is not 0. */
void clock_own(void);
void clock_set(uint64_t mono_ns, uint64_t wall_ns);
void clock_advance(uint64_t ns);
void clock_disown(void);

#endif
