/* SPDX-License-Identifier: MIT */
/*
 * Every order of starts, first calls, deaths and notices of three processes on two hosts, which share
 * a chain of incarnations: no number is given twice, a process is told once of what befell its
 * incarnation and of nothing else, and nobody works on in an incarnation that he did not begin with.
 * long: 300
 * cpu: 40
 */
#include "tests/unit/unit.h"

#include "engine/epoch/epoch.h"

#define HOSTS	   2
#define SLOTS	   3
#define LINKS	   8
#define DEATHS_MAX 2

/* One process of the job at a time. A restart puts another into the slot. */
struct proc {
	bool lives, bound, noticed;
	bool behind;  /* it has to be told before it does anything */
	bool excused; /* L1 or L5: see place() */
	unsigned count;
	uint64_t start, died; /* in steps, as happens in the world */
	uint64_t heard;	      /* the newest epoch when it was told last, or 0 */
	uint64_t nr;
};

struct world {
	uint64_t now; /* each step is one tick */
	struct chain chains[HOSTS];
	struct epoch_link links[LINKS]; /* the records; [nr] */
	/* In steps: the failure that link nr follows, and when that was recorded. */
	uint64_t failed[LINKS], recorded[LINKS];
	uint64_t nr_links;
	struct proc procs[SLOTS];
	unsigned count, nr_deaths, nr_looks;
};

static bool counted;
static unsigned long nr_worlds, nr_reruns, nr_excused;

static unsigned trail[32], nr_trail; /* the steps to the world at hand */

static const unsigned host_of[SLOTS] = {0, 1, 1};
static const char *const hosts[HOSTS] = {"boot-a", "boot-b"};

/* Hosts count ticks from times of their own: whoever compares them gets it wrong. */
static uint64_t ticks(unsigned host, uint64_t step)
{
	return host ? step + 100000 : step;
}

static void count_text(const struct proc *p, char text[EPOCH_COUNT_MAX])
{
	*text = '\0';
	if (counted)
		snprintf(text, EPOCH_COUNT_MAX, "%u", p->count);
}

/* --- the records --- */

/* The steps that led here. */
static const char *story(void)
{
	static const char *const kinds[] = {
		"calls", "dies", "is noticed", "is started again", "saves", "(host) looks"};
	static char text[1024];
	size_t len = 0;
	unsigned i;

	for (i = 0; i < nr_trail; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%u %s; ", trail[i] % SLOTS,
					kinds[trail[i] / SLOTS]);
	return text;
}

/* What every host knows is what was recorded. */
static void check_links(const struct world *w)
{
	unsigned h;

	for (h = 0; h < HOSTS; h++) {
		const struct epoch_link *known = &w->chains[h].newest;

		if (known->nr > w->nr_links ||
		    (known->nr && memcmp(known, &w->links[known->nr], sizeof(*known))))
			fail_msg("%sa host knows epoch %d otherwise than it was recorded", story(),
				 (int)known->nr);
	}
}

/* Write-once: whoever is first. */
static void make(struct world *w, unsigned host, const struct epoch_link *link, uint64_t failed)
{
	struct chain *c = &w->chains[host];

	assert_true(link->nr <= w->nr_links + 1 && link->nr < LINKS);
	if (link->nr > w->nr_links) {
		w->links[link->nr] = *link;
		w->failed[link->nr] = failed;
		w->recorded[link->nr] = w->now;
		w->nr_links = link->nr;
	}
	chain_learn(c, &w->links[link->nr], 0);
	check_links(w);
}

static void look(struct world *w, unsigned host)
{
	chain_learn(&w->chains[host], &w->links[w->nr_links], ticks(host, w->now));
	check_links(w);
}

/* --- what is true of a process --- */

/* How many failures with its count, up to that which link @to follows, were after its start and are news. */
static unsigned failures_since(const struct world *w, const struct proc *p, uint64_t to)
{
	char count[EPOCH_COUNT_MAX];
	unsigned nr = 0;
	uint64_t i;

	count_text(p, count);
	for (i = 1; i <= to; i++)
		nr += w->links[i].err && !strcmp(w->links[i].count, count) &&
		      w->failed[i] > p->start && i > p->heard;
	return nr;
}

/*
 * A process in an epoch began with it, or was told of each failure before that. Not so only where a
 * limit says it.
 */
