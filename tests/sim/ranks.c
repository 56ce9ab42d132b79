/* SPDX-License-Identifier: MIT */
#include "tests/sim/rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/liveness/casualty.h"
#include "engine/save/units.h"
#include "tests/sim/check.h"
#include "tests/sim/world.h"

#define FINISHED_MAX 128
/* until a launcher ends the ranks that wait for a dead one */
#define BARRIER_NS (2 * NSEC_PER_SEC)
#define LAUNCH_NS  (4 * NSEC_PER_SEC) /* sooner it may find what is dying: tests/README.md */
#define START_NS \
	(500 * NSEC_PER_MSEC)	      /* which a launcher takes to start the ranks again, at most */
#define NEW_NS	  (10 * NSEC_PER_SEC) /* twice the lease of a node */
#define WARM_NS	  (60 * NSEC_PER_SEC) /* the age of a rank that is there from the beginning */
#define IF_IT_CAN ", if it can"

static struct job jobs[JOBS_MAX];
static unsigned nr_jobs;
static uint64_t disturbed_ns; /* until then */
static struct finished finished[FINISHED_MAX], promised[FINISHED_MAX];
static unsigned nr_finished, nr_promised;

static void note(struct finished *all, unsigned *nr, const char *unit, const struct made_by *by)
{
	if (*nr == FINISHED_MAX)
		return;
	snprintf(all[*nr].unit, sizeof(all[*nr].unit), "%s", unit);
	all[(*nr)++].by = *by;
}

unsigned ranks_finished(const struct finished **all)
{
	*all = finished;
	return nr_finished;
}

unsigned ranks_promised(const struct finished **all)
{
	*all = promised;
	return nr_promised;
}

static struct job *job_of(char name)
{
	unsigned i;

	for (i = 0; i < nr_jobs; i++)
		if (jobs[i].name == name)
			return &jobs[i];
	return NULL;
}

bool job_is_there(char name)
{
	return job_of(name);
}

unsigned job_world(char name)
{
	return job_of(name)->world;
}

/* A save that went wrong need not be committed. */
static void forget_finished(const struct job *j)
{
	unsigned i, kept = 0;

	for (i = 0; i < nr_finished; i++)
		if (finished[i].by.job != j->name || finished[i].by.incarnation != j->incarnation)
			finished[kept++] = finished[i];
	nr_finished = kept;
}

static void harm(struct job *j)
{
	if (!j->harmed)
		forget_finished(j);
	j->harmed = true;
}

void rank_stays_away(struct rank *r)
{
	harm(r->job);
}

/* --- a rank --- */

static const char *said(int err)
{
	return err ? strerror(-err) : "done";
}

void ranks_disturbed(unsigned seconds)
{
	uint64_t until_ns = sched_now() + seconds * NSEC_PER_SEC;

	disturbed_ns = until_ns > disturbed_ns ? until_ns : disturbed_ns;
}

bool ranks_hear_late(void)
{
	return disturbed_ns && sched_now() < disturbed_ns + LAUNCH_NS;
}

bool ranks_may_be_of_former(const char *unit)
{
	unsigned i, k, nr;
	const struct shape *shape = shape_of_unit(unit, &nr);

	for (i = 0; i < nr_jobs; i++) {
		struct job *j = &jobs[i];

		if (j->shape != shape || j->restarts >= 0 || !j->begun_ns ||
		    sched_now() - j->begun_ns > NEW_NS)
			continue;
		for (k = 0; k < j->world; k++) {
			struct rank *r = &j->ranks[k];
			struct mnt *m = world_at(r->node);

			if (r->told ||
			    (!r->gone && m &&
			     casualty_is_owed(&m->en.units->casualties, people_process(r->pid))))
				return true;
		}
	}
	return false;
}

