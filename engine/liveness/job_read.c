/* SPDX-License-Identifier: MIT */
/*
 * Finds out who a process is, from /proc, with threads that may hang with the process.
 *
 * A caller puts a question on a list and waits. A reader takes the question, finds the process with
 * calls that do not wait, and reads. One reader serves all questions about a process, so a hanging
 * process costs others nothing, however many threads it has. When all readers are busy, another one
 * is started.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/wait.h"
#include "engine/liveness/job_inside.h"
#include "engine/liveness/proc.h"

#define STAT_START_TIME 22

/* --- the caller --- */

static void wait_for_answer_locked(struct jobs *js, struct question *q)
{
	uint64_t until = clock_mono_ns() + JOBS_WAIT_MS * NSEC_PER_MSEC;

	while (q->state != QUESTION_DONE && !wait_on(&js->changed, until))
		;
}

/* Of a process that no reader has come to: its end can be seen all the same. */
static void identify_unread_locked(struct process *p, pid_t tid)
{
	pid_t tgid = proc_tgid(tid);
	struct identity id = identify(tid, tgid > 0 ? tgid : tid);

	process_identify_locked(p, &id);
}

static struct process *unread_locked(struct jobs *js, pid_t tid, uid_t uid)
{
	struct process *p = process_create_locked(js, uid);

	if (p && tid > 0)
		identify_unread_locked(p, tid);
	return p;
}

static unsigned nr_new_locked(struct jobs *js)
{
	struct list *pos;
	unsigned nr = 0;

	list_for_each (pos, &js->questions)
		nr += container_of(pos, struct question, link)->state == QUESTION_NEW;
	return nr;
}

struct process *jobs_process(struct jobs *js, pid_t tid, uid_t uid)
{
	struct question q = {.tid = tid, .uid = uid, .state = QUESTION_NEW};
	struct process *known;
	LOCK_SCOPE(&js->lock);

	if (tid <= 0)
		return unread_locked(js, tid, uid);
	known = jobs_find_locked(js, tid, uid);
	if (known)
		return known;
	list_append(&js->questions, &q.link);
	/* If no reader can be started, the others take the question. */
	if (nr_new_locked(js) > js->nr_readers - js->nr_busy && js->nr_readers < READERS_MAX)
		jobs_start_reader_locked(js);
	waitq_wake_all(&js->changed);
	wait_for_answer_locked(js, &q);
	list_del(&q.link);
	if (!q.process)
		q.process = unread_locked(js, tid, uid);
	else if (!q.process->visible && !q.process->reading && q.state != QUESTION_DONE)
		identify_unread_locked(q.process, tid);
	if (q.process)
		q.process->given = true;
	return q.process;
}

/* --- the reader --- */

static struct question *next_locked(struct jobs *js)
{
	struct list *pos;

	list_for_each (pos, &js->questions) {
		struct question *q = container_of(pos, struct question, link);

		if (q->state == QUESTION_NEW)
			return q;
	}
	return NULL;
}

/* True if @q is about the process of @p. */
static bool asks_for(const struct question *q, const struct process *p)
{
	return q->state == QUESTION_READING &&
	       (q->process == p ||
		(p->tgid && q->process->tgid == p->tgid && q->process->uid == p->uid));
}

/* Answers all questions about the process of @p with @answer, a struct for that process. */
static void answer_locked(struct jobs *js, const struct process *p, struct process *answer)
{
	struct list *pos;

	list_for_each (pos, &js->questions) {
		struct question *q = container_of(pos, struct question, link);

		if (!asks_for(q, p))
			continue;
		if (q->process != answer) {
			process_put_locked(q->process);
			answer->refs++;
			q->process = answer;
		}
		q->state = QUESTION_DONE;
	}
	waitq_wake_all(&js->changed);
}

static bool is_read_by_another_locked(struct jobs *js, const struct process *p)
{
	struct list *pos;

	list_for_each (pos, &js->processes) {
		const struct process *o = container_of(pos, struct process, link);

		if (o != p && o->reading && o->tgid == p->tgid && o->uid == p->uid)
			return true;
	}
	return false;
}

