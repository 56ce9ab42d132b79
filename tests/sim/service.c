/* SPDX-License-Identifier: MIT */
#include "tests/sim/service.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/list.h"
#include "tests/sim/sched.h"
#include "tests/sim/wrap.h"

#define ANSWER_NS  (3 * NSEC_PER_MSEC) /* at most, while all is well */
#define TIMEOUT_NS (2 * NSEC_PER_SEC)  /* after which a call is given up */
#define LEASE_NS   (5 * NSEC_PER_SEC)  /* without renewal, as etcd takes it away */

struct record {
	struct list link;
	uid_t owner;
	char gen[COORD_GEN_MAX], kind[COORD_KIND_MAX];
	bool forgotten;
	size_t len;
	char text[];
};

struct lease {
	struct list link;
	char node[COORD_NODE_MAX], text[COORD_LEASE_MAX];
	size_t len;
	uint64_t until_ns;
};

static struct list records = {&records, &records}, leases = {&leases, &leases};
static uint64_t cut_ns[SCHED_NODES], full_ns;
static unsigned to_lose;

void service_cut(unsigned node, uint64_t until_ns)
{
	struct list *l;
	unsigned i;

	for (i = 0; i < SCHED_NODES; i++)
		if (!node || i == node)
			cut_ns[i] = until_ns;
	if (node || until_ns < sched_now())
		return;
	/*
	 * A service that was away gives every lease its whole time again, as a new leader of etcd
	 * does.
	 */
	list_for_each (l, &leases) {
		struct lease *at = container_of(l, struct lease, link);

		if (at->until_ns > sched_now())
			at->until_ns = until_ns + LEASE_NS;
	}
}

void service_lose_answers(unsigned nr)
{
	to_lose = nr;
}

void service_full(uint64_t until_ns)
{
	full_ns = until_ns;
}

/* The way there. -errno: nobody answers. */
static int ask(void)
{
	sched_sleep(sched_draw(ANSWER_NS));
	if (cut_ns[sched_node()] <= sched_now())
		return 0;
	sched_sleep(TIMEOUT_NS);
	return -EHOSTDOWN; /* as coord_etcd.c says it */
}

/* The way back of a call that has changed something. */
static int answer(int result)
{
	bool lost = to_lose && to_lose--;

	sched_sleep(sched_draw(ANSWER_NS));
	if (!lost && cut_ns[sched_node()] <= sched_now())
		return result;
	sched_sleep(TIMEOUT_NS);
	return -EHOSTDOWN; /* as coord_etcd.c says it */
}

/* --- records --- */

static struct record *find(uid_t owner, const char *gen, const char *kind)
{
	struct list *l;

	list_for_each (l, &records) {
		struct record *r = container_of(l, struct record, link);

		if (!r->forgotten && r->owner == owner && !strcmp(r->gen, gen) &&
		    !strcmp(r->kind, kind))
			return r;
	}
	return NULL;
}

static void add(uid_t owner, const char *gen, const char *kind, const char *text, size_t len)
{
	struct record *r = calloc(1, sizeof(*r) + len + 1);

	if (!r)
		abort();
	r->owner = owner;
	snprintf(r->gen, sizeof(r->gen), "%s", gen);
	snprintf(r->kind, sizeof(r->kind), "%s", kind);
	r->len = len;
	memcpy(r->text, text, len);
	list_append(&records, &r->link);
	wrap_wake_polls();
}

static int make(uid_t owner, const char *gen, const char *kind, const char *text, size_t len,
		char *first, size_t *first_len)
{
	struct record *r = find(owner, gen, kind);

	if (r) {
		memcpy(first, r->text, r->len);
		*first_len = r->len;
		return r->len == len && !memcmp(r->text, text, len);
	}
	if (full_ns > sched_now())
		return -ENOSPC;
	add(owner, gen, kind, text, len);
	return 1;
}

static int service_record(void *arg, const struct caller *owner, const char *gen, const char *kind,
			  const char *text, size_t len, char *first, size_t *first_len)
{
	int err = ask();

	(void)arg;
	if (!coord_gen_ok(gen) || !coord_kind_ok(kind) || len > COORD_TEXT_MAX)
		return -EINVAL;
	return err ? err : answer(make(owner->uid, gen, kind, text, len, first, first_len));
}

static int service_record_open(void *arg, const struct caller *owner, const char *gen,
			       const char *kind, const char *text, size_t len,
			       const struct coord_record *also, char *first, size_t *first_len)
{
	struct record *r;
	char other[COORD_TEXT_MAX];
	size_t other_len;
	int err = ask();

	(void)arg;
	if (err)
		return err;
	if (!find(owner->uid, gen, "open"))
		return answer(-ESTALE);
	r = find(owner->uid, gen, kind);
	if (also && !r && find(owner->uid, gen, also->kind))
		return answer(-EAGAIN);
	err = make(owner->uid, gen, kind, text, len, first, first_len);
	if (err == 1 && also && !r)
		make(owner->uid, gen, also->kind, also->text, strlen(also->text), other,
		     &other_len);
	return answer(err);
}

