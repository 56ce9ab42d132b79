/* SPDX-License-Identifier: MIT */
/*
 * Grants: the daemon hands the trainer pieces to capture and slots to put them in, and takes what
 * the trainer reports. The lock of the session is held, and dropped while a call waits; one call of
 * a session waits at a time. The session's thread moves what is reported into the cache
 * (slot_land.c).
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/wait.h"
#include "engine/capture/session.h"

/* When the piece was copied, as the trainer says; a time that cannot be true is ignored. */
static void note_times_locked(struct capture *c, const struct ckptfs_done *d)
{
	uint64_t now = clock_mono_ns();

	if (d->begin_ns < c->written_ns || d->end_ns < d->begin_ns || d->end_ns > now)
		return;
	if (!c->begin_ns || d->begin_ns < c->begin_ns)
		c->begin_ns = d->begin_ns;
	if (d->end_ns > c->end_ns)
		c->end_ns = d->end_ns;
}

/* Takes reports that match a grant. Any other piece was reported before, or has failed. */
static void take_done_locked(struct session *s, const struct ckptfs_next *in)
{
	unsigned i;

	for (i = 0; i < in->nr_done; i++) {
		struct piece *p = slot_find_piece_locked(s, in->done[i].nr);

		if (!p)
			continue;
		if (p->capture) {
			note_times_locked(p->capture, &in->done[i]);
			s->counts.stats.captured_bytes += p->len;
		}
		slot_report_locked(s, p);
	}
}

static struct ckptfs_grant grant_of(const struct session *s, const struct piece *p)
{
	const struct capture *c = p->capture;
	const struct slot *slot = p->slot;
	size_t chunk = s->loan->cache->chunk_size;

	return (struct ckptfs_grant){.nr = p->nr,
				     .seq = c->seq,
				     .src_off = c->src_off +
						(slot->index * chunk + p->at - c->owed.promise.off),
				     .arena_off = loan_slot(s->loan, slot->chunk) * chunk + p->at,
				     .len = p->len};
}

/* When the next piece may be granted, monotonic. */
static uint64_t paced_until(const struct session *s)
{
	return atomic_load(&s->all->paced_ns);
}

/* Two sessions that grant in the same moment may count as one: then one piece is early, once. */
static void pace(const struct session *s, uint64_t bytes)
{
	uint64_t rate = s->all->options.bytes_per_s, now = clock_mono_ns(), at = paced_until(s);

	if (rate)
		atomic_store(&s->all->paced_ns,
			     (at > now ? at : now) + bytes * NSEC_PER_SEC / rate);
}

static bool may_grant_locked(const struct session *s)
{
	return !list_empty(&s->waiting) && paced_until(s) <= clock_mono_ns();
}

static void grant_notices_locked(struct session *s, struct ckptfs_next *out)
{
	while (out->nr_grants < CKPTFS_GRANTS_MAX && !list_empty(&s->notices)) {
		struct notice *n = container_of(s->notices.next, struct notice, link);

		out->grants[out->nr_grants++] = (struct ckptfs_grant){
			.nr = ++s->last_grant, .seq = n->seq, .err = (uint32_t)n->err};
		list_del(&n->link);
		free(n);
	}
}

/* The slot stays open only if the next call may add to it. */
static void grant_pieces_locked(struct session *s, struct ckptfs_next *out)
{
	while (out->nr_grants < CKPTFS_GRANTS_MAX && may_grant_locked(s)) {
		struct capture *next = container_of(s->waiting.next, struct capture, link);
		struct piece *p = slot_grant_locked(s, next);

		if (!p)
			return;
		pace(s, p->len);
		out->grants[out->nr_grants++] = grant_of(s, p);
	}
	if (list_empty(&s->waiting))
		slot_close_locked(s);
}

/*
 * Drops the lock while it waits. @turn: the number of the call that may wait; 0: this call does not
 * wait.
 */
static int await_grants_locked(struct session *s, uint64_t until, uint64_t turn,
			       struct ckptfs_next *out)
{
	struct captures *cs = s->all;

	for (;;) {
		uint64_t paced = list_empty(&s->waiting) ? UINT64_MAX : paced_until(s);
		bool room = slot_has_room_locked(s);
		bool any = !list_empty(&s->notices) || (room && may_grant_locked(s));

		/*
		 * A grant that the trainer never hears of would never be reported. From here on the
		 * call is not given up.
		 */
		if (any && !captures_decide(cs))
			return -EINTR;
		if (any) {
			grant_notices_locked(s, out);
			grant_pieces_locked(s, out);
		} else if (!room) {
			slot_close_locked(s); /* nothing can be added now: it can land */
		}
		if (any || turn != s->turn || clock_mono_ns() >= until)
			return 0;
		if (wait_on(&s->changed, room && paced < until ? paced : until) == -EINTR)
			return -EINTR;
		if (session_check_alive_locked(s))
			return -ENOENT;
	}
}

int captures_next(struct captures *cs, uid_t uid, const struct ckptfs_next *in,
		  struct ckptfs_next *out)
{
	uint64_t until = clock_mono_ns() + in->wait_ms * NSEC_PER_MSEC;
	bool waits = in->wait_ms && !in->nr_done;
	SESSION_SCOPE(s, cs, uid, in->session);

	if (in->nr_done > CKPTFS_GRANTS_MAX || in->nr_grants || in->reserved)
		return -EINVAL;
	take_done_locked(s, in);
	*out = (struct ckptfs_next){.session = in->session};
	if (waits) {
		s->turn++;
		waitq_wake_all(&s->changed); /* ends a call that waits already */
	}
	return await_grants_locked(s, until, waits ? s->turn : 0, out);
}

int captures_fail(struct captures *cs, uid_t uid, const struct ckptfs_fail *f)
{
	struct capture *found = NULL;
	char why[CKPTFS_TEXT_MAX];
	struct list *l;
	SESSION_SCOPE(s, cs, uid, f->session);

	if (f->err <= 0 || f->err > 4095 || f->reserved || !memchr(f->text, 0, sizeof(f->text)))
		return -EINVAL;
	printable(f->text, why);
	if (!f->seq)
		session_fail_all_locked(s, -f->err, why);
	slots_given_up_locked(s, f->seq);
	if (!f->seq)
		return 0;
	list_for_each (l, &s->waiting)
		if (container_of(l, struct capture, link)->seq == f->seq)
			found = container_of(l, struct capture, link);
	list_for_each (l, &s->granted)
		if (container_of(l, struct capture, link)->seq == f->seq)
			found = container_of(l, struct capture, link);
	if (!found)
		return f->seq <= s->last_seq ? 0 : -EBADF; /* landed, or failed before */
	session_fail_locked(s, found, -f->err, why, true);
	return 0;
}
