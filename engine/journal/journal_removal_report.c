/* SPDX-License-Identifier: MIT */
/*
 * Reports removals that wait, and for what each of them waits.
 *
 * Takes the units' lock, and asks for paths without it. Changes nothing.
 */
#include "engine/journal/journal_removal_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"

/* What is reported of a removal, copied with the lock held: its path is asked for without. */
struct told {
	int dir; /* a duplicate */
	char name[NAME_MAX + 1], waits_for[MESSAGE_MAX];
	struct process *process; /* referenced */
	const char *state;
	uid_t uid;
	uint64_t since_ns;
};

/* Puts into words what @r waits for. */
static void waits_for_locked(const struct units *us, const struct removal *r, char *buf,
			     size_t size)
{
	uint64_t left = r->since_ns + us->order_ns - clock_mono_ns();

	if (!r->whole && !r->emptied)
		snprintf(buf, size,
			 "the rest of it to be removed, too; else that is a change to it, made "
			 "after %llu s of silence",
			 (unsigned long long)(us->quiet_ns / NSEC_PER_SEC));
	else if (!r->due)
		snprintf(buf, size,
			 "the commit of the next checkpoint of its job beside it; if none comes "
			 "within %llu s, it is kept",
			 (unsigned long long)(left > us->order_ns ? 0 : left / NSEC_PER_SEC));
	else if (r->named)
		snprintf(buf, size, "a pointer that still names it");
	else
		snprintf(buf, size, "its turn: a newer one of its job is committed");
}

static void tell_locked(const struct units *us, const struct removal *r, struct told *t)
{
	t->dir = dup(r->dir);
	memcpy(t->name, r->name, sizeof(t->name));
	t->process = process_get(removal_last_part(r)->process);
	t->state = r->whole ? "removed" : "removing";
	t->uid = removal_last_part(r)->owner.uid;
	t->since_ns = r->since_ns;
	waits_for_locked(us, r, t->waits_for, sizeof(t->waits_for));
}

/* Releases @t. */
static json_t *describe(struct units *us, struct told *t)
{
	char path[PATH_MAX];
	json_t *o;

	units_path(us, t->dir, t->name, path, sizeof(path));
	if (t->dir >= 0)
		close(t->dir);
	o = json_pack("{s:o, s:s, s:I, s:o, s:f, s:s}", "path", json_text(path), "state", t->state,
		      "uid", (json_int_t)t->uid, "job", json_text(t->process->key), "age_s",
		      (double)(clock_mono_ns() - t->since_ns) / NSEC_PER_SEC, "waits_for",
		      t->waits_for);
	process_put(t->process);
	return o;
}

json_t *removals_to_json(struct units *us, uid_t viewer, bool all)
{
	__cleanup_free struct told *told = NULL;
	json_t *list = json_array();
	struct list *l;
	size_t nr = 0, i;
	{
		LOCK_SCOPE(&us->lock);
		told = calloc(atomic_load(&us->nr_removals) + 1, sizeof(*told));
		list_for_each (l, &us->removals) {
			const struct removal *r = container_of(l, struct removal, link);

			if (told && !r->replaced &&
			    (all || removal_last_part(r)->owner.uid == viewer))
				tell_locked(us, r, &told[nr++]);
		}
	}
	for (i = 0; i < nr; i++)
		json_array_append_new(list, describe(us, &told[i]));
	return list;
}

json_t *removal_describe(struct units *us, const struct inode_id *dir, const char *name)
{
	const struct removal *r;
	struct told t;
	{
		LOCK_SCOPE(&us->lock);
		r = removal_find_locked(us, dir, name);
		if (!r || !r->whole)
			return NULL;
		tell_locked(us, r, &t);
	}
	return describe(us, &t);
}
