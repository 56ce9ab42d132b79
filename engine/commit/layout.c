/* SPDX-License-Identifier: MIT */
#include "engine/commit/layout.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/lock.h"
#include "engine/save/units.h"

/* Turns a name into that of its series: "step-20.pt" becomes "step-#.pt". */
static void series_of(const char *name, char out[NAME_MAX + 1])
{
	size_t len = 0;

	while (*name) {
		size_t digits = strspn(name, "0123456789");

		out[len++] = digits ? '#' : *name;
		name += digits ? digits : 1;
	}
	out[len] = '\0';
}

/* True if the name says that the file is one checkpoint among others, not a part of one. */
static bool is_alternative(const char *name)
{
	static const char *const words[] = {"last", "latest", "best", "final"};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(words); i++)
		if (strcasestr(name, words[i]))
			return true;
	return false;
}

/*
 * True if a file called @name tells nothing of a layout: its rule has a pointer that is written
 * last, as TensorFlow's, or the program has yet to rename the file to its final name.
 */
static bool tells_nothing(const struct units *us, const char *name)
{
	const struct rule *r = rules_single(us->rules, name);

	return !r || r->pointers || rule_is_temp(r, name);
}

/* True if one process, or two ranks of one job, saved both files as parts of something. */
static bool belong_together(const struct ended *e, const struct generation *g)
{
	const struct process *maker = g->maker;
	char one[NAME_MAX + 1], other[NAME_MAX + 1];

	if (e->state != GENERATION_COMMITTED || !e->job || e->tgid == 0 ||
	    !same_inode(&e->dir_id, &g->target.dir_id) || strcmp(e->job, maker->key) ||
	    is_alternative(e->name))
		return false;
	series_of(e->name, one);
	series_of(g->target.name, other);
	if (strcmp(one, other))
		return e->tgid == maker->tgid || !maker->weak;
	return e->rank >= 0 && maker->rank >= 0 && e->rank != maker->rank;
}

/* Finds the name of a file that belongs together with @g. */
static bool find_companion_locked(struct generation *g, char name[NAME_MAX + 1])
{
	const struct history *h = &g->units->history;
	uint64_t n;

	for (n = h->nr; n > 0 && n + HISTORY_KEPT > h->nr; n--) {
		const struct ended *e = &h->ring[(n - 1) % HISTORY_KEPT];

		if (!belong_together(e, g) || tells_nothing(g->units, e->name))
			continue;
		memcpy(name, e->name, NAME_MAX + 1);
		return true;
	}
	return false;
}

void layout_notice(struct generation *g)
{
	struct units *us = g->units;
	char name[NAME_MAX + 1], path[PATH_MAX], text[MESSAGE_MAX], *slash;
	bool found;

	if (!g->maker || is_alternative(g->target.name) || tells_nothing(us, g->target.name))
		return;
	{
		LOCK_SCOPE(&us->lock);
		found = find_companion_locked(g, name);
	}
	if (!found)
		return;
	generation_path(g, path, sizeof(path));
	slash = strrchr(path, '/');
	if (slash)
		*slash = '\0';
	else
		snprintf(path, sizeof(path), ".");
	if (failures_noticed(us->notices, g->owner.uid, "layout", path))
		return;
	MESSAGE(text, LAYOUT_UNKNOWN, name, g->target.name, path);
	failures_notice(us->notices, g->owner.uid, "layout", path, text);
}