/* The rank gets @err from a call: that ends it, unless it is expected. */
int rank_got(struct rank *r, const char *what, int err)
{
	if (err == -EIO)
		r->told = true;
	if (err == -EIO && strncmp(what, "wait", 4) && !r->job->harmed && !check_forgives())
		wrong("I9: %c%u gets an error, and nothing has disturbed its start of the job",
		      r->job->name, r->nr);
	if (err)
		r->got = err;
	story("%c%u %s: %s", r->job->name, r->nr, what, said(err));
	return err;
}

struct made_by rank_made_by(const struct rank *r)
{
	return (struct made_by){r->job->name, r->job->incarnation, 0, r->nr, r->job->world, 0};
}

static void leave_barrier(struct rank *r)
{
	r->job->arrived -= r->at_barrier;
	r->at_barrier = false;
}

int rank_barrier(struct rank *r)
{
	struct job *j = r->job;
	unsigned round = j->rounds, i;

	r->at_barrier = true;
	if (++j->arrived == j->world) {
		for (i = 0; i < j->world; i++)
			j->ranks[i].at_barrier = false;
		j->arrived = 0;
		j->rounds++;
		sched_wake_all(j);
		return 0;
	}
	while (j->rounds == round && !r->killed) {
		for (i = 0; i < j->world; i++)
			if (j->ranks[i].gone) {
				leave_barrier(r);
				sched_sleep(sched_draw(BARRIER_NS));
				return -ECONNRESET;
			}
		sched_wait(j, sched_now() + 100 * NSEC_PER_MSEC);
	}
	if (j->rounds != round)
		return 0;
	leave_barrier(r);
	return -EINTR;
}

void rank_note_finished(const struct rank *r, const char *unit)
{
	struct made_by by = rank_made_by(r);

	if (!r->job->harmed)
		note(finished, &nr_finished, unit, &by);
}

void rank_note_promised(const struct rank *r, const char *unit)
{
	struct made_by by = rank_made_by(r);

	note(promised, &nr_promised, unit, &by);
}

static const struct verb *verb_of(const char *what)
{
	const struct verb *v = verb_of_save(what);

	v = v ? v : verb_of_file(what);
	return v ? v : verb_of_reader(what);
}

/*
 * Nobody ends well whose job has lost a rank, or has left out a part of a save: the last barrier is
 * not passed.
 */
static bool may_end_well(const struct job *j)
{
	const unsigned all = (1u << j->world) - 1;
	unsigned i;

	for (i = 0; i < STEPS_NR; i++)
		if (j->written[i] && (j->written[i] & all) != all)
			return false;
	return !j->harmed;
}

static void has_ended(struct rank *r)
{
	story("%c%u %s", r->job->name, r->nr, r->well ? "exits" : "dies");
	people_ended(r->pid);
	r->gone = true;
	sched_wake_all(r->job);
}

/* Closes what it has open, as the kernel does, and goes. */
static void end_process(struct rank *r)
{
	if (!r->well)
		harm(r->job);
	people_ending(r->pid, r->well);
	if (r->part_open)
		call_close(&r->part);
	if (r->file_open)
		call_close(&r->file);
	r->part_open = r->file_open = false;
	has_ended(r);
}

static bool is_end(const char *what)
{
	return !strcmp(what, "exits") || !strcmp(what, "exits well");
}

/* Does @text, which may end with "if it can": then what it gets does not end it. */
static int act(struct rank *r, const char *text)
{
	char what[TODO_LEN];
	char *may_fail;
	const struct verb *v;
	int err = -ENOTCONN;

	snprintf(what, sizeof(what), "%s", text);
	may_fail = strstr(what, IF_IT_CAN);
	if (may_fail)
		*may_fail = '\0';
	v = verb_of(what);
	r->proc.m = world_at(r->node);
	if (r->proc.m)
		err = v->act(r, what + strlen(v->text));
	rank_got(r, what, err);
	return may_fail && !r->killed ? 0 : err;
}

