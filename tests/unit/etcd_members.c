/* SPDX-License-Identifier: MIT */
/* timeout: 400 */
/* heavy: check-cluster */
/* An etcd of three members, of which some are killed, hang, or are no member. */
#include "tests/unit/etcd.h"

#include <pthread.h>

#define MEMBERS 3

static struct server members[MEMBERS];
static char cluster[512], spec[512];
static struct coord_etcd *ce;

static int setup_members(void **state)
{
	static const char *const names[] = {"a", "b", "c"};
	size_t i;

	(void)state;
	for (i = 0; i < MEMBERS; i++) {
		server_init(&members[i], names[i], "http");
		snprintf(cluster + strlen(cluster), sizeof(cluster) - strlen(cluster), "%s%s=%s",
			 i ? "," : "", names[i], members[i].peer);
		snprintf(spec + strlen(spec), sizeof(spec) - strlen(spec), "%s%s", i ? "," : "",
			 members[i].url);
	}
	for (i = 0; i < MEMBERS; i++)
		server_start(&members[i], cluster);
	ce = open_soon(spec, UUID);
	return 0;
}

static int teardown_members(void **state)
{
	size_t i;

	(void)state;
	coord_etcd_close(ce);
	for (i = 0; i < MEMBERS; i++)
		server_kill(&members[i]);
	return 0;
}

/* All three answer. */
static void wait_for_all(void)
{
	size_t i;

	for (i = 0; i < MEMBERS; i++)
		coord_etcd_close(open_soon(members[i].url, UUID));
}

static void start_again(struct server *s)
{
	server_start(s, cluster);
	wait_for_all();
}

static void one_that_is_killed_is_not_missed(void **state)
{
	char gen[COORD_GEN_MAX];
	unsigned i, nr;

	(void)state;
	for (i = 0; i < MEMBERS; i++) {
		wait_for_all();
		server_kill(&members[i]);
		for (nr = 0; nr < 10; nr++) {
			snprintf(gen, sizeof(gen), "%031x%u", i * 100 + nr, 0u);
			/* A new leader may have to be found; nothing is lost meanwhile. */
			WAIT_FOR(record(ce, gen, "open", "x") == 1);
			assert_int_equal(record(ce, gen, "open", "y"), 0);
			assert_true(read_is(ce, gen, "open", "x"));
		}
		start_again(&members[i]);
	}
}

static void one_that_hangs_is_passed_over(void **state)
{
	unsigned i;

	(void)state;
	for (i = 0; i < MEMBERS; i++) {
		char kind[16];

		wait_for_all();
		kill(members[i].pid, SIGSTOP);
		snprintf(kind, sizeof(kind), "log.1.%u", i);
		WAIT_FOR(record(ce, GEN, kind, "x") == 1);
		assert_true(read_is(ce, GEN, kind, "x"));
		kill(members[i].pid, SIGCONT);
	}
}

/* Its fellows are dead: it must not be asked what there is, since it does not know. */
static void one_without_the_others_is_no_service(void **state)
{
	char why[512] = "";

	(void)state;
	wait_for_all();
	assert_int_equal(record(ce, GEN_2, "open", "x"), 1);
	server_kill(&members[0]);
	server_kill(&members[1]);
	WAIT_FOR(record(ce, GEN_2, "prepare", "x") == -EHOSTDOWN);
	assert_int_equal(read_err(ce, GEN_2, "open"), -EHOSTDOWN);
	assert_true(coord_etcd_outage_ns(ce, why, sizeof(why)) > 0);
	assert_contains(why, members[0].url); /* each says why */
	assert_contains(why, members[2].url);
	server_start(&members[0], cluster);
	server_start(&members[1], cluster);
	WAIT_FOR(record(ce, GEN_2, "prepare", "x") == 1);
	assert_true(read_is(ce, GEN_2, "open", "x"));
	wait_for_all();
}

struct waiting {
	pthread_t thread;
	struct coord_key key;
	int result;
};

/* As all who wait do: what fails is tried again. */
static void *wait_for(void *arg)
{
	struct waiting *w = arg;

	do
		w->result = coord_etcd_ops.wait(ce, &w->key, 1, -1, in_s(1000));
	while (w->result == -EHOSTDOWN);
	return NULL;
}

/* Its stream breaks, or is silent for good; it is not missed for that. */
static void a_wait_goes_on_without_its_member(void **state)
{
	static const int signals[] = {SIGKILL, SIGSTOP};
	unsigned i, s;

	(void)state;
	for (s = 0; s < ARRAY_SIZE(signals); s++) {
		struct waiting w;
		char kind[16];

		for (i = 0; i < MEMBERS; i++) {
			struct coord_etcd *others = open_soon(spec, UUID);

			wait_for_all();
			snprintf(kind, sizeof(kind), "log.%u.%u", s, i);
			w.key = key_of(GEN_2, kind);
			assert_int_equal(pthread_create(&w.thread, NULL, wait_for, &w), 0);
			nap();
			kill(members[i].pid, signals[s]);
			WAIT_FOR(record(others, GEN_2, kind, "x") == 1);
			assert_int_equal(pthread_join(w.thread, NULL), 0);
			assert_int_equal(w.result, 1);
			coord_etcd_close(others);
			if (signals[s] == SIGSTOP) {
				kill(members[i].pid, SIGCONT);
			} else {
				server_kill(&members[i]);
				start_again(&members[i]);
			}
		}
	}
}

static void a_lease_outlasts_a_member(void **state)
{
	unsigned i;

	(void)state;
	for (i = 0; i < MEMBERS; i++) {
		char text[16];

		wait_for_all();
		server_kill(&members[i]);
		snprintf(text, sizeof(text), "lease %u", i);
		WAIT_FOR(!lease(ce, NODE, text) && lease_is(ce, NODE, text));
		start_again(&members[i]);
	}
	assert_int_equal(coord_etcd_ops.lease_end(ce, NODE), 0);
}

static void members_of_two_clusters_are_refused(void **state)
{
	struct server other;
	struct coord_etcd *both;
	struct error e;
	char specs[256], why[512] = "";

	(void)state;
	wait_for_all();
	server_init(&other, "other", "http");
	server_start_alone(&other);
	coord_etcd_close(open_soon(other.url, UUID));
	snprintf(specs, sizeof(specs), "%s,%s", members[0].url, other.url);
	assert_int_equal(coord_etcd_open(&both, specs, UUID, LEASE_S, &e), 0);
	server_kill(&members[0]);
	assert_int_equal(record(both, GEN, "decision", "x"), -EHOSTDOWN);
	assert_true(coord_etcd_outage_ns(both, why, sizeof(why)) > 0);
	assert_contains(why, "another cluster");
	coord_etcd_close(both);
	server_kill(&other);
	start_again(&members[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_is_killed_is_not_missed),
		cmocka_unit_test(one_that_hangs_is_passed_over),
		cmocka_unit_test(one_without_the_others_is_no_service),
		cmocka_unit_test(a_wait_goes_on_without_its_member),
		cmocka_unit_test(a_lease_outlasts_a_member),
		cmocka_unit_test(members_of_two_clusters_are_refused),
	};

	if (!has_etcd()) {
		puts("no etcd here (package etcd-server)");
		return 77;
	}
	return cmocka_run_group_tests(tests, setup_members, teardown_members);
}