static void check_place(const struct world *w, const struct proc *p)
{
	char count[EPOCH_COUNT_MAX];

	count_text(p, count);
	if (!p->nr || p->excused || p->behind)
		return;
	assert_string_equal(w->links[p->nr].count, count);
	if (failures_since(w, p, p->nr))
		fail_msg("%sa process is in epoch %d, though what ended the one before befell it",
			 story(), (int)p->nr);
}

/* --- steps; false: it cannot happen now --- */

static bool die(struct world *w, struct proc *p)
{
	if (!p->lives || w->nr_deaths == DEATHS_MAX)
		return false;
	p->lives = false;
	p->died = w->now;
	p->noticed = !p->bound; /* nothing that a checkpoint would miss */
	w->nr_deaths++;
	return true;
}

/* The launcher starts what has died again, and counts that, if it does, once for all of them. */
static bool restart(struct world *w, struct proc *p)
{
	unsigned i;

	if (p->lives || !p->noticed)
		return false;
	for (i = 0; i < SLOTS; i++)
		if (!w->procs[i].lives && w->procs[i].count == w->count) {
			w->count++;
			break;
		}
	*p = (struct proc){.lives = true, .count = w->count, .start = w->now};
	return true;
}

static bool notice(struct world *w, unsigned slot)
{
	struct proc *p = &w->procs[slot];
	unsigned host = host_of[slot];
	struct epoch_link link;

	if (p->lives || p->noticed)
		return false;
	while (p->nr && chain_fails(&w->chains[host], p->nr, ticks(host, p->died))) {
		chain_follow(&w->chains[host], hosts[host], ticks(host, p->died), EIO, "died",
			     &link);
		make(w, host, &link, p->died);
	}
	p->noticed = true;
	return true;
}

static bool newest_lives(const struct world *w, unsigned host)
{
	char count[EPOCH_COUNT_MAX];
	unsigned i;

	for (i = 0; i < SLOTS; i++) {
		count_text(&w->procs[i], count);
		if (host_of[i] == host && w->procs[i].lives && w->procs[i].bound &&
		    !strcmp(count, w->chains[host].newest.count))
			return true;
	}
	return false;
}

/* Something failed before @p was started, and no link says so yet (L5). */
static bool is_ahead(const struct world *w, const struct proc *p, unsigned host)
{
	uint64_t known = w->chains[host].newest.nr;
	char count[EPOCH_COUNT_MAX];
	unsigned i;

	count_text(p, count);
	for (i = 1; i <= w->nr_links; i++)
		if (i > known && w->links[i].err && !strcmp(w->links[i].count, count) &&
		    w->failed[i] <= p->start)
			return true;
	for (i = 0; i < SLOTS; i++) {
		const struct proc *o = &w->procs[i];

		if (!o->lives && !o->noticed && o->died <= p->start &&
		    (!counted || o->count == p->count))
			return true;
	}
	/* It was not recorded yet when @p was started. */
	if (!counted && w->failed[known] <= p->start && p->start < w->recorded[known])
		return true;
	return false;
}

static bool place(struct world *w, unsigned slot)
{
	struct proc *p = &w->procs[slot];
	unsigned host = host_of[slot];
	struct chain *c = &w->chains[host];
	char count[EPOCH_COUNT_MAX];
	struct epoch_facts f = {.host = hosts[host], .count = count};
	struct epoch_link link;
	enum epoch_place where;

	if (!p->lives || p->bound)
		return false;
	count_text(p, count);
	f.start = ticks(host, p->start);
	f.newest_lives = newest_lives(w, host);
	where = chain_place(c, &f);
	if (where == EPOCH_BEGINS && c->newest.nr && strverscmp(count, c->newest.count) < 0) {
		nr_reruns++; /* L4: it looks like a run begun anew */
		return false;
	}
	if (where == EPOCH_BEGINS) {
		chain_begin(c, &f, &link);
		make(w, host, &link, 0);
		return true; /* it is placed by another step */
	}
	if (where == EPOCH_FORMER)
		assert_true(p->count < w->count);
	p->nr = chain_bind(c, &f, where);
	p->bound = true;
	p->behind = where == EPOCH_BEHIND;
	p->excused = is_ahead(w, p, host) ||
		     (!counted && where == EPOCH_NEWEST && strcmp(c->newest.host, f.host) &&
		      !c->failed && f.start >= c->before && failures_since(w, p, p->nr));
	nr_excused += p->excused;
	check_place(w, p);
	return true;
}

