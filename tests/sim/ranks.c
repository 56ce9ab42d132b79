/* SPDX-License-Identifier: MIT */
#include "tests/sim/ranks.h"

#include "engine/base/wait.h"
#include "tests/sim/calls.h"
#include "tests/sim/people.h"
#include "tests/sim/sched.h"
#include "tests/sim/story.h"
#include "tests/sim/world.h"

#define TODO_MAX     64
#define TODO_LEN     64
#define FINISHED_MAX 128
#define BARRIER_NS   (2 * NSEC_PER_SEC) /* until a launcher ends the ranks that wait for a dead one */
#define CUT_NS \
	(300 * NSEC_PER_MSEC) /* from the exception that ends a write to the end of its process */
#define BEGUN (1u << 31)
#define LAUNCH_NS \
	(4 * NSEC_PER_SEC) /* sooner it may find what is dying: sim/known/resumed-early.txt */
#define START_NS \
	(500 * NSEC_PER_MSEC)	    /* which a launcher takes to start the ranks again, at most */
#define WAIT_NS (20 * NSEC_PER_SEC) /* less than commit_timeout_s: sim/known/late-rank.txt */

struct job;

struct rank {
	struct job *job;
	unsigned nr, node;
	pid_t pid;
	struct task *task;
	struct proc proc;
	struct interruptible call; /* its calls on a mount return early once it is killed */
	bool killed, gone, told, well, busy, at_barrier;
	char todo[TODO_MAX][TODO_LEN];
	unsigned nr_todo, done;
	struct opened part; /* "begins" left it open */
	bool part_open;
	char part_unit[32];
};

struct job {
	char name;
	const struct shape *shape;
	unsigned world, incarnation;
	unsigned written
		[64]; /* bit r: rank r has finished its part of this step; BEGUN: somebody saves it */
	struct rank ranks[SAVE_RANKS];
	unsigned arrived, rounds; /* of the barrier */
	bool harmed;		  /* a rank of this incarnation has died, or got an error */
};

static struct job jobs[JOBS_MAX];
static unsigned nr_jobs;
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

/* --- what a rank does --- */

static const char *said(int err)
{
	return err ? strerror(-err) : "done";
}

/* The rank gets @err from a call: that ends it, unless it is expected. */
static int got(struct rank *r, const char *what, int err)
{
	if (err == -EIO)
		r->told = true;
	story("%c%u %s: %s", r->job->name, r->nr, what, said(err));
	return err;
}

static struct made_by by_of(const struct rank *r)
{
	return (struct made_by){r->job->name, r->job->incarnation, 0, r->nr, r->job->world};
}

static void leave_barrier(struct rank *r)
{
	r->job->arrived -= r->at_barrier;
	r->at_barrier = false;
}

static int barrier(struct rank *r)
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

static size_t draw_size(void)
{
	return sched_draw(8) ? 64 + sched_draw(3000) : 100000 + sched_draw(50000);
}

/* From @from on, in pieces. */
static int write_rest(struct opened *o, const char *buf, size_t from, size_t len)
{
	int err = 0;

	while (from < len && !err) {
		size_t piece = len - from < 40000 ? (len - from + 1) / 2 : 40000;

		err = call_write(o, buf + from, piece, from);
		from += piece;
	}
	return err;
}

static int write_file(struct rank *r, const char *path, bool synced)
{
	__cleanup_free char *buf = malloc(SAVE_FILE_MAX);
	struct made_by by = by_of(r);
	size_t len = draw_size();
	struct opened o;
	int err = call_open(&r->proc, path, O_WRONLY | O_CREAT | O_TRUNC, &o), closed;

	if (err)
		return err;
	save_fill(buf, len, &by);
	err = write_rest(&o, buf, 0, len);
	if (!err && synced)
		err = call_sync(&o);
	if (r->killed) /* as the kernel closes it */
		people_ending(r->pid, false);
	closed = call_close(&o);
	return r->killed ? -EINTR : err ? err : closed;
}

static int write_text(struct rank *r, const char *path, const char *text)
{
	struct opened o;
	int err = call_open(&r->proc, path, O_WRONLY | O_CREAT | O_TRUNC, &o), closed;

	if (err)
		return err;
	err = call_write(&o, text, strlen(text), 0);
	closed = call_close(&o);
	return err ? err : closed;
}

