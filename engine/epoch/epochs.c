/* SPDX-License-Identifier: MIT */
#include "engine/epoch/epochs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/table.h"
#include "engine/content/hash.h"

struct job {
	struct list link;  /* epochs->jobs, the one used last in front */
	struct list bound; /* bound->of_job */
	struct chain chain;
	bool local;  /* const */
	char name[]; /* const */
};

struct bound {
	struct table_node node;
	struct list of_job;
	struct job *job;
	struct process *process; /* referenced */
	char count[EPOCH_COUNT_MAX];
	uint64_t nr;
	int err; /* of a local job: what the process has to hear, positive errno */
	char why[EPOCH_WHY_MAX];
};

struct epochs {
	const struct coord_ops *coord; /* const; so are these */
	void *coord_arg;
	char node[COORD_NODE_MAX], host[EPOCH_HOST_MAX];
	struct lock lock;
	/* lock: */
	struct list jobs;
	struct table bound;
};

int epochs_create(struct epochs **out, const struct epochs_options *o)
{
	struct epochs *es = calloc(1, sizeof(*es));
	int err = es ? table_init(&es->bound) : -ENOMEM;

	*out = err ? NULL : es;
	if (err) {
		free(es);
		return err;
	}
	es->coord = o->coord;
	es->coord_arg = o->coord_arg;
	snprintf(es->node, sizeof(es->node), "%s", o->node);
	snprintf(es->host, sizeof(es->host), "%s", o->host);
	lock_init(&es->lock, LOCK_EPOCHS);
	list_init(&es->jobs);
	return 0;
}

/* --- jobs and bound processes --- */

static uint64_t hash_of(const struct process *p)
{
	return (uint64_t)(uintptr_t)p * 0x9E3779B97F4A7C15ull;
}

static struct bound *find_bound_locked(const struct epochs *es, const struct process *p)
{
	struct list *l;

	table_for_each (l, &es->bound, hash_of(p)) {
		struct bound *b = container_of(l, struct bound, node.link);

		if (b->process == p)
			return b;
	}
	return NULL;
}

/* Processes of @j that have ended are forgotten; or all. */
static void sweep_locked(struct epochs *es, struct job *j, bool all)
{
	struct list *l, *tmp;

	list_for_each_safe (l, tmp, &j->bound) {
		struct bound *b = container_of(l, struct bound, of_job);

		if (!all && !process_has_ended(b->process))
			continue;
		table_del(&es->bound, &b->node);
		list_del(&b->of_job);
		process_put(b->process);
		free(b);
	}
}

/* Jobs of which nothing is left go, but for the @keep that were used last. */
static void drop_jobs_locked(struct epochs *es, unsigned keep, bool all)
{
	struct list *l, *tmp;

	list_for_each_safe (l, tmp, &es->jobs) {
		struct job *j = container_of(l, struct job, link);

		if (keep && keep--)
			continue;
		sweep_locked(es, j, all);
		if (!list_empty(&j->bound))
			continue;
		list_del(&j->link);
		free(j);
	}
}

void epochs_destroy(struct epochs *es)
{
	if (!es)
		return;
	drop_jobs_locked(es, 0, true);
	table_finish(&es->bound);
	lock_finish(&es->lock);
	free(es);
}

/* The job of @of, made where it is not known. NULL without memory. */
static struct job *job_locked(struct epochs *es, const struct epoch *of)
{
	struct job *j = NULL;
	struct list *l;

	list_for_each (l, &es->jobs) {
		j = container_of(l, struct job, link);
		if (j->local == of->local && !strcmp(j->name, of->job))
			break;
	}
	if (l == &es->jobs) {
		drop_jobs_locked(es, EPOCH_JOBS_KEPT, false);
		j = calloc(1, sizeof(*j) + strlen(of->job) + 1);
		if (!j)
			return NULL;
		strcpy(j->name, of->job);
		j->local = of->local;
		list_init(&j->link);
		list_init(&j->bound);
	}
	list_del(&j->link);
	list_push(&es->jobs, &j->link);
	return j;
}

