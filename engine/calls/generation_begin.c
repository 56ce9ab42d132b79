/* SPDX-License-Identifier: MIT */
/*
 * Begins generations: creates the staging file, and enters the generation in units->live.
 *
 * Takes the units' lock, and makes no call to the backing with it. It does not end generations
 * (generation_end.c): a generation must have ended before its last reference is put.
 */
#include "engine/calls/generation_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/backing/take_over.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/journal/journal_removal.h"

void generation_unstage(struct generation *g, int dir)
{
	struct backing b = backing_owner(g->units->contents->backing, &g->owner);
	int err;

	if (g->checkpoint)
		return; /* its file lies under its name in the checkpoint's staging directory */
	/* With the daemon's rights if need be: the maker's groups may be gone. */
	err = backing_unlink(&b, dir, g->staging, false);
	if (err && err != -ENOENT)
		log_warn("'%s' cannot be removed: %s. It is the remains of a save; `ckptfs fsck` "
			 "clears "
			 "it away",
			 g->staging, strerror(-err));
}

static int stage(struct generation *g, int dir, mode_t mode, int old, bool copy)
{
	struct units *us = g->units;
	struct backing b = backing_for(us->contents->backing, &g->owner);
	struct backing maker = backing_maker(&b, &g->owner);
	struct statx stx = {0}, was;
	bool created;
	int fd, err;

	fd = backing_create(&maker, dir, g->staging, O_RDWR | O_EXCL, mode, &created);
	if (fd < 0)
		return fd;
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	backing_lock(&b, fd, false); /* for clear_dir.c */
	err = old >= 0 ? backing_stat(&b, old, &was) : 0;
	if (!err && old >= 0) {
		/* As the daemon: attributes stay as they were, even if another user saves. */
		err = backing_take_over(&b, old, fd, &was, copy);
		g->inherited = copy;
	}
	if (!err) {
		err = backing_stat_at(&b, dir, g->target.name, &stx);
		g->replaces = !err;
		g->replaced = inode_id_of(&stx);
		err = err == -ENOENT ? 0 : err;
	}
	if (!err)
		err = backing_stat(&b, fd, &stx);
	if (err) {
		close(fd);
	} else {
		g->id = inode_id_of(&stx);
		g->content =
			content_create(us->contents, fd, &g->id, stx.stx_size, &g->owner, true);
		err = g->content ? 0 : -ENOMEM;
	}
	if (err)
		generation_unstage(g, dir);
	return err;
}

static struct generation *new_generation(struct units *us, const struct caller *c,
					 const struct inode_id *dir, const char *name)
{
	struct generation *g = calloc(1, sizeof(*g));
	enum live_key key;

	if (!g)
		return NULL;
	g->units = us;
	g->owner = *c;
	g->refs = 1;
	list_init(&g->link);
	list_init(&g->sealed);
	list_init(&g->beside);
	for (key = 0; key < LIVE_KEYS; key++)
		list_init(&g->found_by[key].link);
	list_init(&g->writers);
	list_init(&g->expected);
	snprintf(g->target.name, sizeof(g->target.name), "%s", name);
	g->target.dir_id = *dir;
	g->target.dir = -1;
	return g;
}

int generation_begin(struct units *us, const struct caller *c, const struct place *at, mode_t mode,
		     int old, bool copy, pid_t opener, struct generation **out)
{
	struct generation *g = new_generation(us, c, &at->id, at->name), *other;
	int err;

	*out = NULL;
	if (!g)
		return -ENOMEM;
	g->pointer = rules_is_pointer(us->rules, at->name);
	if (rules_single(us->rules, at->name))
		g->maker = units_process(us, c);
	/* Ranks on other nodes learn of the close by a barrier, then read it on the backing. */
	g->durable_calls = g->maker && accord_is_for(us, g->maker);
	g->target.dir = backing_dup(us->contents->backing, at->dir);
	err = g->target.dir < 0 ? g->target.dir : staging_new(g->staging);
	if (!err)
		err = WITH_ROOM(us, c, &at->id, stage(g, at->dir, mode, old, copy));
	if (err) {
		generation_put(g);
		return err;
	}
	{
		LOCK_SCOPE(&us->lock);
		other = opener ? units_find_locked(us, &at->id, at->name) : NULL;
		if (!other || !generation_expect_locked(other, opener)) {
			g->opened_ns = g->touched_ns = clock_mono_ns();
			live_add(&us->live, g);
			if (g->maker)
				removal_note_saver_locked(us, g->maker, &at->id);
			if (!g->pointer)
				generation_show_locked(g);
			if (opener)
				generation_expect_locked(g, opener);
			g->refs++; /* the caller's; the first is the list's */
			*out = g;
			return 0;
		}
	}
	generation_unstage(g, at->dir);
	generation_put(g);
	return -ESTALE;
}

int generation_begin_in(struct checkpoint *cp, const struct caller *c, int rank,
			const struct inode_id *dir, const char *name, const char *rel, int fd,
			bool inherits, struct generation **out)
{
	struct units *us = cp->units;
	struct backing b = backing_for(us->contents->backing, &cp->owner);
	struct generation *g = new_generation(us, c, dir, name), *other;
	struct statx stx;
	int err = g ? backing_stat(&b, fd, &stx) : -ENOMEM;

	*out = NULL;
	if (!err)
		err = staging_new(g->staging);
	if (!err) {
		g->id = inode_id_of(&stx);
		g->inherited = inherits;
		g->rank = rank;
		g->rel = strdup(rel);
		g->content =
			content_stage_in_place(us->contents, take_fd(&fd), &g->id, stx.stx_size, c);
		err = g->rel && g->content ? 0 : -EIO;
	}
	if (fd >= 0)
		close(fd);
	if (err) {
		generation_put(g);
		return err;
	}
	checkpoint_get(cp);
	g->checkpoint = cp;
	if (stx.stx_size) {
		struct tensor_map *known;

		if (checkpoint_by_handle(cp, &g->id, &known))
			content_set_tensors(g->content, known);
		tensor_map_put(known);
	}
	{
		LOCK_SCOPE(&us->lock);
		other = units_find_inode_locked(us, &g->id);
		if (!other) {
			g->opened_ns = g->touched_ns = clock_mono_ns();
			live_add(&us->live, g);
			g->refs++;
		}
		*out = other ? other : g;
	}
	if (other)
		generation_put(g);
	return 0;
}
