/* SPDX-License-Identifier: MIT */
#include "tests/backing/crash.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "tests/backing/image.h"
#include "tests/backing/steps.h"
#include "tests/backing/util.h"

static const struct taken all = {TAKE_ALL, 0, 0}, none = {TAKE_NONE, 0, 0},
			  zeros = {TAKE_ZEROS, 0, 0};

struct crash {
	struct record *r;
	struct crash_options options;
	crash_check check;
	void *arg;
	struct crash_report *report;
	struct image_step *steps; /* the log */
	size_t nr_steps;
	/* of the point that is explored: steps [start, end) came after the last sync or mark */
	size_t start, end;
	int mark;
	struct taken *taken; /* of each step that is not durable */
	bool *pending;	     /* not durable, before end */
	struct image *base;  /* steps [0, base_steps), all durable */
	size_t base_steps;
	uint64_t random;
	/* hashes of states that were checked: open addressing, 0 is free */
	uint64_t *seen;
	size_t nr_seen, max_seen;
	struct memory *memory; /* what a check gets */
};

/* What nothing can undo any more is done once. */
static void advance_base(struct crash *c)
{
	for (; c->base_steps < c->end; c->base_steps++) {
		const struct image_step *s = &c->steps[c->base_steps];

		if (!step_is_point(s) && !(s->durable && (s->times_durable || !step_is_data(s))))
			break;
		image_apply(c->base, s, all, true);
	}
}

/* --- telling --- */

