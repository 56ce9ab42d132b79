/* SPDX-License-Identifier: MIT */
/*
 * Grants: the daemon hands the trainer pieces to capture and slots to put them in, and takes what
 * the trainer reports. The lock of the session is held, and dropped while a call waits; one call of
 * a session waits at a time. The session's thread moves what is reported into the cache
 * (session.c).
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
	bool any = false;

	for (i = 0; i < in->nr_done; i++) {
		struct slot *slot = &s->slots[in->done[i].nr % s->arena.nr_slots];

		if (slot->state != SLOT_GRANTED || slot->nr != in->done[i].nr)
			continue;
		slot->state = SLOT_DONE;
		if (slot->capture)
			note_times_locked(slot->capture, &in->done[i]);
		s->counts.stats.captured_bytes += slot->capture ? slot->len : 0;
		s->counts.stats.granted_bytes -= slot->len;
		list_append(&s->done, &slot->link);
		any = true;
	}
	if (any)
		session_wake(s);
}

/* Numbers rise; modulo the number of slots they give the slot. */
static uint64_t number_locked(struct session *s, unsigned slot)
{
	uint64_t n = s->arena.nr_slots, round = s->last_grant / n + 1;

	s->last_grant = round * n + slot;
	return s->last_grant;
}

static struct ckptfs_grant grant_of_locked(const struct session *s, unsigned i)
{
	const struct slot *slot = &s->slots[i];
	const struct capture *c = slot->capture;

	return (struct ckptfs_grant){.nr = slot->nr,
				     .seq = c->seq,
				     .src_off = c->src_off + (slot->off - c->promise.off),
				     .arena_off = (uint64_t)i * s->arena.cache->chunk_size,
				     .len = slot->len};
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
	return !list_empty(&s->waiting) && s->arena.nr_free && paced_until(s) <= clock_mono_ns();
}

static void grant_locked(struct session *s, struct capture *c, unsigned i)
{
	size_t chunk = s->arena.cache->chunk_size;
	struct slot *slot = &s->slots[i];
	uint64_t off = c->promise.off + c->nr_granted, left = c->promise.len - c->nr_granted;

	*slot = (struct slot){.state = SLOT_GRANTED, .capture = c, .off = off};
	list_init(&slot->link);
	slot->nr = number_locked(s, i);
	slot->len = (uint32_t)(chunk - off % chunk < left ? chunk - off % chunk : left);
	c->nr_granted += slot->len;
	s->counts.stats.granted_bytes += slot->len;
	pace(s, slot->len);
	if (c->nr_granted == c->promise.len) {
		list_del(&c->link);
		list_append(&s->granted, &c->link);
	}
}

static unsigned grant_all_locked(struct session *s, struct ckptfs_next *out)
{
	unsigned nr = 0;

	while (nr < CKPTFS_GRANTS_MAX && !list_empty(&s->notices)) {
		struct notice *n = container_of(s->notices.next, struct notice, link);

		out->grants[nr++] = (struct ckptfs_grant){
			.nr = number_locked(s, 0), .seq = n->seq, .err = (uint32_t)n->err};
		list_del(&n->link);
		free(n);
	}
	while (nr < CKPTFS_GRANTS_MAX && may_grant_locked(s)) {
		int slot = arena_take(&s->arena);

		grant_locked(s, container_of(s->waiting.next, struct capture, link),
			     (unsigned)slot);
		out->grants[nr++] = grant_of_locked(s, (unsigned)slot);
	}
	return nr;
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

		bool any = !list_empty(&s->notices) || may_grant_locked(s);

		/*
		 * A grant that the trainer never hears of would never be reported. From here on the
		 * call is not given up.
		 */
		if (any && !captures_decide(cs))
			return -EINTR;
		out->nr_grants = grant_all_locked(s, out);
		if (any || turn != s->turn || clock_mono_ns() >= until)
			return 0;
		if (wait_on(&s->changed, s->arena.nr_free && paced < until ? paced : until) ==
		    -EINTR)
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
	if (!f->seq) {
		session_fail_all_locked(s, -f->err, why);
		return 0;
	}
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
