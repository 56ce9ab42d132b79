/* SPDX-License-Identifier: MIT */
/* timeout: 240 */
/*
 * Records and leases on a network filesystem that caches what it should not, loses answers and has
 * no hard links: never two of which one is believed, what stands is found, who lives is not judged
 * dead, who died is.
 */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <stdatomic.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/coord/coord.h"
#include "engine/coord/nodes_inside.h"
#include "engine/format/format.h"
#include "tests/backing/distant.h"

#define CLIENTS	    4
#define GENERATIONS 6
#define TRIES	    4000

static const char *const kinds[] = {"open", "log.0.0", "log.3.12", "decision"};
#define KINDS ARRAY_SIZE(kinds)

static struct distant_server server;
static char path[PATH_MAX];

static unsigned the_seed(void)
{
	const char *given = getenv("CKPTFS_TEST_SEED");

	return given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)clock_mono_ns();
}

static void serve(unsigned seed, bool links, bool asks, unsigned lost)
{
	struct error e;
	int fd;

	distant_server_init(&server, scratch_dir(path), seed);
	fd = open(path, O_RDONLY | O_DIRECTORY);
	assert_int_equal(format_init(fd, path, &e), 0);
	close(fd);
	server.links = links;
	server.asks = asks;
	server.lost = lost;
}

/* --- records --- */

static void gen_name(char gen[COORD_GEN_MAX], unsigned i)
{
	snprintf(gen, COORD_GEN_MAX, "%032x", i + 1);
}

/* What one client came to believe of each record; "": nothing. */
struct client {
	pthread_t thread;
	struct backing *b;
	unsigned nr, seed;
	char believed[GENERATIONS][KINDS][32];
	bool half[GENERATIONS][KINDS]; /* it is said to be there in part */
	int last[GENERATIONS][KINDS];
	bool twice; /* and something else later */
	unsigned long lies;
};

static struct caller me;

static void believe(struct client *c, unsigned g, unsigned k, const char *text, size_t len)
{
	char *known = c->believed[g][k];

	if (*known && (strlen(known) != len || memcmp(known, text, len)))
		c->twice = true;
	snprintf(known, 32, "%.*s", (int)len, text);
}

static void try_record(struct client *c, unsigned g, unsigned k)
{
	char gen[COORD_GEN_MAX], own[32];
	char *first = malloc(COORD_TEXT_MAX);
	size_t len;
	int r;

	gen_name(gen, g);
	snprintf(own, sizeof(own), "client %u", c->nr);
	r = coord_dir_ops.record(c->b, &me, gen, kinds[k], own, strlen(own), first, &len);
	if (r >= 0)
		believe(c, g, k, r ? own : first, r ? strlen(own) : len);
	c->half[g][k] |= r == -EBUSY;
	c->last[g][k] = r;
	free(first);
}

static void try_read(struct client *c, unsigned g, unsigned k)
{
	char gen[COORD_GEN_MAX], text[64];
	ssize_t n;

	gen_name(gen, g);
	n = coord_dir_ops.read(c->b, me.uid, gen, kinds[k], text, sizeof(text));
	if (n >= 0)
		believe(c, g, k, text, (size_t)n);
}

static bool all_believed(const struct client *c)
{
	unsigned g, k;

	for (g = 0; g < GENERATIONS; g++)
		for (k = 0; k < KINDS; k++)
			if (!*c->believed[g][k] && !c->half[g][k])
				return false;
	return true;
}

static void *client_main(void *arg)
{
	struct client *c = arg;
	unsigned i, g, k;

	for (i = 0; i < TRIES && !all_believed(c); i++) {
		g = (unsigned)rand_r(&c->seed) % GENERATIONS;
		k = (unsigned)rand_r(&c->seed) % KINDS;
		if (rand_r(&c->seed) % 3)
			try_record(c, g, k);
		else
			try_read(c, g, k);
	}
	return NULL;
}

static void tell_missing(const struct client *c)
{
	unsigned g, k;

	for (g = 0; g < GENERATIONS; g++)
		for (k = 0; k < KINDS; k++)
			if (!*c->believed[g][k] && !c->half[g][k])
				print_error("client %u never settled %u/%s: %s\n", c->nr, g,
					    kinds[k], strerror(-c->last[g][k]));
	fail_msg("not all was settled");
}