static void learn(struct epochs *es, const struct epoch *of, const struct epoch_link *link,
		  uint64_t asked)
{
	LOCK_SCOPE(&es->lock);
	struct job *j = job_locked(es, of);

	if (j)
		chain_learn(&j->chain, link, asked);
}

static void newest_of(struct epochs *es, const struct epoch *of, struct epoch_link *newest)
{
	LOCK_SCOPE(&es->lock);
	struct job *j = job_locked(es, of);

	memset(newest, 0, sizeof(*newest));
	if (j)
		*newest = j->chain.newest;
}

/* --- records --- */

/* The name of record @nr of the job. */
static struct coord_key key_of(const struct epoch *of, uint64_t nr)
{
	struct coord_key key = {0};
	char text[JOB_KEY_MAX + 8];
	int len = snprintf(text, sizeof(text), "job %s", of->job);
	XXH128_hash_t h = XXH3_128bits(text, (size_t)len);

	snprintf(key.gen, sizeof(key.gen), "%016" PRIx64 "%016" PRIx64, h.high64, h.low64);
	snprintf(key.kind, sizeof(key.kind), "epoch.%" PRIu64, nr);
	return key;
}

/* -ENOENT: there is none, or this node does not see it yet. */
static int read_link(struct epochs *es, const struct epoch *of, const struct caller *owner,
		     uint64_t nr, struct epoch_link *link)
{
	struct coord_key key = key_of(of, nr);
	char text[COORD_TEXT_MAX];
	ssize_t len =
		es->coord->read(es->coord_arg, owner->uid, key.gen, key.kind, text, sizeof(text));

	return len < 0 ? (int)len : epoch_link_read(text, (size_t)len, nr, link);
}

static uint64_t ticks_now(void)
{
	return clock_boot_ns() / (NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK));
}

/*
 * Learns the end of the chain: each step that finds a link is followed by one twice as far,
 * until one finds none, and then by ever shorter ones.
 */
static int look_ahead(struct epochs *es, const struct epoch *of, const struct caller *owner)
{
	uint64_t asked = ticks_now(), step = 1;
	struct epoch_link newest, link;
	bool grows = true;

	newest_of(es, of, &newest);
	while (es->coord && !of->local && step) {
		int err = read_link(es, of, owner, newest.nr + step, &link);

		if (err && err != -ENOENT)
			return err;
		if (!err)
			newest = link;
		grows = grows && !err;
		step = grows ? 2 * step : step / 2;
	}
	learn(es, of, &newest, asked);
	return 0;
}

/* Makes @link, unless another stands. Either is known then. 0 or -errno. */
static int make_link(struct epochs *es, const struct epoch *of, const struct caller *owner,
		     const struct epoch_link *link)
{
	struct coord_key key = key_of(of, link->nr);
	char first[COORD_TEXT_MAX], *text = NULL;
	struct epoch_link stands = *link;
	size_t len;
	int err = 1;

	if (es->coord && !of->local)
		err = epoch_link_write(link, es->node, &text);
	if (text)
		err = es->coord->record(es->coord_arg, owner, key.gen, key.kind, text, strlen(text),
					first, &len);
	free(text);
	if (!err)
		err = epoch_link_read(first, len, link->nr, &stands);
	if (err < 0)
		return err;
	learn(es, of, &stands, 0);
	return 0;
}

/* --- binding --- */

static bool newest_lives_locked(const struct job *j)
{
	struct list *l;

	list_for_each (l, &j->bound)
		if (!strcmp(container_of(l, struct bound, of_job)->count, j->chain.newest.count))
			return true;
	return false;
}

/* Binds @p, unless another thread has. 0 or -errno; 1: @p has to make *@link first. */
static int place(struct epochs *es, const struct epoch *of, struct process *p, const char *count,
		 struct epoch_link *link)
{
	struct epoch_facts f = {.host = es->host, .count = count, .start = p->start};
	enum epoch_place where;
	struct bound *b;
	struct job *j;