static void *rank_main(void *arg)
{
	struct rank *r = arg;
	int err = 0;

	wait_serve(&r->call);
	while (!r->killed && !err) {
		const char *what;

		if (r->done == r->nr_todo) {
			sched_wait(r, SCHED_FOREVER);
			continue;
		}
		what = r->todo[r->done % TODO_MAX];
		if (is_end(what)) {
			r->well = strcmp(what, "exits") || may_end_well(r->job);
			break;
		}
		r->busy = true;
		err = act(r, what);
		r->busy = false;
		r->done++;
	}
	r->busy = true;
	if (!r->gone)
		end_process(r);
	r->busy = false;
	r->out = true;
	return NULL;
}

/* As the environment that its launcher has set tells it. */
static void key_of(const struct job *j, char key[JOB_KEY_MAX])
{
	if (!*j->key)
		*key = '\0';
	else if (j->restarts < 0)
		snprintf(key, JOB_KEY_MAX, "%u/master/%s:29500", (unsigned)getuid(), j->key);
	else
		snprintf(key, JOB_KEY_MAX, "%u/slurm/%s/r%u", (unsigned)getuid(), j->key,
			 (unsigned)j->restarts + j->incarnation);
}

static void start(struct job *j, unsigned nr, uint64_t age_ns)
{
	struct rank *r = &j->ranks[nr];
	unsigned node = r->node;
	char key[JOB_KEY_MAX];

	memset(r, 0, sizeof(*r));
	interruptible_init(&r->call);
	r->job = j;
	r->nr = nr;
	r->node = node;
	r->proc.who = (struct caller){.uid = getuid(), .gid = getgid()};
	key_of(j, key);
	r->pid = people_start(node, key, (int)nr, (int)j->world, age_ns);
	r->proc.who.pid = r->pid;
	r->task = sched_start(node, rank_main, r, false);
}

static struct job *add_job(char name)
{
	struct job *j = &jobs[nr_jobs++];

	if (nr_jobs > JOBS_MAX)
		abort();
	j->name = name;
	j->world = 1;
	return j;
}

void job_create(char name, const struct job_options *o)
{
	struct job *former = o->next_of ? job_of(o->next_of) : NULL;
	struct job *j = add_job(name);
	unsigned i;

	j->shape = o->shape;
	j->world = o->world;
	snprintf(j->key, sizeof(j->key), "%c", name);
	if (o->uncounted)
		j->restarts = -1;
	if (former) {
		j->begun_ns = sched_now();
		memcpy(j->key, former->key, sizeof(j->key));
		j->restarts =
			former->restarts < 0 ? -1 : former->restarts + (int)former->incarnation + 1;
		/* its launcher has given it up: what is left of it may fail, and ends badly */
		harm(former);
	}
	for (i = 0; i < j->world; i++) {
		j->ranks[i].node = o->nodes[i];
		start(j, i, former ? 0 : WARM_NS);
	}
}

void person_create(char name, unsigned node)
{
	struct job *j = add_job(name);

	j->shape = shape_of("dcp");
	j->ranks[0].node = node;
	start(j, 0, 0);
}

void rank_kill(char job, int rank)
{
	struct rank *r = &job_of(job)->ranks[rank];

	if (r->gone)
		return;
	story("%c%d is killed", job, rank);
	harm(r->job);
	r->killed = true;
	/* Where the daemon is stopped a process can end that has no call there to wait for. */
	if (sched_paused(r->node) && !r->busy && !r->part_open && !r->file_open) {
		people_ending(r->pid, false);
		has_ended(r);
	}
	wait_interrupt(&r->call);
	sched_wake_all(r);
	sched_wake_all(r->job);
}

