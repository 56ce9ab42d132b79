/* SPDX-License-Identifier: MIT */
/*
 * The watchdog. It gives up requests that are due for that (requests_give_up.c), and sends a thread
 * to an unattended device. Functions ..._locked run under the lock of struct requests. No thread is
 * ended: what the backing holds stays held.
 */
#include <stdio.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/list.h"
#include "engine/base/lock.h"
#include "engine/base/wait.h"
#include "fs/fs.h"
#include "fs/late_call.h"
#include "fs/requests_inside.h"

#define WATCHDOG_PERIOD (250 * NSEC_PER_MSEC)
/* After this long without a request the watchdog sleeps deeply. Too short: late attendants. */
#define CALM_NS (100 * NSEC_PER_MSEC)

static bool due(struct request *r, uint64_t now, uint64_t *waited)
{
	*waited = now - r->started_ns;
	if (r->interrupted_ns)
		return now - r->interrupted_ns >= INTERRUPT_GRACE_NS;
	/* A killed process closes its files, and no signal causes an INTERRUPT for that. */
	return r->opcode == FUSE_FLUSH && *waited >= INTERRUPT_GRACE_NS && r->pid &&
	       requests_is_exiting(r->pid);
}

/* Looks after one request. True: there is something to report, see @abandoned. */
static bool watch_one_locked(struct requests *rs, struct request *r, uint64_t now, bool *abandoned)
{
	uint64_t waited;

	*abandoned = false;
	if (atomic_load(&r->answered))
		return false;
	if (request_is_page_write(r))
		request_answer_page_write_locked(rs, r);
	if (due(r, now, &waited) && request_give_up_locked(rs, r)) {
		*abandoned = true;
		if (r->queued) {
			r->queued = false;
			atomic_fetch_sub(&rs->fs->engine->metrics.queued, 1);
			requests_retire_locked(rs, r);
		}
		return true;
	}
	if (waited >= STUCK_AFTER_NS && !r->stuck_told) {
		r->stuck_told = true;
		return true;
	}
	return false;
}

/* Looks at all requests until there is something to report. False: there is nothing. */
static bool watch_round(struct requests *rs, struct request_facts *w, bool *abandoned)
{
	struct list *heads[] = {&rs->active, &rs->queued}, *l, *tmp;
	uint64_t now;
	size_t i;
	LOCK_SCOPE(&rs->lock);

	now = clock_mono_ns(); /* taken under the lock: no request may be younger */
	for (i = 0; i < ARRAY_SIZE(heads); i++) {
		list_for_each_safe (l, tmp, heads[i]) {
			struct request *r = container_of(l, struct request, link);
			struct request_facts facts = {
				.nodeid = r->nodeid,
				.opcode = r->opcode,
				.pid = r->pid,
				.uid = r->uid,
				.waited = (double)(now - r->started_ns) / NSEC_PER_SEC,
			};

			if (watch_one_locked(rs, r, now, abandoned)) {
				*w = facts;
				return true;
			}
		}
	}
	return false;
}

/*
 * Sleeps until the next look: for a short time while requests come, so that a device gets another
 * attendant if the backing holds the one that it had.
 */
static void watchdog_sleep_locked(struct requests *rs)
{
	uint64_t now = clock_mono_ns(), period;

	rs->watching_closely = now - rs->last_ns < CALM_NS;
	period = rs->watching_closely ? ATTEND_NS : WATCHDOG_PERIOD;
	if (!rs->exited || rs->nr_threads)
		wait_out(&rs->changed, now + period);
	if (rs->unattended_ns && !rs->exited && clock_mono_ns() - rs->unattended_ns >= ATTEND_NS)
		requests_call_attendant_locked(rs);
}

void *requests_watchdog_main(void *arg)
{
	struct requests *rs = arg;
	struct request_facts w;
	uint64_t next_round = 0;
	bool abandoned, exited = false;

	while (!exited) {
		if (clock_mono_ns() >= next_round) {
			while (watch_round(rs, &w, &abandoned))
				requests_tell_waiting(rs, &w, abandoned);
			next_round = clock_mono_ns() + WATCHDOG_PERIOD / 2;
		}
		LOCK_SCOPE(&rs->lock);
		watchdog_sleep_locked(rs);
		exited = rs->exited && !rs->nr_threads;
	}
	return NULL;
}