static ssize_t service_read(void *arg, uid_t owner, const char *gen, const char *kind, char *buf,
			    size_t size)
{
	struct record *r;
	int err = ask();

	(void)arg;
	if (err)
		return err;
	r = find(owner, gen, kind);
	if (!r)
		return -ENOENT;
	if (r->len > size)
		return -ERANGE;
	memcpy(buf, r->text, r->len);
	return (ssize_t)r->len;
}

static int service_forget(void *arg, const struct caller *owner, const char *gen)
{
	struct list *l;
	int err = ask();

	(void)arg;
	if (err)
		return err;
	list_for_each (l, &records) {
		struct record *r = container_of(l, struct record, link);

		if (r->owner == owner->uid && !strcmp(r->gen, gen))
			r->forgotten = true;
	}
	return answer(0);
}

static int service_remove(void *arg, const struct caller *owner, const char *gen, const char *kind)
{
	struct record *r;
	int err = ask();

	(void)arg;
	if (err)
		return err;
	r = find(owner->uid, gen, kind);
	if (r)
		r->forgotten = true;
	return answer(0);
}

static int service_list(void *arg, int (*found)(void *arg, uid_t owner, const char *gen),
			void *found_arg)
{
	char seen[64][COORD_GEN_MAX];
	uid_t owners[64];
	unsigned nr = 0, i;
	struct list *l;
	int err = ask();

	(void)arg;
	list_for_each (l, &records) {
		struct record *r = container_of(l, struct record, link);

		for (i = 0; i < nr && strcmp(seen[i], r->gen) != 0; i++)
			;
		if (r->forgotten || i < nr || nr == 64)
			continue;
		owners[nr] = r->owner;
		memcpy(seen[nr++], r->gen, COORD_GEN_MAX);
	}
	for (i = 0; i < nr && !err; i++)
		err = found(found_arg, owners[i], seen[i]);
	return err;
}

static int look(struct coord_key *keys, size_t nr)
{
	int seen = 0;
	size_t i;

	for (i = 0; i < nr; i++) {
		keys[i].there = find(keys[i].owner, keys[i].gen, keys[i].kind);
		seen |= keys[i].there;
	}
	return seen;
}

static int service_wait(void *arg, struct coord_key *keys, size_t nr, int wake,
			uint64_t deadline_ns)
{
	struct pollfd p = {.fd = wake, .events = POLLIN};

	(void)arg;
	for (;;) {
		bool cut = cut_ns[sched_node()] > sched_now();
		uint64_t until = deadline_ns;

		if (cut) {
			sched_sleep(NSEC_PER_SEC);
			return -EHOSTDOWN; /* as coord_etcd.c says it */
		}
		if (nr && look(keys, nr)) {
			sched_sleep(sched_draw(ANSWER_NS));
			return 1;
		}
		if (sched_now() >= deadline_ns || (wake >= 0 && wrap_poll_now(&p)))
			return 0;
		wrap_wait_poll(until);
	}
}

/* --- leases --- */

static struct lease *find_lease(const char *node)
{
	struct list *l;

	list_for_each (l, &leases) {
		struct lease *at = container_of(l, struct lease, link);

		if (!strcmp(at->node, node) && at->until_ns > sched_now())
			return at;
	}
	return NULL;
}

static int service_lease(void *arg, const char *node, const char *text, size_t len)
{
	struct lease *at;
	int err = ask();

	(void)arg;
	if (err)
		return err;
	at = find_lease(node);
	if (!at) {
		at = calloc(1, sizeof(*at));
		if (!at)
			abort();
		snprintf(at->node, sizeof(at->node), "%s", node);
		list_append(&leases, &at->link);
	}
	memcpy(at->text, text, len);
	at->len = len;
	at->until_ns = sched_now() + LEASE_NS;
	return answer(0);
}

static ssize_t service_lease_read(void *arg, const char *node, char *buf, size_t size)
{
	struct lease *at;
	int err = ask();

	(void)arg;
	if (err)
		return err;
	at = find_lease(node);
	if (!at)
		return -ENOENT;
	if (at->len > size)
		return -ERANGE;
	memcpy(buf, at->text, at->len);
	return (ssize_t)at->len;
}

static int service_lease_end(void *arg, const char *node)
{
	struct lease *at;
	int err = ask();

	(void)arg;
	if (err)
		return err;
	at = find_lease(node);
	if (at)
		at->until_ns = 0;
	return answer(0);
}

static int service_lease_list(void *arg, int (*found)(void *arg, const char *node), void *found_arg)
{
	struct list *l;
	int err = ask();

	(void)arg;
	list_for_each (l, &leases) {
		struct lease *at = container_of(l, struct lease, link);

		if (!err && at->until_ns > sched_now())
			err = found(found_arg, at->node);
	}
	return err;
}

void service_each(void (*each)(void *arg, const char *gen, const char *kind, const char *text),
		  void *arg)
{
	struct list *l;

	list_for_each (l, &records) {
		struct record *r = container_of(l, struct record, link);

		each(arg, r->gen, r->kind, r->text);
	}
}

const struct coord_ops service_ops = {
	.record = service_record,
	.record_open = service_record_open,
	.read = service_read,
	.forget = service_forget,
	.remove = service_remove,
	.list = service_list,
	.wait = service_wait,
	.lease = service_lease,
	.lease_read = service_lease_read,
	.lease_is_sure = true,
	.lease_end = service_lease_end,
	.lease_list = service_lease_list,
};
