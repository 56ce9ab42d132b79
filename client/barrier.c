/* SPDX-License-Identifier: MIT */
/*
 * The update barrier. It never waits for the daemon, only for what the pump and the devices report.
 * It takes the session's lock, and drops it while it waits and while it calls a device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/session.h"

/* False: the time is over. */
static bool wait_locked(struct ckptfs_session *s, uint64_t until_ns)
{
	struct timespec until = {.tv_sec = (time_t)(until_ns / CKPT_NSEC_PER_SEC),
				 .tv_nsec = (long)(until_ns % CKPT_NSEC_PER_SEC)};

	return pthread_cond_timedwait(&s->ended, &s->lock, &until) != ETIMEDOUT;
}

static unsigned cancel_locked(struct ckptfs_session *s, uint64_t seq_last, uint64_t timeout_ns)
{
	unsigned nr = 0;

	for (uint64_t seq = s->base; seq <= seq_last && seq < s->next_seq; seq++) {
		struct ckpt_capture *c = ckpt_capture_find_locked(s, seq);
		char text[CKPTFS_TEXT_MAX];

		if (!c || c->begun == c->total)
			continue;
		snprintf(text, sizeof(text),
			 "%.300s: was not captured within the %.1f s of the update barrier: "
			 "no memory of the cache became free%s",
			 c->tensor->name, (double)timeout_ns / (double)CKPT_NSEC_PER_SEC,
			 s->rank_text);
		ckpt_capture_fail_locked(s, c, -ETIMEDOUT, text);
		nr++;
	}
	return nr;
}

static bool is_copied_locked(struct ckptfs_session *s, uint64_t seq_last)
{
	for (uint64_t seq = s->base; seq <= seq_last && seq < s->next_seq; seq++) {
		const struct ckpt_capture *c = ckpt_capture_find_locked(s, seq);

		if (c && c->running)
			return true;
	}
	return false;
}

/*
 * Running copies are waited for without a limit: they go from memory to memory, and nothing stops
 * them.
 */
static int time_out_locked(struct ckptfs_session *s, uint64_t seq_last, uint64_t timeout_ns)
{
	unsigned nr = cancel_locked(s, seq_last, timeout_ns);

	while (is_copied_locked(s, seq_last))
		pthread_cond_wait(&s->ended, &s->lock);
	if (!nr)
		return ckpt_error(s, -ETIMEDOUT,
				  "the update barrier waited %.1f s; all is copied, but the daemon "
				  "has not taken notice of it yet: the checkpoint may still be "
				  "committed, and training can go on",
				  (double)timeout_ns / (double)CKPT_NSEC_PER_SEC);
	return ckpt_error(s, -ETIMEDOUT,
			  "the update barrier waited %.1f s; %u captures were cancelled, and their "
			  "checkpoint has failed; training can go on",
			  (double)timeout_ns / (double)CKPT_NSEC_PER_SEC, nr);
}

static int fence_devices(struct ckptfs_session *s, const uint64_t *streams, size_t n)
{
	for (unsigned i = 0; i < CKPT_DEVICES; i++) {
		const struct ckpt_bound_device *d = &s->devices[i];
		int err = d->ops && n ? d->ops->fence(d->state, streams, n) : 0;

		if (err)
			return *ckptfs_error(s)
				       ? err
				       : ckpt_error(s, err, "%s: %s", d->ops->name, strerror(-err));
	}
	return 0;
}

static int result_locked(struct ckptfs_session *s)
{
	int err = s->unreported;

	s->unreported = 0;
	if (s->dead)
		return ckpt_error(s, s->dead, "%s",
				  err ? s->unreported_text : "the daemon is gone");
	return err ? ckpt_error(s, err, "%s", s->unreported_text) : 0;
}

static void account_locked(struct ckptfs_session *s, uint64_t ns, bool timed_out)
{
	s->stats.barriers++;
	s->stats.barrier_ns += ns;
	if (s->nr_reports == CKPT_REPORTS || s->dead)
		return;
	s->reports[s->nr_reports++] =
		(struct ckptfs_barrier){.session = s->id, .blocked_ns = ns, .timed_out = timed_out};
	pthread_cond_signal(&s->work);
}

/* True if one of @streams may be a stream: ~0, as a write may have it, is none. */
static bool any_stream(const uint64_t *streams, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (streams[i] != UINT64_MAX)
			return true;
	return false;
}

int ckptfs_barrier(struct ckptfs_session *s, const uint64_t *streams, size_t n, unsigned flags,
		   uint64_t timeout_ns)
{
	uint64_t begin = ckpt_now_ns(), until, seq;
	int err = ckpt_session_enter(s), fence = 0;
	/* Without streams nothing is held back, so copies of devices must end here, too. */
	bool landed = flags & CKPTFS_BARRIER_LANDED || !any_stream(streams, n), waits;

	if (err == -ECHILD)
		return err;
	if (flags & ~CKPTFS_BARRIER_LANDED)
		return ckpt_error(s, -EINVAL, "0x%x are no flags of a barrier", flags);
	if (!timeout_ns)
		timeout_ns = CKPTFS_BARRIER_DEFAULT_NS;
	if (__builtin_add_overflow(begin, timeout_ns, &until))
		until = UINT64_MAX;
	ckpt_error(s, 0, "%s", "");
	pthread_mutex_lock(&s->lock);
	seq = s->next_seq - 1;
	waits = s->base <= seq;
	err = 0;
	while (!err && !ckpt_captures_passed_locked(s, seq, landed))
		if (!wait_locked(s, until) && ckpt_now_ns() >= until &&
		    !ckpt_captures_passed_locked(s, seq, landed))
			err = time_out_locked(s, seq, timeout_ns);
	pthread_mutex_unlock(&s->lock);
	if (!err)
		fence = fence_devices(s, streams, n);
	pthread_mutex_lock(&s->lock);
	if (!err)
		err = result_locked(s);
	else
		s->unreported = 0;
	if (waits)
		account_locked(s, ckpt_now_ns() - begin, err == -ETIMEDOUT);
	pthread_mutex_unlock(&s->lock);
	return err ? err : fence;
}
