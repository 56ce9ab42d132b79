/* SPDX-License-Identifier: MIT */
/* A log as steps that can be done or not, and which of them a sync makes durable. */
#ifndef TESTS_BACKING_STEPS_H
#define TESTS_BACKING_STEPS_H

#include "tests/backing/image.h"

/* One for each op, but two for the rename of a file to another directory. To be freed. */
struct image_step *steps_create(const struct record *r, size_t *nr);

/* Only what made the initial tree is durable. */
void steps_begin(struct image_step *steps, size_t nr, const struct record *r);

/* steps[at] is a sync, and has returned. */
void steps_sync(struct image_step *steps, size_t at, const struct record *r);

/* The same for all syncs among the steps, from the beginning. */
void steps_sync_all(struct image_step *steps, size_t nr, const struct record *r);

/* True if a change to @name in directory @dir is not durable; @name NULL: to any name there. */
bool steps_any_pending(const struct image_step *steps, size_t nr, int dir, const char *name);

/* What is left of @s, by chance: all of it in @eighths of 8 cases. */
struct taken step_take_random(const struct image_step *s, unsigned eighths, uint64_t *random);

/* How many blocks a write touches. */
size_t step_blocks(const struct image_step *s);

/* Have two changes to names a name in common? */
bool steps_share_name(const struct image_step *a, const struct image_step *b);

static inline bool step_is_name(const struct image_step *s)
{
	return s->op->kind <= RECORD_RENAME;
}

static inline bool step_is_data(const struct image_step *s)
{
	return s->op->kind == RECORD_WRITE || s->op->kind == RECORD_TRUNCATE;
}

static inline bool step_is_point(const struct image_step *s)
{
	return s->op->kind == RECORD_SYNC || s->op->kind == RECORD_MARK;
}

#endif