static unsigned *written_of(struct rank *r, const char *unit)
{
	unsigned nr = 0;

	shape_of_unit(unit, &nr);
	return &r->job->written[nr % 64];
}

static int make_unit(struct rank *r, const char *unit)
{
	int err = call_mkdir(&r->proc, unit);

	*written_of(r, unit) |= BEGUN;

	return err == -EEXIST ? 0 : err;
}

static void path_of_part(const struct rank *r, const char *unit, char path[96])
{
	char part[64];

	snprintf(part, sizeof(part), r->job->shape->part, r->nr);
	snprintf(path, 96, "%s/%s", unit, part);
}

static int write_end(struct rank *r, const char *unit)
{
	const struct shape *s = r->job->shape;
	char path[96], temp[112];
	int err;

	if (s->end) {
		snprintf(path, sizeof(path), "%s/%s", unit, s->end);
		snprintf(temp, sizeof(temp), "%s%s", path, s->renamed ? ".tmp" : "");
		err = write_file(r, temp, s->renamed);
		if (!err && s->renamed)
			err = call_rename(&r->proc, temp, path);
		if (err)
			return err;
	}
	return s->latest ? write_text(r, s->latest, unit) : 0;
}

/* Frameworks that synchronise their ranks first get here only if all have done their part. */
static int await_parts(struct rank *r, const char *unit)
{
	struct job *j = r->job;
	const unsigned all = (1u << j->world) - 1, *written = written_of(r, unit);
	unsigned i;

	while (j->shape->barrier) {
		for (i = 0; i < j->world; i++)
			if (j->ranks[i]
				    .gone) /* it does not answer any more, whatever it has written */
				return -ECONNRESET;
		if (r->killed)
			return -EINTR;
		if ((*written & all) == all)
			break;
		sched_sleep(20 * NSEC_PER_MSEC);
	}
	return 0;
}

/* A whole save, as the framework does it. */
static int save_all(struct rank *r, const char *unit)
{
	struct made_by by;
	char path[96];
	int err = make_unit(r, unit);

	path_of_part(r, unit, path);
	if (!err)
		err = write_file(r, path, sched_draw(2));
	if (!err)
		*written_of(r, unit) |= 1u << r->nr;
	if (!err && r->job->shape->barrier)
		err = barrier(r);
	if (!err && !r->nr)
		err = write_end(r, unit);
	if (!err)
		err = barrier(r);
	by = by_of(r);
	if (!err && !r->nr && !r->job->harmed)
		note(finished, &nr_finished, unit, &by);
	return err;
}

static int write_part(struct rank *r, const char *unit)
{
	char path[96];
	int err = make_unit(r, unit);

	path_of_part(r, unit, path);
	if (!err)
		err = write_file(r, path, false);
	if (!err)
		*written_of(r, unit) |= 1u << r->nr;
	return err;
}

/* Writes half of its part, closes it as if that were all, and dies of what went wrong. */
static int cut_part(struct rank *r, const char *unit)
{
	__cleanup_free char *buf = malloc(SAVE_FILE_MAX);
	struct made_by by = by_of(r);
	size_t len = draw_size();
	struct opened o;
	char path[96];
	int err = make_unit(r, unit);

	path_of_part(r, unit, path);
	if (!err)
		err = call_open(&r->proc, path, O_WRONLY | O_CREAT | O_TRUNC, &o);
	if (err)
		return err;
	save_fill(buf, len, &by);
	err = call_write(&o, buf, len / 2, 0);
	if (call_close(&o) || err)
		return -EIO;
	sched_sleep(sched_draw(CUT_NS));
	return -ECANCELED;
}

/* Leaves it open, half written. */
static int begin_part(struct rank *r, const char *unit)
{
	__cleanup_free char *buf = malloc(SAVE_FILE_MAX);
	struct made_by by = by_of(r);
	char path[96];
	int err = make_unit(r, unit);

	path_of_part(r, unit, path);
	if (!err)
		err = call_open(&r->proc, path, O_WRONLY | O_CREAT | O_TRUNC, &r->part);
	if (err)
		return err;
	r->part_open = true;
	snprintf(r->part_unit, sizeof(r->part_unit), "%s", unit);
	save_fill(buf, 1000, &by);
	return call_write(&r->part, buf, 500, 0);
}

