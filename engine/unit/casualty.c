/* SPDX-License-Identifier: MIT */
#include "engine/unit/casualty.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/liveness/job.h"

/* @at_ns, which is past, as process->start. */
static uint64_t ticks_at(uint64_t at_ns)
{
	uint64_t tick = NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t now = clock_boot_ns(), ago = clock_mono_ns() - at_ns;

	return (now > ago ? now - ago : 0) / tick;
}

bool casualty_concerns(uint64_t at_ns, const struct process *p)
{
	return p->start < ticks_at(at_ns);
}

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
	return !c->alone && has_job(p) && job_same(c->process, p);
}

/* True if a process that @c is for lives, as far as is known. */
static bool is_awaited(const struct casualty *c)
{
	if (c->alone)
		return c->process->visible && !process_has_ended(c->process);
	return job_lives(c->process);
}

/* What @c, the newest, is for has heard nothing of the one before by now, or all of it. */
static void forget_older(struct casualties *cs, struct casualty *c)
{
	struct list *l, *tmp;

	list_for_each_safe (l, tmp, &cs->all) {
		struct casualty *o = container_of(l, struct casualty, link);

		if (o == c || o->alone != c->alone)
			continue;
		if (c->alone ? o->process != c->process : !is_of_job(o, c->process))
			continue;
		c->ticks = c->ticks > o->ticks ? c->ticks : o->ticks;
		forget(cs, o);
	}
}

/* Of those that nobody waits for only the last are kept. */
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
		return; /* its job learns of it by the checkpoint, if it looks */
	c->process = process_get(p);
	c->path = strdup(path);
	c->err = err;
	c->ticks = ticks_at(at_ns);
	c->alone = !has_job(p) || p->start >= c->ticks;
	c->nr = ++cs->nr;
	list_append(&cs->all, &c->link);
	cs->nr_kept++;
	forget_older(cs, c);
	make_room(cs);
}

/* Takes what @c says of the error, unless an older one has said it. */
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

		if (c->alone && c->process == p) {
			take(c, &err, path, size);
			forget(cs, c);
		} else if (c->nr > up_to && is_of_job(c, p) && p->start < c->ticks) {
			take(c, &err, path, size);
			of_job = true;
		}
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
		const struct casualty *c = container_of(l, struct casualty, link);

		if (c->alone ? c->process == p
			     : c->nr > up_to && is_of_job(c, p) && p->start < c->ticks)
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
