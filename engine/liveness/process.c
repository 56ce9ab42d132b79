/* SPDX-License-Identifier: MIT */
/* The known processes: references to them, and which of them is the process of a thread. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/liveness/epoch.h"
#include "engine/liveness/job_inside.h"
#include "engine/liveness/job_key.h"
#include "engine/liveness/proc.h"

#define IDLE_MAX 256 /* processes kept for the next question; each has a descriptor */

/* --- references --- */

static void process_free(struct process *p)
{
	list_del(&p->link);
	if (p->pidfd >= 0)
		close(p->pidfd); /* which also removes it from the epoll */
	free(p);
}

static void drop_idle(struct process *p)
{
	list_del(&p->idle);
	p->jobs->nr_idle--;
	process_free(p);
}

struct process *process_create_locked(struct jobs *js, uid_t uid)
{
	struct process *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->jobs = js;
	p->serial = js->next_serial++;
	p->uid = uid;
	p->rank = p->pidfd = -1;
	p->weak = true;
	p->refs = 1;
	list_init(&p->link);
	list_init(&p->idle);
	job_key_unknown(p->key, uid);
	return p;
}

struct process *process_get_locked(struct process *p)
{
	if (!p->refs++ && !list_empty(&p->idle)) {
		list_del(&p->idle);
		p->jobs->nr_idle--;
	}
	return p;
}

void processes_drop_idle(struct jobs *js)
{
	LOCK_SCOPE(&js->lock);
	while (!list_empty(&js->idle))
		drop_idle(container_of(js->idle.next, struct process, idle));
}

void process_put_locked(struct process *p)
{
	struct jobs *js = p->jobs;

	assert(p->refs);
	if (--p->refs)
		return;
	if (!p->read || !p->visible || p->gone || js->ending) {
		process_free(p);
		return;
	}
	list_append(&js->idle, &p->idle);
	if (++js->nr_idle > IDLE_MAX)
		drop_idle(container_of(js->idle.next, struct process, idle));
}

struct process *process_get(struct process *p)
{
	LOCK_SCOPE(&p->jobs->lock);
	return process_get_locked(p);
}

void process_put(struct process *p)
{
	if (p) {
		LOCK_SCOPE(&p->jobs->lock);
		process_put_locked(p);
	}
}

/* --- finding --- */

static bool is_known(const struct process *p, uid_t uid)
{
	return p->read && !p->gone && p->uid == uid;
}

struct process *jobs_find_locked(struct jobs *js, pid_t tid, uid_t uid)
{
	struct process *p, *found = NULL;
	struct list *pos;

	list_for_each (pos, &js->processes) {
		p = container_of(pos, struct process, link);
		if (is_known(p, uid) && p->tgid == tid)
			found = p;
	}
	list_for_each (pos, &js->processes) {
		p = container_of(pos, struct process, link);
		if (!found && is_known(p, uid) && proc_has_thread(p->tgid, tid))
			found = p;
	}
	/* A process that has ended does not ask: another process has the id by now. */
	return found && !pidfd_ended(found->pidfd) ? process_get_locked(found) : NULL;
}

struct identity identify(pid_t tid, pid_t tgid)
{
	struct identity id = {.tgid = tgid, .pidfd = pidfd_of(tgid)};

	id.session = getsid(tgid);
	/* Only now is it certain that the descriptor is that of the process of @tid. */
	if (id.pidfd >= 0 && !proc_has_thread(tgid, tid)) {
		close(id.pidfd);
		id.pidfd = -1;
	}
	return id;
}

void process_watch_end(struct process *p, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.u64 = p->serial};
	struct jobs *js = p->jobs;

	if (epoll_ctl(js->epoll, EPOLL_CTL_ADD, p->pidfd, &ev) && errno == EEXIST)
		epoll_ctl(js->epoll, EPOLL_CTL_MOD, p->pidfd, &ev);
}

void process_identify_locked(struct process *p, const struct identity *id)
{
	if (id->pidfd < 0)
		return;
	p->tgid = id->tgid;
	p->pidfd = id->pidfd;
	p->visible = true;
	job_parse("", 0, p->uid, id->session, p->jobs->boot_id, p);
	list_append(&p->jobs->processes, &p->link);
	process_watch_end(p, EPOLLIN);
}

bool job_lives(struct process *p)
{
	struct list *pos;
	LOCK_SCOPE(&p->jobs->lock);

	list_for_each (pos, &p->jobs->processes) {
		const struct process *o = container_of(pos, struct process, link);

		if (o->read && !o->gone && epoch_same(o, p) &&
		    !(o->pidfd >= 0 && pidfd_ended(o->pidfd)))
			return true;
	}
	return false;
}
