/* SPDX-License-Identifier: MIT */
#ifndef ENGINE_BASE_CLOCK_H
#define ENGINE_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NSEC_PER_SEC  1000000000ull
#define NSEC_PER_MSEC 1000000ull
#define NSEC_PER_USEC 1000ull

/* Monotonic nanoseconds: for ages and deadlines, never for a user to read as a date. */
static inline uint64_t clock_mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* Nanoseconds since 1970: for records that people and other machines read. */
static inline uint64_t clock_wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

#endif