static int finish_part(struct rank *r, const char *unit)
{
	char buf[1000];
	struct made_by by = by_of(r);
	int err;

	if (!r->part_open)
		return 0;
	save_fill(buf, sizeof(buf), &by);
	err = call_write(&r->part, buf + 500, 500, 500);
	r->part_open = false;
	err = call_close(&r->part) ? -EIO : err;
	if (!err)
		*written_of(r, unit) |= 1u << r->nr;
	return err;
}

static void add_name(void *arg, const char *name, bool directory)
{
	char(*names)[64] = arg;
	unsigned i;

	(void)directory;
	for (i = 0; i < 31 && *names[i]; i++)
		;
	snprintf(names[i], 64, "%s", name);
}

/* rm -rf */
static int remove_unit(struct rank *r, const char *unit)
{
	char names[32][64] = {{0}}, path[128];
	int err = call_list(&r->proc, unit, add_name, names);
	unsigned i;

	for (i = 0; !err && i < 31 && *names[i]; i++) {
		snprintf(path, sizeof(path), "%s/%.63s", unit, names[i]);
		err = call_unlink(&r->proc, path);
		if (err == -ENOENT)
			err = 0;
	}
	err = err ? err : call_rmdir(&r->proc, unit);
	return err == -ENOENT ? 0 : err;
}

static int wait_for(struct rank *r, const char *unit)
{
	struct made_by by = by_of(r);
	int err = call_wait(&r->proc, unit, sched_now() + WAIT_NS);

	if (!err)
		note(promised, &nr_promised, unit, &by);
	got(r, "wait", err);
	return err == -EIO || err == -ETIMEDOUT || err == -ENOENT ? 0 : err;
}

/* --- resume --- */

struct reading {
	struct rank *r;
	const char *unit;
};

static ssize_t read_in_mount(void *arg, const char *file, char *buf)
{
	const struct reading *at = arg;
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", at->unit, file);
	return call_read(&at->r->proc, path, buf, SAVE_FILE_MAX);
}

/*
 * A restarted rank takes up the newest checkpoint that is listed and is a directory. That must be a whole one. A file
 * that is gone is no news to it: the name may belong to the incarnation that has just died (tests/README.md).
 */
static int resume(struct rank *r)
{
	char names[32][64] = {{0}}, why[256] = "";
	const char *newest = NULL;
	unsigned i, nr, most = 0;
	struct made_by by;
	int err = r->job->incarnation ? call_list(&r->proc, "", add_name, names) : 0;

	for (i = 0; !err && i < 31 && *names[i]; i++)
		if (shape_of_unit(names[i], &nr) == r->job->shape && nr >= most &&
		    call_is_directory(&r->proc, names[i])) {
			most = nr;
			newest = names[i];
		}
	if (err || !newest)
		return err;
	if (save_is_whole(newest, read_in_mount, &(struct reading){r, newest}, &by, why,
			  sizeof(why)))
		story("%c%u resumes from %s", r->job->name, r->nr, newest);
	else if (!r->killed && !strstr(why, strerror(ESTALE)) && !strstr(why, strerror(ENOENT)))
		wrong("%c%u, started again, finds %s on node %u, which is no whole checkpoint: %s",
		      r->job->name, r->nr, newest, r->node, why);
	return 0;
}

/* --- a rank --- */

struct verb {
	const char *text; /* with the unit behind it */
	int (*act)(struct rank *r, const char *unit);
};

/* Nobody goes on before all have loaded. */
static int do_resume(struct rank *r, const char *unit)
{
	int err = resume(r);

	(void)unit;
	return err ? err : barrier(r);
}

static int point(struct rank *r, const char *unit)
{
	return write_text(r, "latest", unit);
}

static int end(struct rank *r, const char *unit)
{
	int err = await_parts(r, unit);

	*written_of(r, unit) |= BEGUN;
	return err ? err : write_end(r, unit);
}