/* Records the identity of @p. Returns true if this thread must read the process. */
static bool begin_locked(struct jobs *js, struct process *p, const struct identity *id)
{
	struct process *known;

	if (p->given) { /* too late */
		if (id->pidfd >= 0)
			close(id->pidfd);
		return false;
	}
	known = id->pidfd >= 0 ? jobs_find_locked(js, id->tgid, p->uid) : NULL;
	process_identify_locked(p, id);
	if (known || !p->visible) {
		answer_locked(js, p, known ? known : p);
		if (known)
			process_put_locked(known);
		return false;
	}
	if (is_read_by_another_locked(js, p))
		return false;
	p->reading = true;
	return true;
}

/* The struct that gets the result: @p, or another question's if the caller of @p has left. */
static struct process *receiver_locked(struct jobs *js, struct process *p)
{
	struct list *pos;

	if (!p->given)
		return p;
	list_for_each (pos, &js->questions) {
		struct question *q = container_of(pos, struct question, link);

		if (asks_for(q, p))
			return q->process;
	}
	return NULL;
}

static void end_locked(struct jobs *js, struct process *p, const struct process *what)
{
	struct process *receiver = receiver_locked(js, p);

	p->reading = false;
	if (!receiver)
		return;
	/* If the process has ended, the data may be of another process with the same id. */
	if (!receiver->gone && !pidfd_ended(receiver->pidfd)) {
		receiver->start = what->start;
		receiver->rank = what->rank;
		receiver->world = what->world;
		receiver->weak = what->weak;
		receiver->spans = what->spans;
		memcpy(receiver->key, what->key, sizeof(receiver->key));
		receiver->read = true;
	}
	answer_locked(js, p, receiver);
}

static void read_process(const struct process *p, struct process *what)
{
	char stat[1024];
	const char *start = NULL;
	size_t len = 0;
	__cleanup_free char *env = NULL;

	if (proc_read(p->tgid, "stat", stat, sizeof(stat)))
		start = proc_stat_field(stat, STAT_START_TIME);
	what->start = start ? strtoull(start, NULL, 10) : 0;
	env = proc_environ(p->tgid, &len); /* may be unreadable: then no rank is known */
	job_parse(env ? env : "", env ? len : 0, p->uid, getsid(p->tgid), p->jobs->boot_id, what);
}

/* Called and returns with the lock held, but drops it meanwhile. */
static void serve_locked(struct jobs *js, struct question *q)
{
	struct process what, *p = process_create_locked(js, q->uid);
	struct identity id;
	pid_t tid = q->tid;
	bool begun;

	if (!p) {
		q->state = QUESTION_DONE;
		waitq_wake_all(&js->changed);
		return;
	}
	q->state = QUESTION_READING;
	q->process = p;
	p->refs++; /* the caller may take it and leave, and @q goes with the caller */
	lock_drop(&js->lock);
	id.tgid = proc_tgid(tid);
	id = identify(tid, id.tgid > 0 ? id.tgid : tid);
	lock_take(&js->lock);
	begun = begin_locked(js, p, &id);
	if (begun) {
		lock_drop(&js->lock);
		read_process(p, &what);
		lock_take(&js->lock);
		end_locked(js, p, &what);
	}
	process_put_locked(p);
}

void jobs_put(struct jobs *js)
{
	bool last;
	{
		LOCK_SCOPE(&js->lock);
		last = !--js->users;
	}
	if (!last)
		return;
	lock_finish(&js->lock);
	free(js);
}

static void *reader_main(void *arg)
{
	struct jobs *js = arg;
	struct question *q;

	lock_take(&js->lock);
	while (!js->ending) {
		q = next_locked(js);
		if (q) {
			js->nr_busy++;
			serve_locked(js, q);
			js->nr_busy--;
			continue;
		}
		wait_out(&js->changed, CLOCK_NEVER);
	}
	js->nr_readers--;
	waitq_wake_all(&js->changed);
	lock_drop(&js->lock);
	jobs_put(js);
	return NULL;
}

int jobs_start_reader_locked(struct jobs *js)
{
	int err = worker_start_detached("ckptfs-proc", 0, reader_main, js);

	if (!err) {
		js->nr_readers++;
		js->users++;
	}
	return err;
}

void jobs_end_readers(struct jobs *js)
{
	uint64_t until = clock_mono_ns() + JOBS_WAIT_MS * NSEC_PER_MSEC;
	LOCK_SCOPE(&js->lock);

	js->ending = true;
	waitq_wake_all(&js->changed);
	while (js->nr_readers && !wait_out(&js->changed, until))
		;
}