	LOCK_SCOPE(&es->lock);
	j = job_locked(es, of);
	if (!j || find_bound_locked(es, p))
		return j ? 0 : -ENOMEM;
	sweep_locked(es, j, false);
	f.newest_lives = newest_lives_locked(j);
	where = chain_place(&j->chain, &f);
	if (where == EPOCH_BEGINS) {
		chain_begin(&j->chain, &f, link);
		return 1;
	}
	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->job = j;
	b->process = process_get(p);
	b->nr = chain_bind(&j->chain, &f, where);
	snprintf(b->count, sizeof(b->count), "%s", count);
	table_add(&es->bound, &b->node, hash_of(p));
	list_push(&j->bound, &b->of_job);
	return 0;
}

static bool is_bound(struct epochs *es, const struct process *p, struct epoch *out)
{
	LOCK_SCOPE(&es->lock);
	struct bound *b = find_bound_locked(es, p);

	if (b)
		out->nr = b->nr;
	return b;
}

int epoch_bind(struct epochs *es, struct process *p, const struct caller *owner, struct epoch *out)
{
	char count[EPOCH_COUNT_MAX];
	struct epoch_link link;
	int err = 1;

	memset(out, 0, sizeof(*out));
	epoch_split(p->key, out->job, count);
	out->local = p->weak;
	if (is_bound(es, p, out))
		return 0;
	if (!p->read || !p->visible)
		return -ENODATA;
	while (err == 1) {
		err = look_ahead(es, out, owner);
		if (!err)
			err = place(es, out, p, count, &link);
		if (err == 1)
			err = make_link(es, out, owner, &link) ?: 1;
	}
	return err || is_bound(es, p, out) ? err : -ENODATA; /* it ended meanwhile */
}

/* --- failures --- */

/* Learns of epoch @of->nr, which there is. */
static int look_for(struct epochs *es, const struct epoch *of, const struct caller *owner)
{
	struct epoch_link newest;
	int err = 0;

	newest_of(es, of, &newest);
	if (newest.nr < of->nr) {
		err = look_ahead(es, of, owner);
		newest_of(es, of, &newest);
	}
	return err || newest.nr >= of->nr ? err : -EAGAIN;
}

int epoch_heard(struct epochs *es, const struct epoch *of, const struct caller *owner)
{
	return of->local ? 0 : look_for(es, of, owner);
}

/* The process that a failure of a local job befell will be told; the first failure counts. */
static int owe(struct epochs *es, const struct process *p, int err, const char *why)
{
	LOCK_SCOPE(&es->lock);
	struct bound *b = p ? find_bound_locked(es, p) : NULL;

	if (b && !b->err) {
		b->err = err;
		snprintf(b->why, sizeof(b->why), "%s", why);
	}
	return 0;
}

/* True: *@link, of epoch @of->nr + 1, is to be made. */
static bool fails(struct epochs *es, const struct epoch *of, uint64_t at, int err, const char *why,
		  struct epoch_link *link)
{
	LOCK_SCOPE(&es->lock);
	struct job *j = job_locked(es, of);

	if (!j || !chain_fails(&j->chain, of->nr, at))
		return false;
	chain_follow(&j->chain, es->host, at, err, why, link);
	return true;
}

int epoch_fails(struct epochs *es, const struct epoch *of, struct process *p,
		const struct caller *owner, uint64_t at, int err, const char *why)
{
	struct epoch_link link;
	int result;

	if (of->local)
		return owe(es, p, err, why);
	if (!of->nr) /* of a former incarnation, which has ended */
		return 0;
	result = look_for(es, of, owner);
	/* Where another link stands, the second round notes the failure beside that. */
	while (!result && fails(es, of, at, err, why, &link))
		result = make_link(es, of, owner, &link);
	return result;
}

/* --- telling --- */

int epoch_tell(struct epochs *es, struct process *p, char *why, size_t size)
{
	struct bound *b;
	int err;

	*why = '\0';
	LOCK_SCOPE(&es->lock);
	b = find_bound_locked(es, p);
	if (!b)
		return 0;
	err = b->job->local ? -b->err : chain_tell(&b->job->chain, &b->nr);
	if (err && err != -ESTALE)
		snprintf(why, size, "%s", b->job->local ? b->why : b->job->chain.newest.why);
	b->err = 0;
	return err;
}
