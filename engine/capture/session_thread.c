/* SPDX-License-Identifier: MIT */
/*
 * The thread of a session: it hands the lent memory over, lands what the trainer reports, and fails
 * what is left when the session ends.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/message.h"
#include "engine/base/wait.h"
#include "engine/base/worker.h"
#include "engine/capture/handover.h"
#include "engine/capture/session.h"

#define HANDOVER_MS 10000

static bool ending(struct captures *cs)
{
	LOCK_SCOPE(&cs->lock);
	return cs->ending;
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
