/* SPDX-License-Identifier: MIT */
#include "engine/capture/session.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/wait.h"
#include "engine/base/worker.h"
#include "engine/capture/handover.h"

#define HANDOVER_MS 10000

/* --- ends of captures --- */

/* Takes over the tensor of @c. */
static void trace(struct session *s, struct capture *c)
{
	struct traced t = {.uid = s->uid,
			   .row = s->row,
			   .rank = s->rank,
			   .pid = s->pid,
			   .tensor = c->tensor,
			   .bytes = c->owed.promise.len,
			   .written_ns = c->written_ns,
			   .begin_ns = c->begin_ns,
			   .end_ns = c->end_ns,
			   .landed_ns = clock_mono_ns(),
			   .failed = c->failed};

	snprintf(t.staging, sizeof(t.staging), "%s", generation_staging(c->owed.generation));
	trace_add(&s->all->trace, &t);
	c->tensor = NULL;
}

/* Takes @c off its list, and its tensor away. */
static void detach_locked(struct session *s, struct capture *c)
{
	list_del(&c->link);
	s->counts.stats.pending--;
	s->counts.stats.pending_bytes -= c->owed.promise.len;
	trace(s, c);
}

static void tell_locked(struct session *s, struct capture *c, int err)
{
	c->notice->seq = c->seq;
	c->notice->err = -err;
	list_append(&s->notices, &c->notice->link);
	c->notice = NULL;
	waitq_wake_all(&s->changed);
}

void session_fail_locked(struct session *s, struct capture *c, int err, const char *why, bool known)
{
	c->failed = true;
	slots_void_locked(s, c, known);
	if (!known)
		tell_locked(s, c, err);
	detach_locked(s, c);
	s->counts.stats.failed++;
	lock_drop(&s->lock);
	provided_fail(&c->owed, err, why);
	lock_take(&s->lock);
	c->told = true;
	if (c->landing)
		return;
	lock_drop(&s->lock);
	capture_end(c);
	lock_take(&s->lock);
}

void session_fail_all_locked(struct session *s, int err, const char *why)
{
	while (!list_empty(&s->granted))
		session_fail_locked(s, container_of(s->granted.next, struct capture, link), err,
				    why, true);
	while (!list_empty(&s->waiting))
		session_fail_locked(s, container_of(s->waiting.next, struct capture, link), err,
				    why, true);
}

void session_landed_locked(struct session *s, struct capture *c, uint32_t len, int err)
{
	c->landing = false;
	c->nr_landed += len;
	s->counts.stats.landed_bytes += len;
	if (err && !c->failed) {
		session_fail_locked(s, c, err, strerror(-err), false);
		return;
	}
	if (c->failed ? !c->told : c->nr_landed < c->owed.promise.len)
		return;
	if (!c->failed)
		detach_locked(s, c);
	lock_drop(&s->lock);
	capture_end(c);
	lock_take(&s->lock);
}

/* --- life of a session --- */

static bool ending(struct captures *cs)
{
	LOCK_SCOPE(&cs->lock);
	return cs->ending;
}

void session_wake(struct session *s)
{
	uint64_t one = 1;
	ssize_t ignored = write(s->wake, &one, sizeof(one));

	(void)ignored;
}

void session_stop_locked(struct session *s)
{
	if (s->listening >= 0)
		shutdown(s->listening, SHUT_RDWR); /* ends the wait for a connection */
	session_wake(s);
}

/* Lands what is reported until the session is over. Returns how it ended, for people. */
static const char *live(struct session *s, int pidfd)
{
	struct pollfd on[2] = {{s->wake, POLLIN, 0}, {pidfd, POLLIN, 0}};
	const char *how = NULL;

	while (!how) {
		uint64_t nr;
		ssize_t ignored;
		bool cut_off;

		poll(on, 2, -1);
		if (on[0].revents) {
			ignored = read(s->wake, &nr, sizeof(nr));
			(void)ignored;
		}
		cut_off = ending(s->all);
		LOCK_SCOPE(&s->lock);
		waitq_wake_all(&s->changed); /* there may be room */
		while (!list_empty(&s->done))
			slot_land_locked(s, container_of(s->done.next, struct slot, link));
		if (on[1].revents)
			how = "ended";
		else if (s->bye)
			how = "closed its session";
		else if (s->closed) /* a process closes its files before its end is seen */
			how = "ended, or became another program";
		else if (cut_off)
			how = "was cut off: the mount ends";
	}
	return how;
}

void printable(const char *said, char *text)
{
	do {
		unsigned char c = (unsigned char)*said;

		*text++ = c && (c < ' ' || c == 0x7f) ? '?' : *said;
	} while (*said++);
}

