/* SPDX-License-Identifier: MIT */
/*
 * Which other nodes live, judged by their leases. The watcher thread looks at them. The lock guards
 * the entries, and is dropped during I/O; only the watcher frees one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/log.h"
#include "engine/base/wait.h"
#include "engine/coord/nodes_inside.h"

#define REMOVED_AFTER 4 /* in lease times: such a node will not come back soon */

static struct seen *find(struct nodes *ns, const char *id)
{
	struct list *at;

	list_for_each (at, &ns->seen) {
		struct seen *s = container_of(at, struct seen, link);

		if (!strcmp(s->id, id))
			return s;
	}
	return NULL;
}

struct seen *nodes_seen(struct nodes *ns, const char *id)
{
	struct seen *s = find(ns, id);

	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	snprintf(s->id, sizeof(s->id), "%s", id);
	list_append(&ns->seen, &s->link);
	return s;
}

void nodes_forget_all(struct nodes *ns)
{
	while (!list_empty(&ns->seen)) {
		struct seen *s = container_of(ns->seen.next, struct seen, link);

		list_del(&s->link);
		free(s);
	}
}

/* --- judging --- */

/* Its lease time, as it says, or ours: the longer. */
static uint64_t lease_of(const struct nodes *ns, const struct seen *s)
{
	return s->facts.lease_ns > ns->lease_ns ? s->facts.lease_ns : ns->lease_ns;
}

uint64_t nodes_patience(const struct nodes *ns, const struct seen *s)
{
	return lease_of(ns, s) + (s->ever ? 0 : NODES_UNSEEN_S * NSEC_PER_SEC);
}

/*
 * How much of the time since the last look counts. None unless all renewals and looks have
 * succeeded since; of a long time only a part, since this node does not know what happened during
 * its own pause.
 */
static uint64_t counts(const struct nodes *ns, const struct seen *s, uint64_t begun)
{
	uint64_t most = ns->lease_ns / 3, gap = begun - s->looked_ns;

	if (!s->looked_ns || s->outages != ns->outages || ns->renew_err ||
	    begun - ns->renewed_ns >= ns->lease_ns)
		return 0;
	return gap < most ? gap : most;
}

static void take_text(struct seen *s, const char *text, size_t len)
{
	bool same = s->ever && !s->gone && s->len == len && !memcmp(s->text, text, len);

	if (same)
		return;
	s->changed = s->ever;
	s->lived_ns = s->ever ? clock_mono_ns() : 0;
	s->found_ns = s->found_ns ? s->found_ns : clock_mono_ns();
	s->ever = true;
	s->gone = s->removed = false;
	s->unchanged_ns = 0;
	memcpy(s->text, text, len);
	s->len = len;
	lease_facts_read(&s->facts, text, len);
}

/*
 * True if a missing lease that was never seen is over. After an outage of the service all leases
 * may have run out, and the nodes that live make theirs anew.
 */
static bool is_surely_over(const struct nodes *ns)
{
	return ns->options.coord->lease_is_sure &&
	       (!ns->failed_ns || clock_mono_ns() - ns->failed_ns >= ns->lease_ns);
}

/* @n: what lease_read said of @s, between @begun and now. lock: lock. */
static void judge(struct nodes *ns, struct seen *s, const char *text, ssize_t n, uint64_t begun)
{
	if (begun < s->looked_ns)
		return; /* another thread has looked meanwhile */
	if (n < 0 && n != -ENOENT && n != -EPERM) {
		s->looked_ns = 0; /* time until the next look does not count */
		return;
	}
	s->unchanged_ns += counts(ns, s, begun);
	s->looked_ns = clock_mono_ns();
	s->outages = ns->outages;
	if (n >= 0)
		take_text(s, text, (size_t)n);
	else if (s->ever || n == -EPERM || is_surely_over(ns))
		s->gone = true;
	s->dead = s->gone || s->unchanged_ns >= nodes_patience(ns, s);
}

void nodes_look_at(struct nodes *ns, struct seen *s)
{
	char text[COORD_LEASE_MAX];
	uint64_t begun = clock_mono_ns();
	ssize_t n = ns->options.coord->lease_read(ns->options.coord_arg, s->id, text, sizeof(text));

	LOCK_SCOPE(&ns->lock);
	judge(ns, s, text, n, begun);
}

/* --- the watcher --- */

/* Removes a lease that no node ends or renews; else it would stay for ever. */
static void clear_up(struct nodes *ns, struct seen *s)
{
	{
		LOCK_SCOPE(&ns->lock);
		/* if the last look failed, the node may be back */
		if (!s->looked_ns || s->removed || s->gone || !s->ever ||
		    s->unchanged_ns < REMOVED_AFTER * nodes_patience(ns, s))
			return;
		log_info("node '%s' of host %s has been dead for long: its lease is removed",
			 s->facts.label, s->facts.host);
		s->removed = true;
	}
	ns->options.coord->lease_end(ns->options.coord_arg, s->id); /* where this node may */
}

/* True if there is more to learn about @s. */
static bool wanted(const struct nodes *ns, const struct seen *s, uint64_t now)
{
	return now < s->until_ns || now < ns->interest_ns ||
	       (s->curious && !s->changed && !s->gone && !s->removed);
}