static void append(char *text, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void append(char *text, size_t size, const char *fmt, ...)
{
	size_t len = strlen(text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text + len, size - len, fmt, ap);
	va_end(ap);
}

/* As one of those that are @lost, or of those that are left. */
static void tell_step(const struct crash *c, size_t i, bool lost, char *text, size_t size)
{
	static const char *const parts[] = {"", " (the new name)", " (the old name)"};
	const struct taken *t = &c->taken[i];
	char op[600];

	record_describe(c->r, c->steps[i].op, op, sizeof(op));
	if (t->how == TAKE_FIRST)
		append(text, size, "%s %zu blocks of ", lost ? "all but the first" : "the first",
		       t->blocks);
	if (t->how == TAKE_SOME)
		append(text, size, "some blocks of ");
	if (t->how == TAKE_ZEROS)
		append(text, size, "%s of ", lost ? "the data, not the size," : "the size");
	append(text, size, "%s%s", op, parts[c->steps[i].part]);
}

/* Lists what is lost or what is left, whichever is less. */
static void tell(const struct crash *c, size_t limit, bool times, char *text, size_t size)
{
	size_t i, nr_lost = 0, nr_left = 0, nr = 0;
	char op[600] = "the end";
	bool lost;

	for (i = c->base_steps; i < limit; i++)
		if (c->pending[i])
			*(c->taken[i].how == TAKE_NONE ? &nr_lost : &nr_left) += 1;
	lost = nr_lost <= nr_left || !nr_left;
	if (limit < c->nr_steps)
		record_describe(c->r, c->steps[limit].op, op, sizeof(op));
	text[0] = '\0';
	append(text, size, "power cut before '%s' (step %zu of %zu, mark %d); %s", op,
	       limit - c->r->nr_initial, c->nr_steps - c->r->nr_initial, c->mark,
	       lost ? "lost: " : "of what was not synced is left: ");
	for (i = c->base_steps; i < limit; i++) {
		if (!c->pending[i] || c->taken[i].how == (lost ? TAKE_ALL : TAKE_NONE))
			continue;
		append(text, size, "%s", nr++ ? ", " : "");
		tell_step(c, i, lost, text, size);
	}
	append(text, size, "%s%s", nr ? "" : "nothing", times ? "" : "; times as last synced");
}

/* --- one state --- */

/* False: it is in the set already. */
static bool remember(struct crash *c, uint64_t hash)
{
	uint64_t *old = c->seen;
	size_t i, n = c->max_seen;

	hash += !hash;
	if (2 * (c->nr_seen + 1) > c->max_seen) {
		c->max_seen = n ? 2 * n : 1024;
		c->seen = must(calloc(c->max_seen, sizeof(*c->seen)));
		c->nr_seen = 0;
		for (i = 0; i < n; i++)
			if (old[i])
				remember(c, old[i]);
		free(old);
	}
	for (i = hash % c->max_seen; c->seen[i]; i = (i + 1) % c->max_seen)
		if (c->seen[i] == hash)
			return false;
	c->seen[i] = hash;
	c->nr_seen++;
	return true;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int check_image(struct crash *c, const struct image *im, size_t limit, bool times)
{
	struct backing b;
	struct crash_state state = {
		.backing = &b, .memory = c->memory, .mark = c->mark, .what = c->report->what};
	double begin;
	int bad;

	memory_load(c->memory, im);
	memory_open(c->memory, &b);
	tell(c, limit, times, c->report->what, sizeof(c->report->what));
	begin = now();
	bad = c->check(c->arg, &state);
	c->report->check_seconds += now() - begin;
	c->report->checked++;
	backing_close(&b);
	return bad ? 1 : 0;
}

/* A crash after @limit steps; of those that are not durable there is what c->taken says. */
static int try(struct crash *c, size_t limit, bool times)
{
	struct image *im;
	size_t i;
	int err = 0;

	if (c->options.max_states && c->report->checked >= c->options.max_states) {
		c->report->cut_short = true;
		return 0;
	}
	c->report->considered++;
	im = image_copy(c->base);
	for (i = c->base_steps; i < limit; i++)
		image_apply(im, &c->steps[i], c->pending[i] ? c->taken[i] : all,
			    times || c->steps[i].times_durable);
	if (remember(c, mix(image_hash(im), (uint64_t)c->mark)))
		err = check_image(c, im, limit, times);
	image_destroy(im);
	return err;
}

/* --- which states --- */

static void take(struct crash *c, struct taken names, struct taken data, struct taken attrs)
{
	size_t i;

	for (i = c->base_steps; i < c->end; i++) {
		const struct image_step *s = &c->steps[i];

		c->taken[i] = step_is_name(s) ? names : step_is_data(s) ? data : attrs;
		/* A truncate has no data to lose. */
		if (s->op->kind == RECORD_TRUNCATE && c->taken[i].how == TAKE_ZEROS)
			c->taken[i] = all;
	}
}

static int try_broad(struct crash *c)
{
	size_t limit;
	int err = 0;

	take(c, all, all, all);
	for (limit = c->start; !err && limit <= c->end; limit++)
		err = try(c, limit, true);
	if (!err)
		err = try(c, c->end, false);
	take(c, none, none, none);
	if (!err)
		err = try(c, c->end, true);
	take(c, all, none, all);
	if (!err)
		err = try(c, c->end, true);
	take(c, all, zeros, all);
	if (!err)
		err = try(c, c->end, true);
	take(c, none, all, all);
	if (!err)
		err = try(c, c->end, true);
	take(c, all, all, none);
	if (!err)
		err = try(c, c->end, true);
	return err;
}

/* Takes what a change to a name needs to be seen: earlier ones to it, the directory it is in. */
static void take_causes(struct crash *c, size_t i)
{
	const struct image_step *s = &c->steps[i];
	size_t j;

	c->taken[i] = all;
	for (j = c->base_steps; j < i; j++) {
		const struct image_step *t = &c->steps[j];
		bool names_dir = step_is_name(t) &&
				 (t->op->inode == s->op->dir || t->op->inode == s->op->new_dir);

		if (c->pending[j] && c->taken[j].how == TAKE_NONE && step_is_name(t) &&
		    (names_dir || steps_share_name(s, t)))
			take_causes(c, j);
	}
	if (s->part == IMAGE_OLD_NAME && c->pending[i - 1])
		take_causes(c, i - 1);
}

static int try_single(struct crash *c)
{
	size_t i;
	int err = 0;

	for (i = c->base_steps; !err && i < c->end; i++) {
		if (!c->pending[i])
			continue;
		take(c, all, all, all);
		c->taken[i] = none;
		err = try(c, c->end, true);
		if (err)
			break;
		if (step_is_name(&c->steps[i])) {
			take(c, none, none, none);
			take_causes(c, i);
		} else {
			take(c, all, none, none);
			c->taken[i] = all;
		}
		err = try(c, c->end, true);
	}
	return err;
}

/* The rest of the world is whole. */
static int try_torn(struct crash *c, size_t i, struct taken taken)
{
	take(c, all, all, all);
	c->taken[i] = taken;
	return try(c, c->end, true);
}

static int try_tears_of(struct crash *c, size_t i)
{
	size_t n = step_blocks(&c->steps[i]);
	const size_t firsts[] = {1, n / 2, n - 1};
	int err = try_torn(c, i, zeros);
	size_t k;

	for (k = 0; !err && k < ARRAY_SIZE(firsts); k++)
		if (firsts[k] > 0 && firsts[k] < n)
			err = try_torn(c, i, (struct taken){TAKE_FIRST, firsts[k], 0});
	for (k = 0; !err && n > 2 && k < 2; k++)
		err = try_torn(c, i, (struct taken){TAKE_SOME, 0, mix(c->options.seed, 2 * i + k)});
	return err;
}

/* Without the data of one file: nothing of it, or zeros. */
static int try_without(struct crash *c, int inode, struct taken taken)
{
	size_t i;

	take(c, all, all, all);
	for (i = c->base_steps; i < c->end; i++)
		if (step_is_data(&c->steps[i]) && c->steps[i].op->inode == inode &&
		    (c->steps[i].op->kind == RECORD_WRITE || taken.how == TAKE_NONE))
			c->taken[i] = taken;
	return try(c, c->end, true);
}

static int try_tears(struct crash *c)
{
	bool *done = must(calloc(c->r->nr_inodes, sizeof(*done)));
	size_t i;
	int err = 0;

	for (i = c->base_steps; !err && i < c->end; i++) {
		int inode = c->steps[i].op->inode;

		if (!c->pending[i] || c->steps[i].op->kind != RECORD_WRITE || !c->steps[i].op->len)
			continue;
		err = try_tears_of(c, i);
		if (err || done[inode])
			continue;
		done[inode] = true;
		err = try_without(c, inode, none);
		if (!err)
			err = try_without(c, inode, zeros);
	}
	free(done);
	return err;
}

static uint64_t next_random(struct crash *c, uint64_t below)
{
	c->random = mix(c->random, 1);
	return c->random % below;
}

static int try_random(struct crash *c)
{
	static const unsigned eighths[] = {1, 4, 7};
	unsigned n;
	int err = 0;
	size_t i;

	for (n = 0; !err && n < c->options.random; n++) {
		size_t limit = c->start < c->end ? c->start + 1 + next_random(c, c->end - c->start)
						 : c->end;

		for (i = c->base_steps; i < limit; i++)
			if (c->pending[i])
				c->taken[i] =
					step_take_random(&c->steps[i], eighths[n % 3], &c->random);
		err = try(c, limit, next_random(c, 4));
	}
	return err;
}

/* --- all of them --- */

static int explore_point(struct crash *c, int pass)
{
	static int (*const passes[])(struct crash *) = {try_broad, try_single, try_tears,
							try_random};
	bool any = false;
	size_t i;

	advance_base(c);
	for (i = c->base_steps; i < c->end; i++) {
		c->pending[i] = !step_is_point(&c->steps[i]) && !c->steps[i].durable;
		any |= c->pending[i] || (step_is_data(&c->steps[i]) && !c->steps[i].times_durable);
	}
	/* With nothing at stake there is one state. */
	return any || !pass ? passes[pass](c) : 0;
}

static int explore_pass(struct crash *c, int pass)
{
	size_t i;
	int err = 0;

	steps_begin(c->steps, c->nr_steps, c->r);
	c->base = image_create(c->r);
	c->base_steps = 0;
	c->mark = 0;
	c->random = mix(c->options.seed, 0);
	c->start = c->r->nr_initial;
	for (i = c->start; !err && i <= c->nr_steps; i++) {
		if (i < c->nr_steps && !step_is_point(&c->steps[i]))
			continue;
		c->end = i;
		err = explore_point(c, pass);
		if (i < c->nr_steps && c->steps[i].op->kind == RECORD_SYNC)
			steps_sync(c->steps, i, c->r);
		else if (i < c->nr_steps)
			c->mark = c->steps[i].op->mark;
		c->start = i + 1;
	}
	image_destroy(c->base);
	return err;
}

int crash_explore(struct record *r, const struct crash_options *options, crash_check check,
		  void *arg, struct crash_report *report)
{
	struct crash c = {.r = r, .check = check, .arg = arg, .report = report};
	double begin = now();
	int err = 0, pass;

	memset(report, 0, sizeof(*report));
	if (record_problem(r)) {
		snprintf(report->what, sizeof(report->what), "%s", record_problem(r));
		return -EINVAL;
	}
	c.options = *options;
	if (!c.options.random)
		c.options.random = 10;
	c.steps = steps_create(r, &c.nr_steps);
	c.taken = must(calloc(c.nr_steps + 1, sizeof(*c.taken)));
	c.pending = must(calloc(c.nr_steps + 1, sizeof(*c.pending)));
	c.memory = memory_create();
	for (pass = 0; !err && pass < 4; pass++)
		err = explore_pass(&c, pass);
	memory_destroy(c.memory);
	free(c.steps);
	free(c.taken);
	free(c.pending);
	free(c.seen);
	report->seconds = now() - begin;
	if (!err)
		report->what[0] = '\0';
	return err;
}

int crash_replay(struct record *r, struct memory *m)
{
	struct image_step *steps;
	struct image *im;
	size_t i, nr;

	if (record_problem(r))
		return -EINVAL;
	steps = steps_create(r, &nr);
	im = image_create(r);
	for (i = 0; i < nr; i++)
		image_apply(im, &steps[i], all, true);
	memory_load(m, im);
	image_destroy(im);
	free(steps);
	return 0;
}