static void end(struct session *s, const char *how)
{
	char why[MESSAGE_MAX], name[CKPTFS_NAME_MAX + 1], rank[24] = "";
	LOCK_SCOPE(&s->lock);

	s->state = SESSION_ENDED;
	waitq_wake_all(&s->changed);
	if (s->rank >= 0)
		snprintf(rank, sizeof(rank), " (rank %d)", s->rank);
	while (!list_empty(&s->granted) || !list_empty(&s->waiting)) {
		struct list *l = list_empty(&s->granted) ? s->waiting.next : s->granted.next;
		struct capture *c = container_of(l, struct capture, link);

		printable(c->tensor->name, name);
		MESSAGE(why, CAPTURE_SESSION_ENDED, name, (int)s->pid, rank, how);
		session_fail_locked(s, c, -EIO, why, true);
	}
	slots_free_locked(s);
	loan_close(s->loan);
	s->loan = NULL;
	waitq_wake_all(&s->changed);
}

/* Binds the socket, and gives the lent memory to the process that connects. A pidfd, or -errno. */
static int offer(struct session *s)
{
	struct captures *cs = s->all;
	__cleanup_fd int fd = handover_listen(cs->control_dir, cs->dev, s->socket);
	bool over;
	int pidfd;
	{
		LOCK_SCOPE(&s->lock);
		s->offered = s->offered && fd >= 0;
		s->state = fd >= 0 ? SESSION_LIVES : SESSION_ENDED;
		s->err = fd >= 0 ? 0 : fd;
		s->listening = fd;
		over = s->bye || s->closed; /* before there was a socket to shut down */
		waitq_wake_all(&s->changed);
	}
	if (fd < 0)
		return fd;
	pidfd = over || ending(cs) ? -ESHUTDOWN
				   : handover_give(fd, s->uid, s->loan->fd, HANDOVER_MS, &s->pid);
	LOCK_SCOPE(&s->lock);
	s->offered = false;
	s->listening = -1;
	return pidfd;
}

static void *session_main(void *session)
{
	struct session *s = session;
	struct captures *cs = s->all;
	__cleanup_fd int pidfd = offer(s);
	bool last;

	end(s, pidfd >= 0 ? live(s, pidfd) : "did not come for its memory");
	{
		LOCK_SCOPE(&cs->lock);
		list_del(&s->link);
		session_add_counts(s, &cs->past); /* nothing changes them any more */
		last = --s->refs == 0;
	}
	if (last)
		session_free(s);
	LOCK_SCOPE(&cs->lock);
	cs->nr--;
	waitq_wake_all(&cs->gone);
	return NULL;
}

void session_add_counts(const struct session *s, struct session_counts *sum)
{
	const struct session_counts *c = &s->counts;

	sum->stats.captures += c->stats.captures;
	sum->stats.captured_bytes += c->stats.captured_bytes;
	sum->stats.landed_bytes += c->stats.landed_bytes;
	sum->stats.failed += c->stats.failed;
	sum->stats.pending += c->stats.pending;
	sum->stats.pending_bytes += c->stats.pending_bytes;
	sum->copied += c->copied;
	sum->barriers += c->barriers;
	sum->barrier_ns += c->barrier_ns;
	sum->timed_out += c->timed_out;
}

/*
 * The lock of the captures is held. True if the user, or all, have so many sessions that one more
 * could take all threads that serve the mount.
 */
static bool too_many(const struct captures *cs, uid_t uid)
{
	unsigned nr = 0;
	struct list *l;

	list_for_each (l, &cs->sessions)
		nr += container_of(l, struct session, link)->uid == uid;
	return nr >= SESSIONS_PER_UID || cs->nr >= SESSIONS_MAX;
}

int session_start(struct session *s)
{
	struct captures *cs = s->all;
	int err;

	s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->wake < 0)
		return -errno;
	LOCK_SCOPE(&cs->lock);
	if (cs->ending || !cs->control_dir)
		return -ESHUTDOWN;
	if (too_many(cs, s->uid))
		return -EUSERS;
	err = worker_start_detached("ckptfs-session", 0, session_main, s);
	if (err)
		return err;
	s->refs++;
	list_append(&cs->sessions, &s->link);
	cs->nr++;
	s->row = ++cs->rows;
	return 0;
}

void session_free(struct session *s)
{
	if (s->tensors.buckets) {
		size_t i;

		for (i = 0; i < s->tensors.nr_buckets; i++)
			while (!list_empty(&s->tensors.buckets[i])) {
				struct tensor *t = container_of(s->tensors.buckets[i].next,
								struct tensor, node.link);

				table_del(&s->tensors, &t->node);
				tensor_put(t);
			}
		table_finish(&s->tensors);
	}
	while (s->notices.next && !list_empty(&s->notices)) {
		struct notice *n = container_of(s->notices.next, struct notice, link);

		list_del(&n->link);
		free(n);
	}
	slots_free_locked(s);
	table_finish(&s->granted_pieces);
	loan_close(s->loan);
	if (s->wake >= 0)
		close(s->wake);
	lock_finish(&s->lock);
	free(s);
}
