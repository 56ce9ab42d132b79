/* SPDX-License-Identifier: MIT */
/*
 * Makes a failing trace small: leave out halves, quarters, ... single ops as
 * long as the same kind of difference stays, then make the numbers left over
 * simpler.
 */
#include "randops.h"

#include <stdlib.h>
#include <string.h>

struct shrinker {
	const struct config *cfg;
	const char *sub;
	unsigned int runs;
	double deadline;
	bool broken; /* cannot even set up a run: the mount is gone */
	struct trace *best;
	struct diff *diff;
	/* what failed at first */
	enum op_kind kind;
	char what[sizeof(((struct diff *)0)->what)];
};

enum { SHRINK_SECONDS = 300 };

static bool out_of_budget(const struct shrinker *s)
{
	return s->broken || s->runs >= s->cfg->attempts || seconds_now() > s->deadline;
}

static bool still_fails(struct shrinker *s, const struct trace *t, struct diff *d)
{
	struct world w;
	char sub[64];
	bool fails;

	memset(d, 0, sizeof(*d));
	snprintf(sub, sizeof(sub), "%.40s.s%u", s->sub, s->runs++);
	if (world_start(&w, s->cfg, sub)) {
		s->broken = true;
		return false;
	}
	fails = !world_run(&w, t, d) && !d->environment;
	world_end(&w, true);
	return fails;
}

/* Not some other trouble that the shortened sequence runs into. */
static bool same_trouble(const struct shrinker *s, const struct trace *t, const struct diff *d)
{
	return s->kind == OP_CHECK || t->ops[d->op].kind == s->kind ||
	       !strncmp(s->what, d->what, 12);
}

/* Adopt the candidate if it fails too, without the ops behind the failure. */
static bool try_trace(struct shrinker *s, struct trace *t)
{
	struct diff d;

	if (!still_fails(s, t, &d) || !same_trouble(s, t, &d))
		return false;
	t->nr = d.op + 1;
	memcpy(s->best->ops, t->ops, t->nr * sizeof(*t->ops));
	s->best->nr = t->nr;
	*s->diff = d;
	return true;
}

static bool try_without(struct shrinker *s, size_t from, size_t nr)
{
	struct trace t = {0};
	bool ok;
	size_t i;

	for (i = 0; i < s->best->nr; i++) {
		if (i < from || i >= from + nr)
			trace_push(&t, &s->best->ops[i]);
	}
	ok = t.nr && try_trace(s, &t);
	trace_finish(&t);
	return ok;
}

static void remove_ops(struct shrinker *s)
{
	size_t chunk = s->best->nr / 2, at;
	bool removed;

	while (chunk && !out_of_budget(s)) {
		removed = false;
		/* From the back: what is late matters least to what is early. */
		at = s->best->nr > chunk ? s->best->nr - chunk : 0;
		while (!out_of_budget(s)) {
			if (at + chunk <= s->best->nr && try_without(s, at, chunk))
				removed = true;
			if (!at)
				break;
			at = at > chunk ? at - chunk : 0;
			if (at >= s->best->nr)
				at = s->best->nr > chunk ? s->best->nr - chunk : 0;
		}
		if (!removed || chunk > 1)
			chunk /= 2;
	}
}

static bool try_op(struct shrinker *s, size_t at, const struct op *op)
{
	struct trace t = {0};
	bool ok;
	size_t i;

	if (at >= s->best->nr || !memcmp(op, &s->best->ops[at], sizeof(*op)))
		return false;
	for (i = 0; i < s->best->nr; i++)
		trace_push(&t, i == at ? op : &s->best->ops[i]);
	ok = try_trace(s, &t);
	trace_finish(&t);
	return ok;
}

static bool try_number(struct shrinker *s, size_t at, size_t field, int64_t value)
{
	struct op op = s->best->ops[at];

	memcpy((char *)&op + field, &value, sizeof(value));
	return try_op(s, at, &op);
}

/* The least, a page, half, down to the page: as long as one keeps the failure. */
static void simplify_number(struct shrinker *s, size_t at, size_t field, int64_t min)
{
	int64_t now, want[4];
	bool simpler = true;
	int i;

	while (simpler) {
		simpler = false;
		if (at >= s->best->nr)
			return;
		memcpy(&now, (char *)&s->best->ops[at] + field, sizeof(now));
		want[0] = min;
		want[1] = PAGE;
		want[2] = now / 2;
		want[3] = now & ~(int64_t)(PAGE - 1);
		for (i = 0; i < 4 && !simpler && !out_of_budget(s); i++) {
			if (want[i] < now && want[i] >= min)
				simpler = try_number(s, at, field, want[i]);
		}
	}
}

static void simplify_flags(struct shrinker *s, size_t at)
{
	struct op op;
	int bit;

	/* a whence is no set of bits */
	if (s->best->ops[at].kind == OP_LSEEK || s->best->ops[at].kind == OP_HOLE)
		return;
	for (bit = 1; bit > 0 && bit < 1 << 30; bit <<= 1) {
		if (at >= s->best->nr || out_of_budget(s))
			return;
		op = s->best->ops[at];
		if (!(op.flags & bit))
			continue;
		op.flags &= ~bit;
		try_op(s, at, &op);
	}
}

static void simplify_small(struct shrinker *s, size_t at)
{
	struct op op;

	if (at >= s->best->nr || out_of_budget(s))
		return;
	op = s->best->ops[at];
	op.align = 0;
	try_op(s, at, &op);
	if (at >= s->best->nr || out_of_budget(s))
		return;
	op = s->best->ops[at];
	op.n = op.kind == OP_READV || op.kind == OP_WRITEV;
	try_op(s, at, &op);
}

static void simplify(struct shrinker *s)
{
	size_t at;

	for (at = 0; at < s->best->nr && !out_of_budget(s); at++) {
		simplify_flags(s, at);
		simplify_small(s, at);
		simplify_number(s, at, offsetof(struct op, off), 0);
		simplify_number(s, at, offsetof(struct op, off2), 0);
		if (at < s->best->nr)
			simplify_number(s, at, offsetof(struct op, len),
					op_moves_data(s->best->ops[at].kind));
	}
}

void shrink(const struct config *cfg, struct trace *t, const char *sub, struct diff *d)
{
	struct shrinker s = {.cfg = cfg, .sub = sub, .best = t, .diff = d};
	struct trace all = {0};
	bool again;
	size_t i;

	s.kind = t->ops[d->op].kind;
	snprintf(s.what, sizeof(s.what), "%s", d->what);
	s.deadline = seconds_now() + SHRINK_SECONDS;
	for (i = 0; i < t->nr; i++)
		trace_push(&all, &t->ops[i]);
	again = try_trace(&s, &all);
	trace_finish(&all);
	if (!again) {
		say("not shrunk: %s",
		    s.broken ? "no fresh directories can be made any more"
			     : "the same ops do not fail again (does timing matter?)");
		return;
	}
	say("shrinking %zu ops, at most %u runs", t->nr, cfg->attempts);
	remove_ops(&s);
	simplify(&s);
	remove_ops(&s);
	simplify(&s);
	say("shrunk to %zu op%s in %u runs", t->nr, t->nr == 1 ? "" : "s", s.runs);
}
