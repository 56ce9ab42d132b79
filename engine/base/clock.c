/* SPDX-License-Identifier: MIT */
#include "engine/base/clock.h"

#include <stdatomic.h>
#include <stddef.h>

static uint64_t ask_kernel(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static _Atomic(const struct clock_source *) installed; /* NULL: the kernel */
static _Atomic(void (*)(void)) on_move;

uint64_t clock_mono_ns(void)
{
	const struct clock_source *s = atomic_load_explicit(&installed, memory_order_acquire);

	return s ? s->mono_ns(s->arg) : ask_kernel(CLOCK_MONOTONIC);
}

uint64_t clock_wall_ns(void)
{
	const struct clock_source *s = atomic_load_explicit(&installed, memory_order_acquire);

	return s ? s->wall_ns(s->arg) : ask_kernel(CLOCK_REALTIME);
}

uint64_t clock_boot_ns(void)
{
	return clock_is_owned() ? clock_mono_ns() : ask_kernel(CLOCK_BOOTTIME);
}

bool clock_is_owned(void)
{
	return atomic_load_explicit(&installed, memory_order_acquire) != NULL;
}

void clock_set_source(const struct clock_source *source)
{
	atomic_store_explicit(&installed, source, memory_order_release);
	clock_moved();
}

void clock_on_move(void (*moved)(void))
{
	atomic_store(&on_move, moved);
}

void clock_moved(void)
{
	void (*moved)(void) = atomic_load(&on_move);

	if (moved)
		moved();
}

/* --- a clock that the caller moves --- */

static struct {
	atomic_uint_fast64_t mono_ns, wall_ns;
} hand;

static uint64_t hand_mono(void *arg)
{
	(void)arg;
	return atomic_load(&hand.mono_ns);
}

static uint64_t hand_wall(void *arg)
{
	(void)arg;
	return atomic_load(&hand.wall_ns);
}

void clock_own(void)
{
	static const struct clock_source by_hand = {.mono_ns = hand_mono, .wall_ns = hand_wall};

	atomic_store(&hand.mono_ns, 1000 * NSEC_PER_SEC);
	atomic_store(&hand.wall_ns, 1700000000 * NSEC_PER_SEC);
	clock_set_source(&by_hand);
}

void clock_set(uint64_t mono_ns, uint64_t wall_ns)
{
	atomic_store(&hand.mono_ns, mono_ns);
	atomic_store(&hand.wall_ns, wall_ns);
	clock_moved();
}

void clock_advance(uint64_t ns)
{
	atomic_fetch_add(&hand.mono_ns, ns);
	atomic_fetch_add(&hand.wall_ns, ns);
	clock_moved();
}

void clock_disown(void)
{
	clock_set_source(NULL);
}
