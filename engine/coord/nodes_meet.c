/* SPDX-License-Identifier: MIT */
/*
 * A node that mounts checks whether it can work together with the nodes that live. The watcher has
 * not started yet, so the list of nodes needs no lock here. No lease is removed, except by
 * nodes_end_before.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "engine/base/cleanup.h"
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/wait.h"
#include "engine/coord/nodes_inside.h"

/*
 * In lease times: how long a mount waits to see whether a node that differs lives. Then it fails
 * with ETIMEDOUT.
 */
#define MEET_MAX   10
#define NAP_MAX_NS (200 * NSEC_PER_MSEC)

/* Ids of a listing: all of them, or some by chance, each with the same chance. */
struct sample {
	const struct nodes *ns;
	char (*ids)[COORD_NODE_MAX];
	size_t nr, max, met;
};

static int grow(struct sample *a)
{
	size_t max = a->max ? 2 * a->max : NODES_MEET;
	void *more = realloc(a->ids, max * sizeof(*a->ids));

	if (!more)
		return -ENOMEM;
	a->ids = more;
	a->max = max;
	return 0;
}

static int meet_one(void *arg, const char *id)
{
	struct sample *a = arg;
	uint32_t chance = 0;
	size_t at;

	if (!strcmp(id, a->ns->id))
		return 0;
	at = a->met++;
	if (at >= NODES_MEET && !a->ns->options.label_given) {
		if (getrandom(&chance, sizeof(chance), 0) != sizeof(chance))
			return -EIO;
		at = chance % a->met;
		if (at >= NODES_MEET)
			return 0;
	}
	if (at >= a->max && grow(a))
		return -ENOMEM;
	memcpy(a->ids[at], id, COORD_NODE_MAX);
	if (at >= a->nr)
		a->nr = at + 1;
	return 0;
}

/* True if the lease is of an earlier mount with our label, whose lock this mount now holds. */
static bool is_predecessor(const struct nodes *ns, const struct lease_facts *f)
{
	return *f->boot && !strcmp(f->boot, ns->self.boot) && *f->place &&
	       !strcmp(f->place, ns->self.place) && !strcmp(f->label, ns->self.label);
}

static bool takes_label(const struct nodes *ns, const struct lease_facts *f)
{
	return ns->options.label_given && !strcmp(f->label, ns->self.label) &&
	       strcmp(f->boot, ns->self.boot) != 0;
}

/* Why this node could not mount if @s were alive: -errno with @e filled; or 0. */
static int objection(const struct nodes *ns, const struct seen *s, struct error *e)
{
	const struct lease_facts *f = &s->facts;
	const char *label = *f->label ? f->label : s->id, *host = *f->host ? f->host : "?";

	if (f->protocol != ns->self.protocol && !FAULT(VERSION_IGNORED))
		return FAIL(e, EPROTO, NODE_PROTOCOL, label, host, ns->backing, f->protocol,
			    (int)ns->self.protocol);
	if (strcmp(f->rules, ns->self.rules) != 0)
		return FAIL(e, EPROTO, NODE_RULES, label, host, ns->backing);
	if (takes_label(ns, f))
		return FAIL(e, EBUSY, NODE_LABEL_ELSEWHERE, label, host);
	return 0;
}

static void nap(struct nodes *ns)
{
	uint64_t ns_long = nodes_look_every(ns) < NAP_MAX_NS ? nodes_look_every(ns) : NAP_MAX_NS;

	if (ns->options.by_hand)
		nodes_renew(ns);
	else
		wait_ns(ns_long);
	if (ns->options.waits)
		ns->options.waits(ns->options.arg);
}

static void tell_wait(const struct nodes *ns, struct seen *s)
{
	char text[MESSAGE_MAX];

	s->told = true;
	MESSAGE(text, NODE_WAITS, ns->backing, *s->facts.label ? s->facts.label : s->id,
		*s->facts.host ? s->facts.host : "?",
		(unsigned)(nodes_patience(ns, s) / NSEC_PER_SEC));
	log_warn("%s", text);
}

static int first_look(struct nodes *ns, const char *id)
{
	struct seen *s;

	lock_take(&ns->lock);
	s = nodes_seen(ns, id);
	lock_drop(&ns->lock);
	if (!s)
		return -ENOMEM;
	nodes_look_at(ns, s);
	if (s->ever && is_predecessor(ns, &s->facts)) {
		s->gone = s->dead = true;
		if (ns->nr_before < BEFORE_MAX)
			memcpy(ns->before[ns->nr_before++], id, COORD_NODE_MAX);
	}
	s->curious = s->ever && !s->gone;
	return 0;
}

/*
 * 1: not all nodes are judged yet. The first that objects and is known to live decides. The lease
 * of a dead node stays, for clear_up: without it a later mount would take longer to tell that the
 * node is dead. The node may also have been held up only, and go on with an open checkpoint.
 */
static int settle(struct nodes *ns, bool first, struct error *e)
{
	struct list *at;
	int open = 0;

	list_for_each (at, &ns->seen) {
		struct seen *s = container_of(at, struct seen, link);
		int err;

		if (!s->curious || s->gone)
			continue;
		if (!first)
			nodes_look_at(ns, s);
		err = objection(ns, s, e);
		if (err && s->changed)
			return err;
		/* A node that mounts just now has made its lease, and writes the text next. */
		if (err && !s->dead && !s->told && (s->len || !first))
			tell_wait(ns, s);
		if (err && !s->dead)
			open = 1;
	}
	return open;
}

int nodes_meet(struct nodes *ns, struct error *e)
{
	struct sample a = {.ns = ns};
	int err = ns->options.coord->lease_list(ns->options.coord_arg, meet_one, &a);
	uint64_t deadline = clock_mono_ns() + MEET_MAX * ns->lease_ns;
	size_t i;

	for (i = 0; !err && i < a.nr; i++)
		err = first_look(ns, a.ids[i]);
	free(a.ids);
	if (err)
		return FAIL(e, -err, NODE_NO_LEASE, ns->backing, strerror(-err));
	/* Even where the storage of the leases fails the wait ends, though not soon. */
	for (err = settle(ns, true, e); err == 1 && clock_mono_ns() < deadline;
	     err = settle(ns, false, e))
		nap(ns);
	return err == 1 ? FAIL(e, ETIMEDOUT, NODE_NO_LEASE, ns->backing, strerror(ETIMEDOUT)) : err;
}

bool nodes_end_before(struct nodes *ns)
{
	bool any = ns->nr_ended < ns->nr_before;

	for (; ns->nr_ended < ns->nr_before; ns->nr_ended++)
		ns->options.coord->lease_end(ns->options.coord_arg, ns->before[ns->nr_ended]);
	return any;
}