static void assert_one_story(const struct client *clients)
{
	unsigned i, g, k;

	for (i = 0; i < CLIENTS; i++) {
		assert_false(clients[i].twice);
		for (g = 0; g < GENERATIONS; g++)
			for (k = 0; k < KINDS; k++)
				if (*clients[i].believed[g][k] && *clients[0].believed[g][k])
					assert_string_equal(clients[i].believed[g][k],
							    clients[0].believed[g][k]);
	}
}

/*
 * When nothing is lost any more, and what was cached has grown old, everybody reads what anybody
 * believed.
 */
static void assert_read_by_all(struct client *clients)
{
	unsigned i, g, k;

	server.lost = 0;
	server.now_ns += 2 * server.stale_ns;
	for (g = 0; g < GENERATIONS; g++)
		for (k = 0; k < KINDS; k++)
			for (i = 0; i < CLIENTS * CLIENTS; i++) {
				struct client *reader = &clients[i % CLIENTS];
				const char *want = clients[i / CLIENTS].believed[g][k];
				char gen[COORD_GEN_MAX], text[64] = "";

				gen_name(gen, g);
				if (!*want)
					continue;
				if (coord_dir_ops.read(reader->b, me.uid, gen, kinds[k], text,
						       sizeof(text)) < 0)
					fail_msg("%u/%s is lost", g, kinds[k]);
				assert_string_equal(text, want);
			}
}

/* How often a cache was wrong. */
static unsigned long run_clients(unsigned seed, bool links, bool asks, bool fuse)
{
	struct client clients[CLIENTS] = {0};
	unsigned long lies = 0;
	unsigned i;

	serve(seed, links, asks, 60);
	server.fuse = fuse;
	for (i = 0; i < CLIENTS; i++) {
		clients[i].b = distant_open(&server);
		clients[i].nr = i;
		clients[i].seed = seed + i;
	}
	for (i = 0; i < CLIENTS; i++)
		assert_int_equal(pthread_create(&clients[i].thread, NULL, client_main, &clients[i]),
				 0);
	for (i = 0; i < CLIENTS; i++)
		pthread_join(clients[i].thread, NULL);
	for (i = 0; i < CLIENTS; i++) {
		if (!all_believed(&clients[i]))
			tell_missing(&clients[i]);
		lies += distant_lies(clients[i].b);
	}
	assert_one_story(clients);
	assert_read_by_all(clients);
	for (i = 0; i < CLIENTS; i++)
		distant_close(clients[i].b);
	return lies;
}

static void of_all_clients_one_is_first(void **state)
{
	unsigned seed = the_seed(), i;
	unsigned long lies = 0;

	(void)state;
	print_message("CKPTFS_TEST_SEED=%u\n", seed);
	for (i = 0; i < 24; i++)
		lies += run_clients(seed + 100 * i, i % 3, i % 2, i % 4 > 1);
	assert_true(lies > 24);
}

static int count(void *arg, uid_t owner, const char *gen)
{
	(void)owner;
	(void)gen;
	++*(unsigned *)arg;
	return 0;
}

/* What a stale listing did not show is cleared up when it is listed again. */
static void forget_all(bool fuse)
{
	struct backing *a, *b;
	char gen[COORD_GEN_MAX], kind[COORD_KIND_MAX], *first = malloc(COORD_TEXT_MAX);
	unsigned i, left = 0;
	size_t len;

	serve(the_seed(), true, false, 60);
	server.fuse = fuse;
	a = distant_open(&server);
	b = distant_open(&server);
	gen_name(gen, 1);
	for (i = 0; i < 40; i++) {
		snprintf(kind, sizeof(kind), "log.0.%u", i);
		while (coord_dir_ops.record(i % 2 ? a : b, &me, gen, i ? kind : "open", "x", 1,
					    first, &len) != 1)
			;
	}
	while (coord_dir_ops.forget(a, &me, gen))
		;
	server.now_ns += 2 * server.stale_ns;
	while (coord_dir_ops.forget(b, &me, gen))
		;
	server.now_ns += 2 * server.stale_ns;
	while (coord_dir_ops.list(a, count, &left))
		left = 0;
	assert_int_equal(left, 0);
	distant_close(a);
	distant_close(b);
	free(first);
}