void job_restart(char name, bool at_once)
{
	struct job *j = job_of(name);
	unsigned i;

	for (i = 0; i < j->world; i++)
		rank_kill(name, (int)i);
	for (i = 0; i < j->world; i++)
		while (!j->ranks[i].out) /* a launcher waits for its processes */
			sched_sleep(10 * NSEC_PER_MSEC);
	sched_sleep((at_once ? START_NS / 10 : LAUNCH_NS) + sched_draw(START_NS));
	j->incarnation++;
	j->begun_ns = sched_now();
	j->arrived = 0;
	j->harmed = false;
	memset(j->written, 0, sizeof(j->written));
	story("%c is started again, incarnation %u", name, j->incarnation);
	for (i = 0; i < j->world; i++)
		start(j, i, 0);
}

bool rank_return(char job, int rank, unsigned node)
{
	struct rank *r = &job_of(job)->ranks[rank];

	if (!r->out)
		return false;
	r->node = node;
	start(r->job, (unsigned)rank, 0);
	return true;
}

bool rank_told(char job, int rank, const char *what)
{
	struct job *j = job_of(job);
	unsigned i;

	if (!j || (!is_end(what) && !verb_of(what)))
		return false;
	for (i = 0; i < j->world; i++) {
		struct rank *r = &j->ranks[i];

		if ((rank >= 0 && i != (unsigned)rank) || r->gone ||
		    r->nr_todo - r->done == TODO_MAX)
			continue;
		snprintf(r->todo[r->nr_todo++ % TODO_MAX], TODO_LEN, "%s", what);
		sched_wake_all(r);
	}
	return true;
}

bool rank_is_idle(char job, int rank)
{
	struct job *j = job_of(job);
	bool idle = true;
	unsigned i;

	for (i = 0; i < j->world; i++)
		if (rank < 0 || i == (unsigned)rank)
			idle &= j->ranks[i].gone ||
				(j->ranks[i].done == j->ranks[i].nr_todo && !j->ranks[i].killed);
	return idle;
}

bool rank_is_gone(char job, int rank)
{
	return job_of(job)->ranks[rank].gone;
}

int rank_error(char job, int rank)
{
	return job_of(job)->ranks[rank].got;
}

bool rank_was_told(char job, int rank)
{
	return job_of(job)->ranks[rank].told;
}

void ranks_lost(unsigned node)
{
	unsigned i, k;

	for (i = 0; i < nr_jobs; i++)
		for (k = 0; k < jobs[i].world; k++)
			if (jobs[i].ranks[k].node == node) {
				jobs[i].ranks[k].gone = jobs[i].ranks[k].out = true;
				leave_barrier(&jobs[i].ranks[k]);
				harm(&jobs[i]);
				sched_wake_all(&jobs[i]);
			}
}

bool ranks_all_idle(void)
{
	unsigned i;

	for (i = 0; i < nr_jobs; i++)
		if (!rank_is_idle(jobs[i].name, -1))
			return false;
	return true;
}

static bool any_on(unsigned node, bool (*is)(const struct rank *r))
{
	unsigned i, k;

	for (i = 0; i < nr_jobs; i++)
		for (k = 0; k < jobs[i].world; k++)
			if (jobs[i].ranks[k].node == node && !jobs[i].ranks[k].gone &&
			    is(&jobs[i].ranks[k]))
				return true;
	return false;
}

static bool is_busy(const struct rank *r)
{
	return r->busy;
}

static bool has_open(const struct rank *r)
{
	return r->part_open || r->file_open;
}

bool ranks_busy_on(unsigned node)
{
	return any_on(node, is_busy);
}

bool ranks_have_open_on(unsigned node)
{
	return any_on(node, has_open);
}

void ranks_exit_all(void)
{
	unsigned i, k;

	for (i = 0; i < nr_jobs; i++)
		for (k = 0; k < jobs[i].world; k++) {
			if (!rank_is_idle(jobs[i].name, (int)k)) /* it waits for what never comes */
				rank_kill(jobs[i].name, (int)k);
			else
				rank_told(jobs[i].name, (int)k, "exits");
		}
}
