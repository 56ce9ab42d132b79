/* SPDX-License-Identifier: MIT */
#include "engine/names/names.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/backing/dirwalk.h"
#include "engine/base/cleanup.h"
#include "engine/calls/pointers.h"
#include "engine/format/names.h"
#include "engine/journal/journal.h"
#include "engine/rule/reserved_names.h"
#include "engine/save/checkpoint.h"

bool names_look_saved(struct units *us, const struct inode_id *dir, const char *name, pid_t viewer,
		      struct name_shown *s)
{
	struct name_shown own, *to = s ? s : &own;

	*to = (struct name_shown){.as = SHOWN_NOTHING, .pin = -1};
	if (us)
		to->file = units_find(us, dir, name, viewer);
	if (us && !to->file)
		to->checkpoint = checkpoints_find(us, dir, name);
	if (to->file || to->checkpoint)
		to->as = to->file ? SHOWN_FILE : SHOWN_CHECKPOINT;
	if (!s)
		names_put(to);
	return to->as != SHOWN_NOTHING;
}

struct checkpoint *names_checkpoint(struct units *us, const struct inode_id *dir, const char *name)
{
	struct name_shown s;

	names_look_saved(us, dir, name, 0, &s);
	generation_put(s.file);
	return s.checkpoint;
}

int names_look(struct units *us, struct backing *b, const struct place *at, pid_t viewer,
	       struct name_shown *s)
{
	int err = -ENOENT;

	if (names_look_saved(us, &at->id, at->name, viewer, s))
		return 0;
	if (name_is_reserved(at->name) && !name_is_kept_in_units(at->name)) {
		s->as = SHOWN_RESERVED;
		return 0;
	}
	if (us && removals_hide(us, &at->id, at->name))
		s->as = SHOWN_REMOVED;
	else
		err = at->dir < 0 ? at->dir : backing_stat_at(b, at->dir, at->name, &s->stx);
	if (!err)
		s->as = SHOWN_ON_BACKING;
	if (err != -ENOENT)
		return err;
	if (us)
		s->pin = held_pin(us, &at->id, at->name);
	if (s->pin >= 0)
		s->as = SHOWN_POINTER;
	return 0;
}

void names_put(struct name_shown *s)
{
	generation_put(s->file);
	checkpoint_put(s->checkpoint);
	if (s->pin >= 0)
		close(s->pin);
}

int names_look_behind(struct units *us, struct backing *b, const struct place *at,
		      struct statx *stx)
{
	return removals_hide(us, &at->id, at->name) ? -ENOENT
						    : backing_stat_at(b, at->dir, at->name, stx);
}

int names_check_empty(struct units *us, struct backing *b, const struct place *at)
{
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	__cleanup_fd int pin = backing_pin(b, at->dir, at->name);
	struct inode_id id;
	struct statx stx;
	int err = pin < 0 ? pin : backing_stat(b, pin, &stx);

	if (err)
		return err;
	id = inode_id_of(&stx);
	dirwalk_begin(&w, b, pin);
	return removals_next_seen(us, &id, &w) ? -ENOTEMPTY : w.err;
}

/* --- listings --- */

static void add(void *listed, const char *name, const struct inode_id *id, mode_t type)
{
	struct names_listed *l = listed;
	struct name_listed *more = realloc(l->names, (l->nr + 1) * sizeof(*more));

	if (!more)
		return;
	l->names = more;
	more[l->nr] = (struct name_listed){.name = strdup(name), .id = *id, .type = type};
	if (more[l->nr].name)
		l->nr++;
}

void names_list(struct units *us, const struct inode_id *dir, struct names_listed *l)
{
	names_list_end(l);
	if (us)
		units_list(us, dir, add, l);
}

void names_list_end(struct names_listed *l)
{
	while (l->nr)
		free(l->names[--l->nr].name);
	free(l->names);
	l->names = NULL;
}

void names_read(struct units *us, struct names_listed *l)
{
	l->unhidden = us ? removals_unhidden(us) : 0;
}

/* True also if it was hidden when the names were read, and is gone since. */
static bool is_removed(struct units *us, struct backing *b, const struct names_listed *l,
		       const struct place *at)
{
	struct statx stx;

	return removals_hide(us, &at->id, at->name) ||
	       (removals_unhidden(us) != l->unhidden &&
		backing_stat_at(b, at->dir, at->name, &stx) == -ENOENT);
}

bool names_list_shows(struct units *us, struct backing *b, const struct names_listed *l,
		      const struct place *at)
{
	size_t i;

	if (name_is_reserved(at->name))
		return false;
	for (i = 0; i < l->nr; i++)
		if (!strcmp(l->names[i].name, at->name))
			return false;
	return !us || !is_removed(us, b, l, at);
}
