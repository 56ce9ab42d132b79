/* SPDX-License-Identifier: MIT */
/*
 * How ranks save and resume, as their frameworks do: the shape of a save (save.c) says which files
 * and in which order. Where a framework renames the directory (Orbax) the ranks write below its
 * former name.
 */
#include "tests/sim/rank.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "tests/sim/check.h"

#define CUT_NS \
	(300 * NSEC_PER_MSEC) /* from the exception that ends a write to the end of its process */
#define PART_LEN 160
#define WAIT_NS	 (20 * NSEC_PER_SEC) /* of `ckptfs wait` */

/* @name in the directory that @unit is in. */
static void path_beside(const char *unit, const char *name, char path[96])
{
	const char *slash = strrchr(unit, '/');

	snprintf(path, 96, "%.*s%s", slash ? (int)(slash + 1 - unit) : 0, unit, name);
}

/* Where @unit is written. */
static void path_of_unit(const struct rank *r, const char *unit, char path[96])
{
	char name[64];
	unsigned nr = 0;

	if (!r->job->shape->temp) {
		snprintf(path, 96, "%s", unit);
		return;
	}
	shape_of_unit(unit, &nr);
	snprintf(name, sizeof(name), r->job->shape->temp, nr);
	path_beside(unit, name, path);
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
	struct made_by by = rank_made_by(r);
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

static unsigned *written_of(struct rank *r, const char *unit)
{
	unsigned nr = 0;

	shape_of_unit(unit, &nr);
	return &r->job->written[nr % STEPS_NR];
}

static int make_unit(struct rank *r, const char *unit)
{
	char path[96];
	int err;

	path_of_unit(r, unit, path);
	check_begins(unit);
	err = call_mkdir(&r->proc, path);
	*written_of(r, unit) |= BEGUN;
	return err == -EEXIST ? 0 : err;
}

static void path_of_part(const struct rank *r, const char *unit, char path[PART_LEN])
{
	char dir[96], part[64];

	path_of_unit(r, unit, dir);
	snprintf(part, sizeof(part), r->job->shape->part, r->nr);
	snprintf(path, PART_LEN, "%s/%s", dir, part);
}

static int write_last_file(struct rank *r, const char *dir)
{
	const struct shape *s = r->job->shape;
	char path[160], temp[176];
	int err;

	snprintf(path, sizeof(path), "%s/%s", dir, s->end);
	snprintf(temp, sizeof(temp), "%s%s", path, s->renamed ? ".tmp" : "");
	err = write_file(r, temp, s->renamed);
	if (!err && s->renamed)
		err = call_rename(&r->proc, temp, path);
	return err;
}

static int write_end(struct rank *r, const char *unit)
{
	const struct shape *s = r->job->shape;
	char dir[96], path[96];
	int err = 0;

	path_of_unit(r, unit, dir);
	if (s->end)
		err = write_last_file(r, dir);
	if (!err && s->temp)
		err = call_rename(&r->proc, dir, unit);
	if (err || !s->latest)
		return err;
	path_beside(unit, s->latest, path);
	return rank_write_text(r, path, unit_name(unit));
}

/* Frameworks that synchronise their ranks first get here only if all have done their part. */
static int await_parts(struct rank *r, const char *unit)
{
	struct job *j = r->job;
	const unsigned all = (1u << j->world) - 1, *written = written_of(r, unit);
	unsigned i;

	while (j->shape->barrier) {
		for (i = 0; i < j->world; i++)
			if (j->ranks[i].gone) /* whatever it has written, it does not answer */
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
	char path[PART_LEN];
	int err = make_unit(r, unit);

	path_of_part(r, unit, path);
	if (!err)
		err = write_file(r, path, sched_draw(2));
	if (!err)
		*written_of(r, unit) |= 1u << r->nr;
	if (!err && r->job->shape->barrier)
		err = rank_barrier(r);
	if (!err && !r->nr)
		err = write_end(r, unit);
	if (!err)
		err = rank_barrier(r);
	if (!err && !r->nr)
		rank_note_finished(r, unit);
	return err;
}

static int write_part(struct rank *r, const char *unit)
{
	char path[PART_LEN];
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
	struct made_by by = rank_made_by(r);
	size_t len = draw_size();
	struct opened o;
	char path[PART_LEN];
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
	struct made_by by = rank_made_by(r);
	char path[PART_LEN];
	int err = make_unit(r, unit);

	path_of_part(r, unit, path);
	if (!err)
		err = call_open(&r->proc, path, O_WRONLY | O_CREAT | O_TRUNC, &r->part);
	if (err)
		return err;
	r->part_open = true;
	save_fill(buf, 1000, &by);
	return call_write(&r->part, buf, 500, 0);
}

static int finish_part(struct rank *r, const char *unit)
{
	char buf[1000];
	struct made_by by = rank_made_by(r);
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

static int wait_for(struct rank *r, const char *unit)
{
	int err = call_wait(&r->proc, unit, sched_now() + WAIT_NS);

	if (!err)
		rank_note_promised(r, unit);
	rank_got(r, "wait", err);
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

/* What stood committed since the change @since is not passed over. */
static void look_passed_over(const struct rank *r, const char *newest, unsigned most,
			     unsigned since)
{
	struct standing s;
	unsigned at = 0, nr;

	while (check_next(&at, &s))
		if (s.committed && !s.may_go && s.changed <= since && !strchr(s.name, '/') &&
		    shape_of_unit(s.name, &nr) == r->job->shape && (!newest || nr > most))
			wrong("%c%u, started again, finds %s on node %u, and not %s, which is "
			      "committed",
			      r->job->name, r->nr, newest ? newest : "nothing", r->node, s.name);
}

static void unwhole(const struct rank *r, const char *unit, const char *why)
{
	if (!what_is_wrong() && ranks_hear_late() && check_is_begun(unit))
		listed("a death is heard of late, and a restarted job finds what is dying");
	wrong("%c%u, started again, finds %s on node %u, which is no whole checkpoint: %s",
	      r->job->name, r->nr, unit, r->node, why);
}

/*
 * A restarted rank takes up the newest checkpoint that is listed and is a directory. That must be a
 * whole one. A file that is gone is no news to it: the name may belong to the incarnation that has
 * just died (tests/README.md).
 */
static int resume(struct rank *r)
{
	char names[NAMES_MAX][64] = {{0}}, why[256] = "";
	const char *newest = NULL;
	unsigned i, nr, most = 0, since = check_changes();
	struct made_by by;
	bool unseen = false;
	int err = r->job->incarnation ? rank_list(r, "", names) : 0;

	for (i = 0; !err && *names[i]; i++) {
		int is = 0;

		if (shape_of_unit(names[i], &nr) == r->job->shape && nr >= most)
			is = call_is_directory(&r->proc, names[i]);
		unseen |= is < 0 && is != -ENOENT;
		if (is <= 0)
			continue;
		most = nr;
		newest = names[i];
	}
	if (!err && r->job->incarnation && !r->killed && !unseen)
		look_passed_over(r, newest, most, since);
	if (err || !newest)
		return err;
	if (save_is_whole(newest, read_in_mount, &(struct reading){r, newest}, &by, why,
			  sizeof(why)))
		story("%c%u resumes from %s", r->job->name, r->nr, newest);
	else if (strstr(why, strerror(EIO)) && !check_committed(newest))
		story("%c%u is told of %s, which fails: %s", r->job->name, r->nr, newest, why);
	else if (!r->killed && !strstr(why, strerror(ESTALE)) && !strstr(why, strerror(ENOENT)))
		unwhole(r, newest, why);
	return 0;
}

/* --- the verbs --- */

/* Nobody goes on before all have loaded. */
static int do_resume(struct rank *r, const char *unit)
{
	int err = resume(r);

	(void)unit;
	return err ? err : rank_barrier(r);
}

/* Of a program that has no barrier there, or whose barrier lets it pass. */
static int end_alone(struct rank *r, const char *unit)
{
	*written_of(r, unit) |= BEGUN;
	return write_end(r, unit);
}

static int end(struct rank *r, const char *unit)
{
	int err = await_parts(r, unit);

	return err ? err : end_alone(r, unit);
}

static const struct verb verbs[] = {
	{"saves ", save_all},
	{"writes its part of ", write_part},
	{"writes half of its part of ", cut_part},
	{"begins its part of ", begin_part},
	{"finishes its part of ", finish_part},
	{"ends without waiting ", end_alone},
	{"ends ", end},
	{"waits for ", wait_for},
	{"resumes", do_resume},
};

const struct verb *verb_of_save(const char *what)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(verbs); i++)
		if (!strncmp(what, verbs[i].text, strlen(verbs[i].text)))
			return &verbs[i];
	return NULL;
}
