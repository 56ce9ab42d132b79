/* SPDX-License-Identifier: MIT */
#include "tests/backing/steps.h"

#include <stdlib.h>
#include <string.h>

#include "tests/backing/util.h"

static bool in_two_parts(const struct record *r, const struct record_op *op)
{
	return op->kind == RECORD_RENAME && op->dir != op->new_dir &&
	       !(op->flags & RENAME_EXCHANGE) && r->inodes[op->inode].type != S_IFDIR;
}

struct image_step *steps_create(const struct record *r, size_t *nr)
{
	struct image_step *steps = must(calloc(2 * r->nr_ops + 1, sizeof(*steps)));
	size_t i;

	*nr = 0;
	for (i = 0; i < r->nr_ops; i++) {
		bool two = in_two_parts(r, &r->ops[i]);

		steps[*nr].part = two ? IMAGE_NEW_NAME : IMAGE_WHOLE;
		steps[(*nr)++].op = &r->ops[i];
		if (!two)
			continue;
		steps[*nr].part = IMAGE_OLD_NAME;
		steps[(*nr)++].op = &r->ops[i];
	}
	steps_begin(steps, *nr, r);
	return steps;
}

void steps_begin(struct image_step *steps, size_t nr, const struct record *r)
{
	size_t i;

	for (i = 0; i < nr; i++)
		steps[i].durable = steps[i].times_durable = steps[i].op < r->ops + r->nr_initial;
}

static bool has_old(const struct image_step *s)
{
	return s->part != IMAGE_NEW_NAME;
}

static bool has_new(const struct image_step *s)
{
	return s->op->kind == RECORD_RENAME && s->part != IMAGE_OLD_NAME;
}

/* @name NULL: any in @dir. */
static bool touches(const struct image_step *s, int dir, const char *name)
{
	return (has_old(s) && s->op->dir == dir && (!name || !strcmp(s->op->name, name))) ||
	       (has_new(s) && s->op->new_dir == dir && (!name || !strcmp(s->op->new_name, name)));
}

bool steps_share_name(const struct image_step *a, const struct image_step *b)
{
	return (has_old(a) && touches(b, a->op->dir, a->op->name)) ||
	       (has_new(a) && touches(b, a->op->new_dir, a->op->new_name));
}

static bool covers(const struct record_op *sync, const struct image_step *s)
{
	if (sync->sync == BACKING_SYNC_FS)
		return true;
	if (step_is_name(s))
		return touches(s, sync->inode, NULL);
	return s->op->inode == sync->inode && (step_is_data(s) || sync->sync != BACKING_SYNC_DATA);
}

/*
 * What else has to be durable if steps[i] is: the new name of a file whose old one is gone, and
 * all that happened before to the names of a rename that cannot be half done.
 */
static void cover_causes(struct image_step *steps, size_t i)
{
	const struct image_step *s = &steps[i];
	size_t j;

	if (s->part == IMAGE_OLD_NAME)
		steps[i - 1].durable = true;
	if (s->op->kind != RECORD_RENAME || s->part != IMAGE_WHOLE || s->op->dir == s->op->new_dir)
		return;
	for (j = 0; j < i; j++)
		if (step_is_name(&steps[j]) && steps_share_name(s, &steps[j]))
			steps[j].durable = true;
}

void steps_sync(struct image_step *steps, size_t at, const struct record *r)
{
	const struct record_op *sync = steps[at].op;
	const struct record_op *from = r->ops + sync->from, *to = r->ops + sync->to;
	size_t i;

	for (i = 0; i < at; i++) {
		struct image_step *s = &steps[i];

		if (s->op < from || s->op >= to || !covers(sync, s))
			continue;
		s->durable = true;
		if (sync->sync != BACKING_SYNC_DATA)
			s->times_durable = true;
	}
	for (i = at; i-- > 0;)
		if (steps[i].durable && step_is_name(&steps[i]))
			cover_causes(steps, i);
}

void steps_sync_all(struct image_step *steps, size_t nr, const struct record *r)
{
	size_t i;

	steps_begin(steps, nr, r);
	for (i = 0; i < nr; i++)
		if (steps[i].op->kind == RECORD_SYNC)
			steps_sync(steps, i, r);
}

bool steps_any_pending(const struct image_step *steps, size_t nr, int dir, const char *name)
{
	size_t i;

	for (i = 0; i < nr; i++)
		if (!steps[i].durable && step_is_name(&steps[i]) && touches(&steps[i], dir, name))
			return true;
	return false;
}

size_t step_blocks(const struct image_step *s)
{
	size_t off = (size_t)s->op->off;

	if (!s->op->len)
		return 0;
	return (off + s->op->len - 1) / IMAGE_BLOCK - off / IMAGE_BLOCK + 1;
}

static uint64_t next_random(uint64_t *random, uint64_t below)
{
	*random = mix(*random, 1);
	return *random % below;
}

struct taken step_take_random(const struct image_step *s, unsigned eighths, uint64_t *random)
{
	struct taken t = {TAKE_ALL, 0, 0};

	if (next_random(random, 8) < eighths)
		return t;
	t.how = TAKE_NONE;
	if (s->op->kind == RECORD_WRITE && s->op->len)
		t.how += next_random(random, 4);
	if (t.how == TAKE_FIRST)
		t.blocks = next_random(random, step_blocks(s));
	t.seed = *random;
	return t;
}