struct listed {
	struct nodes *ns;
	size_t nr;
};

static int list_one(void *arg, const char *id)
{
	struct listed *l = arg;

	if (!strcmp(id, l->ns->id))
		return 0;
	LOCK_SCOPE(&l->ns->lock);
	nodes_seen(l->ns, id);
	return ++l->nr >= OTHERS_MAX;
}

static void list_others(struct nodes *ns)
{
	struct listed l = {.ns = ns};
	int err;

	if (ns->listed_ns && clock_mono_ns() - ns->listed_ns < ns->lease_ns / 3)
		return;
	err = ns->options.coord->lease_list(ns->options.coord_arg, list_one, &l);
	if (err >= 0)
		ns->listed_ns = clock_mono_ns();
}

void nodes_look_locked(struct nodes *ns)
{
	struct list *at, *next;

	if (clock_mono_ns() < ns->interest_ns) {
		lock_drop(&ns->lock);
		list_others(ns);
		lock_take(&ns->lock);
	}
	list_for_each_safe (at, next, &ns->seen) {
		struct seen *s = container_of(at, struct seen, link);

		if (ns->stop)
			break;
		if (wanted(ns, s, clock_mono_ns())) {
			lock_drop(&ns->lock);
			nodes_look_at(ns, s);
			clear_up(ns, s);
			lock_take(&ns->lock);
			next = at->next; /* others may have been added */
		} else {
			list_del(&s->link);
			free(s);
		}
	}
}

const char *nodes_label(struct nodes *ns, const char *id, char buf[NODES_LABEL_MAX])
{
	LOCK_SCOPE(&ns->lock);
	const struct seen *s = find(ns, id);
	const char *label = !strcmp(id, ns->id) ? ns->self.label : s ? s->facts.label : "";

	snprintf(buf, NODES_LABEL_MAX, "%s", *label ? label : id);
	return buf;
}

bool nodes_idle_locked(struct nodes *ns)
{
	return list_empty(&ns->seen) && clock_mono_ns() >= ns->interest_ns;
}

bool nodes_alive(struct nodes *ns, const char *id)
{
	uint64_t now = clock_mono_ns();
	struct seen *s;

	if (*ns->alone || !strcmp(id, ns->id))
		return true;
	LOCK_SCOPE(&ns->lock);
	s = find(ns, id);
	if (!s) {
		s = nodes_seen(ns, id);
		waitq_wake(&ns->wake_watcher);
	}
	if (s)
		s->until_ns = now + 4 * ns->lease_ns;
	return !s || !s->dead;
}

void nodes_heard(struct nodes *ns, const char *id)
{
	struct seen *s;
	LOCK_SCOPE(&ns->lock);

	s = find(ns, id);
	if (!s)
		return;
	s->unchanged_ns = 0;
	s->lived_ns = clock_mono_ns();
	s->gone = s->dead = false;
}

bool nodes_shows_life(struct nodes *ns, const char *id)
{
	const struct seen *s;

	if (*ns->alone || !strcmp(id, ns->id))
		return true;
	LOCK_SCOPE(&ns->lock);
	s = find(ns, id);
	return s && s->changed && !s->dead;
}

uint64_t nodes_lived_ns(struct nodes *ns, const char *id)
{
	LOCK_SCOPE(&ns->lock);
	const struct seen *s = find(ns, id);

	return s ? s->lived_ns : 0;
}

uint64_t nodes_served_ns(struct nodes *ns, const char *id)
{
	LOCK_SCOPE(&ns->lock);
	const struct seen *s = find(ns, id);

	return !s ? 0 : s->lived_ns ? s->lived_ns + lease_of(ns, s) : s->found_ns;
}

bool nodes_is_before(const struct nodes *ns, const char *id)
{
	unsigned i;

	for (i = 0; i < ns->nr_before; i++)
		if (!strcmp(ns->before[i], id))
			return true;
	return false;
}

/* False if nobody has looked at @id yet, so that its life is only assumed. */
static bool is_known(struct nodes *ns, const char *id)
{
	const struct seen *s;
	LOCK_SCOPE(&ns->lock);

	s = find(ns, id);
	return !s || s->looked_ns;
}

bool nodes_alive_now(struct nodes *ns, const char *id)
{
	char text[COORD_LEASE_MAX];
	uint64_t begun = clock_mono_ns();
	struct seen *s;
	ssize_t n;

	if (nodes_alive(ns, id) && is_known(ns, id))
		return true;
	n = ns->options.coord->lease_read(ns->options.coord_arg, id, text, sizeof(text));
	LOCK_SCOPE(&ns->lock);
	s = find(ns, id);
	if (s)
		judge(ns, s, text, n, begun);
	return !s || !s->dead;
}

void nodes_name(struct nodes *ns, const char *id, char *name, size_t size)
{
	const struct seen *s;
	LOCK_SCOPE(&ns->lock);

	s = find(ns, id);
	if (s && s->ever)
		snprintf(name, size, "%s (host %s)", s->facts.label, s->facts.host);
	else
		snprintf(name, size, "%s", id);
}