static void what_is_forgotten_goes(void **state)
{
	(void)state;
	forget_all(false);
	forget_all(true);
}

/* --- nodes --- */

#define NODES	4
#define LEASE_S 30
#define LEASE	(LEASE_S * NSEC_PER_SEC)

struct member {
	struct backing *b;
	struct nodes *nodes;
	uint64_t next_renewal, next_look;
	uint64_t back;	       /* since when it has renewed its lease without a gap */
	uint64_t renewed;      /* when its last renewal that succeeded was over */
	uint64_t frozen_until; /* it does nothing */
	uint64_t killed;       /* since when; 0: it lives */
	uint64_t at_fault;     /* when it last was frozen, or cut off alone */
	bool cut;
};

static uint64_t server_now(void *arg)
{
	return ((struct distant_server *)arg)->now_ns;
}

static const struct clock_source servers = {server_now, server_now, &server};

/* Who sleeps does so in no time. */
static void sleep_through(void)
{
	server.now_ns += NSEC_PER_SEC / 10;
}

static void time_passes(void *arg)
{
	((struct distant_server *)arg)->now_ns += NSEC_PER_SEC;
}

static void join(struct member *m)
{
	struct error e;

	m->b = distant_open(&server);
	while (nodes_create(&m->nodes,
			    &(struct nodes_options){.coord = &coord_dir_ops,
						    .coord_arg = m->b,
						    .backing = path,
						    .label = "n",
						    .place = "",
						    .rules = "r",
						    .lease_s = LEASE_S,
						    .waits = time_passes,
						    .arg = &server,
						    .by_hand = true},
			    &e))
		if (e.err != EIO && e.err != EEXIST)
			fail_msg("%s", e.text);
	m->renewed = m->back = server.now_ns;
}

/*
 * Found dead, may it be so? Never if it renewed its lease less than lease_s ago; but of one who
 * comes back, where names are not asked for, what is known may be as old as caches get. And never
 * for an outage, or a pause, that all had.
 */
static void may_be_dead(const struct member *m, unsigned observer, unsigned i)
{
	double ago = (double)(server.now_ns - m->renewed) / NSEC_PER_SEC;

	if (ago < LEASE_S && (server.asks || server.now_ns - m->back > server.stale_ns))
		fail_msg("%u took %u for dead, which renewed its lease %.3f s ago", observer, i,
			 ago);
	if (!m->killed && m->at_fault < m->renewed)
		fail_msg("%u took %u for dead, which did what it could, %.3f s ago", observer, i,
			 ago);
}

static void watch(struct nodes *ns)
{
	LOCK_SCOPE(&ns->lock);
	nodes_look_locked(ns);
}

static void look(struct member *all, unsigned observer)
{
	struct nodes *ns = all[observer].nodes;
	bool before[NODES];
	unsigned i;

	for (i = 0; i < NODES; i++)
		before[i] = nodes_alive(ns, nodes_id(all[i].nodes));
	watch(ns);
	for (i = 0; i < NODES; i++)
		if (before[i] && !nodes_alive(ns, nodes_id(all[i].nodes)))
			may_be_dead(&all[i], observer, i);
}

static void act(struct member *all, unsigned i)
{
	struct member *m = &all[i];

	if (m->killed || server.now_ns < m->frozen_until)
		return;
	if (server.now_ns >= m->next_renewal) {
		m->next_renewal = server.now_ns + LEASE / 3;
		if (!nodes_renew(m->nodes)) {
			if (server.now_ns - m->renewed >= LEASE)
				m->back = server.now_ns;
			m->renewed = server.now_ns;
		} else
			m->next_renewal = server.now_ns + LEASE / 10;
	}
	if (server.now_ns >= m->next_look) {
		look(all, i);
		m->next_look = server.now_ns + LEASE / 10;
	}
}

static void cut_all(struct member *all, int err, bool writes)
{
	unsigned i;

	for (i = 0; i < NODES; i++) {
		all[i].cut = false;
		distant_cut(all[i].b, err, writes);
	}
}