static bool tell(struct world *w, unsigned slot)
{
	struct proc *p = &w->procs[slot];
	const struct chain *c = &w->chains[host_of[slot]];
	bool former = p->nr < c->newest.first, behind = p->nr < c->newest.nr;
	unsigned due;
	int err;

	if (!p->lives || !p->bound)
		return false;
	due = failures_since(w, p, c->newest.nr);
	err = chain_tell(c, &p->nr);
	if (former != (err == -ESTALE) || (!former && behind != (err == -EIO)))
		fail_msg("%stold %d, former %d, behind %d", story(), err, former, behind);
	if (err == -EIO && !due && !p->excused)
		fail_msg("%sa process was told of what did not befall it", story());
	if (!err && due && !p->excused)
		fail_msg("%sa process was not told", story());
	if (err == -EIO) {
		p->heard = p->nr;
		p->excused = p->behind = false;
	}
	assert_int_equal(chain_tell(c, &p->nr), former ? -ESTALE : 0);
	check_place(w, p);
	return true;
}

/* --- all orders --- */

static bool step(struct world *w, unsigned kind)
{
	unsigned slot = kind % SLOTS;

	w->now++;
	switch (kind / SLOTS) {
	case 0:
		return place(w, slot);
	case 1:
		return die(w, &w->procs[slot]);
	case 2:
		return notice(w, slot);
	case 3:
		return restart(w, &w->procs[slot]);
	case 4:
		return tell(w, slot);
	default:
		if (slot >= HOSTS || w->chains[slot].newest.nr == w->nr_links)
			return false;
		look(w, slot);
		return true;
	}
}

/* Once nothing happens any more: whoever calls twice more has heard all that concerns him, once. */
static void check_end(const struct world *from)
{
	struct world w = *from;
	unsigned i;

	for (i = 0; i < SLOTS; i++)
		notice(&w, i);
	for (i = 0; i < HOSTS; i++)
		if (w.nr_links)
			look(&w, i);
	for (i = 0; i < SLOTS; i++) {
		w.now++;
		if (!tell(&w, i))
			continue;
		assert_true(w.procs[i].nr == w.nr_links ||
			    w.procs[i].nr < w.links[w.nr_links].first);
	}
}

static void explore(const struct world *from, unsigned depth)
{
	unsigned kind;

	nr_worlds++;
	check_end(from);
	for (kind = 0; depth && kind < 6 * SLOTS; kind++) {
		struct world w = *from;

		trail[nr_trail++] = kind;
		if (step(&w, kind))
			explore(&w, depth - 1);
		nr_trail--;
	}
}

/* All orders of what comes after the first @nr_bound processes have been bound. */
static void explore_from(unsigned nr_bound)
{
	struct world w = {.now = 10};
	unsigned i;

	for (i = 0; i < SLOTS; i++)
		w.procs[i] = (struct proc){.lives = true, .start = i + 1};
	for (i = 0; i < nr_bound; i++)
		while (!w.procs[i].bound)
			step(&w, i);
	explore(&w, is_long() ? 10 : 8);
}

static void explore_all(bool counts)
{
	unsigned i;

	counted = counts;
	nr_worlds = nr_reruns = nr_excused = 0;
	for (i = 0; i <= SLOTS; i++)
		explore_from(i);
	print_message("%lu worlds, %lu limits, %lu reruns\n", nr_worlds, nr_excused, nr_reruns);
	assert_true(nr_worlds > 10000);
}

static void a_launcher_that_counts(void **state)
{
	(void)state;
	explore_all(true);
	/* A launcher that counts leaves nothing to a limit: neither L1 nor L5 makes a difference. */
	assert_int_equal(nr_excused, 0);
}

static void a_launcher_that_does_not_count(void **state)
{
	(void)state;
	explore_all(false);
	assert_int_equal(nr_reruns, 0);
	assert_true(nr_excused > 0); /* the limits are there, and nothing else: see place() */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_launcher_that_counts),
		cmocka_unit_test(a_launcher_that_does_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
