/* SPDX-License-Identifier: MIT */
#include "engine/liveness/casualty.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/liveness/epoch.h"
#include "engine/liveness/job.h"

int casualties_init(struct casualties *cs)
{
	list_init(&cs->all);
	return known_init(&cs->heard, false);
}

static void forget(struct casualties *cs, struct casualty *c)
{
	list_del(&c->link);
	cs->nr_kept--;
	process_put(c->process);
	free(c->path);
	free(c);
}

/*
 * True if the job of @p is known. An unread process may be of any job, and a session has several.
 */
static bool has_job(const struct process *p)
{
	return p->read && !p->weak;
}

static bool is_of_job(const struct casualty *c, const struct process *p)
{
	return !c->alone && has_job(p) && epoch_same(c->process, p);
}

/* True if @p, which has heard of those up to @up_to, has to hear of @c. */
static bool is_for(const struct casualty *c, const struct process *p, uint64_t up_to)
{
	if (c->alone)
		return c->process == p;
	return c->nr > up_to && has_job(p) &&
	       epoch_order(p, c->process->key, c->at_ns) == EPOCH_SAME;
}

/* True if a process that @c is for lives, as far as is known. */
static bool is_awaited(const struct casualty *c)
{
	if (c->alone)
		return c->process->visible && !process_has_ended(c->process);
	return job_lives(c->process);
}

/* Forgets what @c, the newest, replaces: a process has heard of all older ones, or hears of @c. */
static void forget_older(struct casualties *cs, struct casualty *c)
{
	struct list *l, *tmp;

	list_for_each_safe (l, tmp, &cs->all) {
		struct casualty *o = container_of(l, struct casualty, link);

		if (o == c || o->alone != c->alone)
			continue;
		if (c->alone ? o->process != c->process : !is_of_job(o, c->process))
			continue;
		c->at_ns = c->at_ns > o->at_ns ? c->at_ns : o->at_ns;
		forget(cs, o);
	}
}

/* Of those that no process waits for, only the last are kept. */
static void make_room(struct casualties *cs)
{
	struct list *l, *tmp;

	list_for_each_safe (l, tmp, &cs->all) {
		struct casualty *c = container_of(l, struct casualty, link);

		if (cs->nr_kept <= CASUALTIES_KEPT)
			return;
		if (!is_awaited(c))
			forget(cs, c);
	}
}

void casualty_add(struct casualties *cs, struct process *p, const char *path, int err,
		  uint64_t at_ns)
{
	struct casualty *c = calloc(1, sizeof(*c));

	if (!c)
		return; /* its job hears of it by the checkpoint, if it looks */
	c->process = process_get(p);
	c->path = strdup(path);
	c->err = err;
	c->at_ns = at_ns;
	c->alone = !has_job(p) || !epoch_started_before(p, at_ns);
	c->nr = ++cs->nr;
	list_append(&cs->all, &c->link);
	cs->nr_kept++;
	forget_older(cs, c);
	make_room(cs);
}

/* Takes error and path of @c, unless an older one has given them. */
static void take(const struct casualty *c, int *err, char *path, size_t size)
{
	if (!*err && c->path)
		snprintf(path, size, "%s", c->path);
	*err = *err ? *err : c->err;
}

int casualty_tell(struct casualties *cs, struct process *p, char *path, size_t size)
{
	uint64_t *heard = known_find(&cs->heard, p, 0), up_to = heard ? *heard : 0;
	struct list *l, *tmp;
	bool of_job = false;
	int err = 0;

	*path = '\0';
	list_for_each_safe (l, tmp, &cs->all) {
		struct casualty *c = container_of(l, struct casualty, link);

		if (!is_for(c, p, up_to))
			continue;
		take(c, &err, path, size);
		of_job = of_job || !c->alone;
		if (c->alone)
			forget(cs, c);
	}
	heard = of_job ? known_make(&cs->heard, p, 0) : NULL;
	if (heard)
		*heard = cs->nr;
	return err;
}

bool casualty_is_owed(const struct casualties *cs, struct process *p)
{
	const uint64_t *heard = known_find(&cs->heard, p, 0);
	uint64_t up_to = heard ? *heard : 0;
	struct list *l;

	if (process_has_ended(p))
		return false;
	list_for_each (l, &cs->all) {
		if (is_for(container_of(l, struct casualty, link), p, up_to))
			return true;
	}
	return false;
}

void casualties_finish(struct casualties *cs)
{
	while (cs->all.next && !list_empty(&cs->all))
		forget(cs, container_of(cs->all.next, struct casualty, link));
	known_finish(&cs->heard);
}