static void trouble(struct member *all, unsigned *seed)
{
	struct member *m = &all[(unsigned)rand_r(seed) % NODES];

	switch (rand_r(seed) % 6) {
	case 0: /* SIGSTOP, for up to two minutes */
		m->frozen_until = server.now_ns + (uint64_t)(rand_r(seed) % 120) * NSEC_PER_SEC;
		break;
	case 1: /* cut off from the backing */
		m->cut = true;
		distant_cut(m->b, -EIO, false);
		break;
	case 2: /* all are, */
		cut_all(all, -ESTALE, false);
		break;
	case 3: /* or it can only be read */
		cut_all(all, -ENOSPC, true);
		break;
	case 4:
		cut_all(all, 0, false);
		break;
	default: /* all stand still, as machines of one host do */
		server.now_ns += (uint64_t)(rand_r(seed) % 100) * NSEC_PER_SEC;
	}
}

/* Everybody does what there is to do, some before others. */
static void all_act(struct member *all, unsigned first)
{
	unsigned i;

	for (i = 0; i < NODES; i++) {
		struct member *m = &all[i];

		if (m->cut || server.now_ns < m->frozen_until)
			m->at_fault = server.now_ns;
	}
	for (i = 0; i < NODES; i++)
		act(all, (first + i) % NODES);
}

/*
 * Whatever happened before: with all in order, the dead are seen to be, and the others to live,
 * within a bound.
 */
static void all_is_known_at_last(struct member *all)
{
	uint64_t end = server.now_ns + 2 * LEASE + (NODES_UNSEEN_S + 60) * NSEC_PER_SEC;
	unsigned i, j;

	server.lost = 0;
	for (i = 0; i < NODES; i++) {
		all[i].frozen_until = 0;
	}
	cut_all(all, 0, false);
	while (server.now_ns < end) {
		server.now_ns += NSEC_PER_SEC;
		all_act(all, 0);
	}
	for (i = 0; i < NODES; i++)
		for (j = 0; j < NODES; j++)
			if (i != j && !all[i].killed &&
			    nodes_alive(all[i].nodes, nodes_id(all[j].nodes)) == !!all[j].killed)
				fail_msg("%u, which %s, is otherwise known to %u: %s", j,
					 all[j].killed ? "is dead" : "lives", i,
					 json_dumps(nodes_to_json(all[i].nodes), 0));
}

static void run_nodes(unsigned seed, bool links, bool asks)
{
	struct member all[NODES] = {0};
	unsigned i, steps;

	serve(seed, links, asks, 5);
	clock_set_source(&servers);
	wait_observe(sleep_through);
	for (i = 0; i < NODES; i++)
		join(&all[i]);
	for (steps = 0; steps < 1500; steps++) {
		server.now_ns += (uint64_t)(rand_r(&seed) % 2000) * NSEC_PER_MSEC;
		all_act(all, (unsigned)rand_r(&seed));
		if (rand_r(&seed) % 60 == 0)
			trouble(all, &seed);
		if (steps == 1000)
			all[0].killed = server.now_ns;
	}
	all_is_known_at_last(all);
	nodes_destroy(all[1].nodes); /* ends its lease: dead at once */
	watch(all[2].nodes);
	server.now_ns += server.stale_ns; /* or when names are asked for again */
	watch(all[2].nodes);
	assert_false(nodes_alive(all[2].nodes, nodes_id(all[0].nodes)));
	for (i = 0; i < NODES; i++) {
		if (i != 1)
			nodes_destroy(all[i].nodes);
		distant_close(all[i].b);
	}
	wait_observe(NULL);
	clock_set_source(NULL);
}

static void who_lives_is_not_judged_dead(void **state)
{
	unsigned seed = the_seed(), i;

	(void)state;
	print_message("CKPTFS_TEST_SEED=%u\n", seed);
	for (i = 0; i < 12; i++)
		run_nodes(seed + 100 * i, i % 3, i % 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_all_clients_one_is_first),
		cmocka_unit_test(what_is_forgotten_goes),
		cmocka_unit_test(who_lives_is_not_judged_dead),
	};

	me = (struct caller){.uid = geteuid(), .gid = getegid(), .pid = 0};
	umask(0);
	log_set_level(LOG_LEVEL_ERROR); /* outages, by the thousand */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