static const struct verb verbs[] = {
	{"saves ", save_all},
	{"writes its part of ", write_part},
	{"writes half of its part of ", cut_part},
	{"begins its part of ", begin_part},
	{"finishes its part of ", finish_part},
	{"ends ", end},
	{"points to ", point},
	{"removes ", remove_unit},
	{"waits for ", wait_for},
	{"resumes", do_resume},
};

static const struct verb *verb_of(const char *what)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(verbs); i++)
		if (!strncmp(what, verbs[i].text, strlen(verbs[i].text)))
			return &verbs[i];
	return NULL;
}

/* Nobody ends well whose job has lost a rank, or has left out a part of a save: the last barrier is not passed. */
static bool may_end_well(const struct job *j)
{
	const unsigned all = (1u << j->world) - 1;
	unsigned i;

	for (i = 0; i < 64; i++)
		if (j->written[i] && (j->written[i] & all) != all)
			return false;
	return !j->harmed;
}

/* Closes what it has open, as the kernel does, and goes. */
static void end_process(struct rank *r)
{
	r->well &= may_end_well(r->job);
	if (!r->well)
		harm(r->job);
	people_ending(r->pid, r->well);
	if (r->part_open)
		call_close(&r->part);
	r->part_open = false;
	story("%c%u %s", r->job->name, r->nr, r->well ? "exits" : "dies");
	people_ended(r->pid);
	r->gone = true;
	sched_wake_all(r->job);
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
		if (!strcmp(what, "exits")) {
			r->well = true;
			break;
		}
		r->proc.m = world_at(r->node);
		r->busy = true;
		err = r->proc.m ? verb_of(what)->act(r, what + strlen(verb_of(what)->text))
				: -ENOTCONN;
		got(r, what, err);
		r->busy = false;
		r->done++;
	}
	r->busy = true;
	end_process(r);
	r->busy = false;
	return NULL;
}

static void start(struct job *j, unsigned nr)
{
	struct rank *r = &j->ranks[nr];
	unsigned node = r->node;
	char name[2] = {j->name};

	memset(r, 0, sizeof(*r));
	interruptible_init(&r->call);
	r->job = j;
	r->nr = nr;
	r->node = node;
	r->proc.who = (struct caller){.uid = getuid(), .gid = getgid()};
	r->pid = people_start(node, name, j->incarnation, (int)nr, (int)j->world);
	r->proc.who.pid = r->pid;
	r->task = sched_start(node, rank_main, r, false);
}

void job_create(char name, const char *shape, unsigned world, const unsigned *nodes)
{
	struct job *j = &jobs[nr_jobs++];
	unsigned i;

	if (nr_jobs > JOBS_MAX)
		abort();
	j->name = name;
	j->shape = shape_of(shape);
	j->world = world;
	for (i = 0; i < world; i++) {
		j->ranks[i].node = nodes[i];
		start(j, i);
	}
}

void rank_kill(char job, int rank)
{
	struct rank *r = &job_of(job)->ranks[rank];

	if (r->gone)
		return;
	story("%c%d is killed", job, rank);
	harm(r->job);
	r->killed = true;
	wait_interrupt(&r->call);
	sched_wake_all(r);
	sched_wake_all(r->job);
}

void job_restart(char name)
{
	struct job *j = job_of(name);
	unsigned i;

	for (i = 0; i < j->world; i++)
		rank_kill(name, (int)i);
	for (i = 0; i < j->world; i++)
		while (!j->ranks[i].gone) /* a launcher waits for its processes */
			sched_sleep(10 * NSEC_PER_MSEC);
	sched_sleep(LAUNCH_NS + sched_draw(START_NS));
	j->incarnation++;
	j->arrived = 0;
	j->harmed = false;
	memset(j->written, 0, sizeof(j->written));
	story("%c is started again, incarnation %u", name, j->incarnation);
	for (i = 0; i < j->world; i++)
		start(j, i);
}

bool rank_told(char job, int rank, const char *what)
{
	struct job *j = job_of(job);
	unsigned i;

	if (!j || (strcmp(what, "exits") != 0 && !verb_of(what)))
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
				jobs[i].ranks[k].gone = true;
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
	return r->part_open;
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
