/* SPDX-License-Identifier: MIT */
#include "tests/model/people.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/liveness/epoch.h"
#include "engine/liveness/job.h"

#define PEOPLE_MAX 512
#define FIRST_PID  5000000 /* above what the kernel gives */

struct jobs {
	void (*ended)(void *arg, const struct process *p, struct writer_end end);
	void *arg;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct process people[PEOPLE_MAX]; /* lock: what is not const */
static bool ending[PEOPLE_MAX], well[PEOPLE_MAX];
static unsigned nr_people;
static bool any_killed;
static struct jobs *mounted;

void people_reset(void)
{
	MUTEX_SCOPE(&lock);
	memset(people, 0, sizeof(people));
	memset(ending, 0, sizeof(ending));
	nr_people = 0;
	any_killed = false;
}

pid_t people_start(unsigned job, unsigned incarnation, int rank, int world)
{
	MUTEX_SCOPE(&lock);
	struct process *p = &people[nr_people];

	if (nr_people == PEOPLE_MAX)
		abort();
	*p = (struct process){.tgid = FIRST_PID + (pid_t)nr_people,
			      .uid = getuid(),
			      .rank = world ? rank : -1,
			      .world = world,
			      .weak = !job,
			      .visible = true,
			      .read = true,
			      /* Who was there when somebody died is to be told. */
			      .start = any_killed ? UINT64_MAX : 1,
			      .pidfd = -1};
	if (job)
		snprintf(p->key, sizeof(p->key), "%u/slurm/%u.0/r%u.0", (unsigned)getuid(), job,
			 incarnation);
	else
		snprintf(p->key, sizeof(p->key), "%u/session/%u@here", (unsigned)getuid(),
			 nr_people);
	nr_people++;
	return p->tgid;
}

static struct process *find_locked(pid_t pid)
{
	return pid >= FIRST_PID && pid < FIRST_PID + (pid_t)nr_people ? &people[pid - FIRST_PID]
								      : NULL;
}

void people_ending(pid_t pid, bool ends_well)
{
	MUTEX_SCOPE(&lock);
	ending[pid - FIRST_PID] = true;
	well[pid - FIRST_PID] = ends_well;
}

static struct writer_end end_of_locked(pid_t pid)
{
	unsigned i = (unsigned)(pid - FIRST_PID);

	if (!ending[i])
		return (struct writer_end){WRITER_ALIVE, 0};
	return well[i] ? (struct writer_end){WRITER_EXITED_OK, 0}
		       : (struct writer_end){WRITER_DIED, -9};
}

void people_ended(pid_t pid)
{
	struct process *p;
	bool tell;
	unsigned i;
	{
		MUTEX_SCOPE(&lock);
		p = find_locked(pid);
		p->gone = true;
		p->end = end_of_locked(pid);
		tell = p->watches;
		if (p->end.fate == WRITER_DIED) {
			any_killed = true;
			for (i = 0; i < nr_people; i++)
				people[i].start = 1;
		}
	}
	if (tell && mounted)
		mounted->ended(mounted->arg, p, p->end);
}

unsigned people_held(void)
{
	unsigned nr = 0, i;
	MUTEX_SCOPE(&lock);

	for (i = 0; i < nr_people; i++)
		nr += people[i].refs;
	return nr;
}

/* --- what the engine asks for --- */

int jobs_create(struct jobs **out,
		void (*ended)(void *arg, const struct process *p, struct writer_end end), void *arg,
		struct error *e)
{
	(void)e;
	*out = mounted = calloc(1, sizeof(**out));
	if (!mounted)
		abort();
	mounted->ended = ended;
	mounted->arg = arg;
	return 0;
}

void jobs_destroy(struct jobs *js)
{
	if (js == mounted)
		mounted = NULL;
	free(js);
}

struct process *jobs_process(struct jobs *js, pid_t tid, uid_t uid)
{
	MUTEX_SCOPE(&lock);
	struct process *p = find_locked(tid);

	(void)uid;
	if (!p)
		abort();
	p->jobs = js;
	p->refs++;
	return p;
}

struct process *process_get(struct process *p)
{
	MUTEX_SCOPE(&lock);
	p->refs++;
	return p;
}

void process_put(struct process *p)
{
	MUTEX_SCOPE(&lock);
	if (p && !p->refs--)
		abort();
}

int jobs_watch(struct process *p)
{
	MUTEX_SCOPE(&lock);
	p->refs++;
	p->watches++;
	return 0;
}

void jobs_unwatch(struct process *p)
{
	MUTEX_SCOPE(&lock);
	p->refs--;
	p->watches--;
}

bool process_is_gone(struct process *p, struct writer_end *end)
{
	MUTEX_SCOPE(&lock);
	*end = p->end;
	return p->gone;
}

bool process_is_ending(struct process *p)
{
	MUTEX_SCOPE(&lock);
	return p->gone;
}

/* Whoever has ended is known to have. */
bool process_has_ended(struct process *p)
{
	MUTEX_SCOPE(&lock);
	return p->gone;
}

bool job_lives(struct process *p)
{
	unsigned i;
	MUTEX_SCOPE(&lock);

	for (i = 0; i < nr_people; i++)
		if (!people[i].gone && epoch_same(&people[i], p))
			return true;
	return false;
}

struct writer_end writer_judge(pid_t tid)
{
	MUTEX_SCOPE(&lock);
	return end_of_locked(tid);
}
