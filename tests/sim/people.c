/* SPDX-License-Identifier: MIT */
#include "tests/sim/people.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/liveness/epoch.h"
#include "engine/base/clock.h"
#include "tests/sim/sched.h"

#define PEOPLE_MAX 1024
#define FIRST_PID  5000000		/* above what the kernel gives */
#define NOTICE_NS  (20 * NSEC_PER_MSEC) /* in which a watcher sees an end, at most */

struct jobs {
	void (*ended)(void *arg, const struct process *p, struct writer_end end);
	void *arg;
	unsigned node;
	uint64_t awake_ns; /* the watcher ran then */
	bool stop;
	struct task *watcher;
};

struct person {
	struct process p;
	unsigned node;
	bool ending, well, ended, told, lost;
};

static struct person people[PEOPLE_MAX];
static unsigned nr_people;
static struct jobs *mounted[SCHED_NODES];

pid_t people_start(unsigned node, const char *key, int rank, int world, uint64_t age_ns)
{
	struct person *who = &people[nr_people];
	const bool weak = !*key;

	if (nr_people == PEOPLE_MAX)
		abort();
	who->node = node;
	who->p =
		(struct process){.tgid = FIRST_PID + (pid_t)nr_people,
				 .start = (sched_now() - age_ns) / (10 * NSEC_PER_MSEC), /* ticks */
				 .uid = getuid(),
				 .rank = weak ? -1 : rank,
				 .world = weak ? 0 : world,
				 .spans = weak || world == 1 ? 0 : world,
				 .weak = weak,
				 .visible = true,
				 .read = true,
				 .pidfd = -1};
	if (weak)
		snprintf(who->p.key, sizeof(who->p.key), "%u/session/%u@node%u", (unsigned)getuid(),
			 nr_people, node);
	else
		snprintf(who->p.key, sizeof(who->p.key), "%s", key);
	nr_people++;
	return who->p.tgid;
}

static struct person *person_of(pid_t pid)
{
	if (pid < FIRST_PID || pid >= FIRST_PID + (pid_t)nr_people)
		abort();
	return &people[pid - FIRST_PID];
}

static struct writer_end end_of(const struct person *who)
{
	if (!who->ending)
		return (struct writer_end){WRITER_ALIVE, 0};
	return who->well ? (struct writer_end){WRITER_EXITED_OK, 0}
			 : (struct writer_end){WRITER_DIED, -9};
}

void people_ending(pid_t pid, bool well)
{
	person_of(pid)->ending = true;
	person_of(pid)->well = well;
}

void people_ended(pid_t pid)
{
	struct person *who = person_of(pid);
	struct jobs *js = mounted[who->node];

	who->ended = true;
	if (!js)
		return;
	/* Between this and now the daemon has not looked. */
	who->p.lived_ns =
		sched_paused(who->node) ? js->awake_ns : sched_now() - sched_draw(NSEC_PER_MSEC);
	sched_wake_all(js);
}

void people_lost(unsigned node)
{
	unsigned i;

	mounted[node] = NULL;
	for (i = 0; i < nr_people; i++)
		if (people[i].node == node)
			people[i].lost = people[i].ended = true;
}

/* --- what the engine asks for --- */

static struct person *untold(const struct jobs *js)
{
	unsigned i;

	for (i = 0; i < nr_people; i++)
		if (people[i].node == js->node && people[i].ended && !people[i].told &&
		    !people[i].lost && people[i].p.watches)
			return &people[i];
	return NULL;
}

static void *watch(void *arg)
{
	struct jobs *js = arg;
	struct person *who;

	sched_name("watcher");
	while (!js->stop) {
		js->awake_ns = sched_now();
		who = untold(js);
		if (!who) {
			sched_wait(js, sched_now() + 100 * NSEC_PER_MSEC);
			continue;
		}
		sched_sleep(sched_draw(NOTICE_NS));
		who->told = true;
		who->p.gone = who->p.noticed = true;
		who->p.end = end_of(who);
		js->ended(js->arg, &who->p, who->p.end);
	}
	return NULL;
}

int jobs_create(struct jobs **out,
		void (*ended)(void *arg, const struct process *p, struct writer_end end), void *arg,
		struct error *e)
{
	struct jobs *js = calloc(1, sizeof(*js));

	(void)e;
	if (!js)
		abort();
	js->ended = ended;
	js->arg = arg;
	js->node = sched_node();
	js->awake_ns = sched_now();
	*out = mounted[js->node] = js;
	js->watcher = sched_start(js->node, watch, js, true);
	return 0;
}

void jobs_destroy(struct jobs *js)
{
	if (!js)
		return;
	js->stop = true;
	sched_wake_all(js);
	sched_join(js->watcher, SCHED_FOREVER, NULL);
	if (mounted[js->node] == js)
		mounted[js->node] = NULL;
	free(js);
}

struct process *people_process(pid_t pid)
{
	return &person_of(pid)->p;
}

struct process *jobs_process(struct jobs *js, pid_t tid, uid_t uid)
{
	struct person *who = person_of(tid);

	(void)uid;
	who->p.jobs = js;
	who->p.refs++;
	return &who->p;
}

struct process *process_get(struct process *p)
{
	p->refs++;
	return p;
}

void process_put(struct process *p)
{
	if (p && !p->refs--)
		abort();
}

int jobs_watch(struct process *p)
{
	p->refs++;
	p->watches++;
	if (person_of(p->tgid)->told) /* one more call for each watch that began after the end */
		person_of(p->tgid)->told = false;
	return 0;
}

void jobs_unwatch(struct process *p)
{
	p->refs--;
	p->watches--;
}

bool process_is_gone(struct process *p, struct writer_end *end)
{
	*end = p->end;
	return p->gone;
}

bool process_has_ended(struct process *p)
{
	return person_of(p->tgid)->ended;
}

bool job_lives(struct process *p)
{
	unsigned i;

	for (i = 0; i < nr_people; i++)
		if (people[i].node == person_of(p->tgid)->node && !people[i].ended &&
		    epoch_same(&people[i].p, p))
			return true;
	return false;
}

bool process_is_ending(struct process *p)
{
	return person_of(p->tgid)->ended;
}

struct writer_end writer_judge(pid_t tid)
{
	return end_of(person_of(tid));
}
