/* SPDX-License-Identifier: MIT */
/* Waits of threads of the daemon, and of callers, for a change. */
#include "engine/save/units.h"

#include <errno.h>

#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/wait.h"

#define POLL_NS (50 * NSEC_PER_MSEC)

/*
 * Passing time alone, or another node, brings about many conditions that callers wait for; nothing
 * signals these. So each wait ends after POLL_NS at the latest, and the caller looks again.
 */
static uint64_t in_a_moment(void)
{
	return clock_mono_ns() + POLL_NS;
}

int units_wait(struct units *us)
{
	return wait_on(&us->changed, in_a_moment()) == -EINTR ? -EINTR : 0;
}

int units_pause(struct units *us, uint64_t ns)
{
	uint64_t until = clock_mono_ns() + ns;
	int err = 0;
	LOCK_SCOPE(&us->lock);

	while (!err && clock_mono_ns() < until)
		err = units_wait(us);
	return err;
}

void units_wait_for_work_locked(struct units *us)
{
	wait_out(&us->work, in_a_moment());
}

void units_wait_for_commits_locked(struct units *us)
{
	wait_out(&us->commits, in_a_moment());
}
