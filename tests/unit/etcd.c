/* SPDX-License-Identifier: MIT */
/* cpu: 20 */
/* timeout: 120 */
/* Records, waiting and leases by a real etcd. */
#include "tests/unit/etcd.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

#define MAKERS 16

static struct server server;
static struct coord_etcd *ce;

static int setup_server(void **state)
{
	(void)state;
	server_init(&server, "only", "http");
	server_start_alone(&server);
	return 0;
}

static int teardown_server(void **state)
{
	(void)state;
	server_kill(&server);
	return 0;
}

static char uuid[40]; /* each test has a filesystem of its own */

static int setup(void **state)
{
	static unsigned nr;

	(void)state;
	snprintf(uuid, sizeof(uuid), "%08x-2222-4333-8444-555555555555", ++nr);
	ce = open_soon(server.url, uuid);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	coord_etcd_close(ce);
	ce = NULL;
	return 0;
}

/* --- records --- */

static void who_is_first_is_read_by_all(void **state)
{
	(void)state;
	assert_int_equal(read_err(ce, GEN, "open"), -ENOENT);
	assert_int_equal(record(ce, GEN, "open", "{\"node\": \"a\"}"), 1);
	assert_int_equal(record(ce, GEN, "open", "{\"node\": \"b\"}"), 0);
	assert_true(first_is("{\"node\": \"a\"}"));
	assert_int_equal(record(ce, GEN, "open", "{\"node\": \"a\"}"),
			 1); /* its answer was lost, say */
	assert_true(read_is(ce, GEN, "open", "{\"node\": \"a\"}"));
	assert_int_equal(record(ce, GEN, "log.0.12", "p"), 1);
	assert_int_equal(record(ce, GEN_2, "open", ""), 1);
	assert_int_equal(record(ce, GEN_2, "open", "x"), 0);
	assert_true(first_is(""));
	assert_true(read_is(ce, GEN_2, "open", ""));
}

static void what_is_of_others_is_apart(void **state)
{
	const struct caller other = {.uid = 1001, .gid = 1001, .pid = 0};
	struct coord_etcd *elsewhere = open_soon(server.url, UUID);

	(void)state;
	assert_int_equal(record(ce, GEN, "open", "a"), 1);
	assert_int_equal(coord_etcd_ops.record(ce, &other, GEN, "open", "b", 1, first, &first_len),
			 1);
	assert_int_equal(read_err(elsewhere, GEN, "open"), -ENOENT);
	assert_int_equal(coord_etcd_ops.forget(ce, &other, GEN), 0);
	assert_true(read_is(ce, GEN, "open", "a"));
	coord_etcd_close(elsewhere);
}

static void records_may_be_long(void **state)
{
	char *text = malloc(COORD_TEXT_MAX + 2), *back = malloc(COORD_TEXT_MAX);
	size_t i, len;

	(void)state;
	assert_true(text && back);
	for (i = 0; i <= COORD_TEXT_MAX; i++)
		text[i] = (char)(1 + i % 255); /* any byte */
	text[COORD_TEXT_MAX + 1] = '\0';
	assert_int_equal(record(ce, GEN, "prepare", text), -EINVAL);
	for (len = COORD_TEXT_MAX; len > COORD_TEXT_MAX - 3; len--) {
		text[len] = '\0';
		assert_int_equal(forget(ce, GEN), 0);
		assert_int_equal(record(ce, GEN, "prepare", text), 1);
		assert_int_equal(record(ce, GEN, "prepare", ""), 0);
		assert_true(first_len == len && !memcmp(first, text, len));
		assert_int_equal(
			coord_etcd_ops.read(ce, 1000, GEN, "prepare", back, COORD_TEXT_MAX), len);
		assert_memory_equal(back, text, len);
		assert_int_equal(coord_etcd_ops.read(ce, 1000, GEN, "prepare", back, len - 1),
				 -ERANGE);
	}
	free(text);
	free(back);
}

static void what_cannot_be_a_record_is_refused(void **state)
{
	const struct caller me = {.uid = 1000, .gid = 1000, .pid = 0};

	(void)state;
	assert_int_equal(record(ce, "", "open", "x"), -EINVAL);
	assert_int_equal(record(ce, GEN "0", "open", "x"), -EINVAL);
	assert_int_equal(record(ce, GEN, "opened", "x"), -EINVAL);
	assert_int_equal(record(ce, GEN, "../open", "x"), -EINVAL);
	assert_int_equal(coord_etcd_ops.record(ce, &me, GEN, "open", "a\0b", 3, first, &first_len),
			 -EINVAL);
	assert_int_equal(read_err(ce, GEN, "x"), -EINVAL);
	assert_int_equal(forget(ce, "x"), -EINVAL);
	assert_int_equal(lease(ce, "x", "y"), -EINVAL);
	assert_int_equal(lease_err(ce, "x"), -EINVAL);
	assert_int_equal(coord_etcd_ops.lease_end(ce, "x"), -EINVAL);
	assert_int_equal(coord_etcd_ops.wait(ce, &(struct coord_key){.gen = "x"}, 1, -1, 0),
			 -EINVAL);
}

struct maker {
	pthread_t thread;
	char text[32], first[COORD_TEXT_MAX];
	size_t len;
	int made;
};

static void *make(void *arg)
{
	const struct caller me = {.uid = 1000, .gid = 1000, .pid = 0};
	struct maker *m = arg;

	m->made = coord_etcd_ops.record(ce, &me, GEN, "decision", m->text, strlen(m->text),
					m->first, &m->len);
	return NULL;
}

static void of_many_one_is_first(void **state)
{
	struct maker *makers = calloc(MAKERS, sizeof(*makers));
	unsigned i, round, made;

	(void)state;
	for (round = 0; round < 10; round++) {
		assert_int_equal(forget(ce, GEN), 0);
		for (i = 0; i < MAKERS; i++) {
			snprintf(makers[i].text, sizeof(makers[i].text), "maker %u of %u", i,
				 round);
			assert_int_equal(pthread_create(&makers[i].thread, NULL, make, &makers[i]),
					 0);
		}
		for (made = i = 0; i < MAKERS; i++) {
			assert_int_equal(pthread_join(makers[i].thread, NULL), 0);
			assert_true(makers[i].made == 0 || makers[i].made == 1);
			made += (unsigned)makers[i].made;
		}
		assert_int_equal(made, 1);
		for (i = 0; i < MAKERS; i++) {
			if (makers[i].made)
				assert_true(read_is(ce, GEN, "decision", makers[i].text));
			else
				assert_true(makers[i].len &&
					    strncmp(makers[i].first, makers[i].text,
						    strlen(makers[i].text)));
		}
	}
	free(makers);
}

static void what_is_forgotten_is_gone(void **state)
{
	static const char *const kinds[] = {"name",    "open",	  "prepare", "next",
					    "log.0.0", "log.1.7", "log.7.3", "decision"};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		assert_int_equal(record(ce, GEN, kinds[i], kinds[i]), 1);
	assert_int_equal(record(ce, "0123456789abcdef0123456789abcdee", "open", "before"), 1);
	assert_int_equal(record(ce, "0123456789abcdef0123456789abcdf0", "open", "behind"), 1);
	assert_int_equal(forget(ce, GEN), 0);
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		assert_int_equal(read_err(ce, GEN, kinds[i]), -ENOENT);
	assert_true(read_is(ce, "0123456789abcdef0123456789abcdee", "open", "before"));
	assert_true(read_is(ce, "0123456789abcdef0123456789abcdf0", "open", "behind"));
	assert_int_equal(forget(ce, GEN), 0);
}

struct found {
	unsigned nr, stop_at;
	char all[4][64];
};

static int found(void *arg, uid_t owner, const char *gen)
{
	struct found *f = arg;

	if (f->nr < ARRAY_SIZE(f->all))
		snprintf(f->all[f->nr], sizeof(f->all[0]), "%u %s", (unsigned)owner, gen);
	return ++f->nr == f->stop_at ? 7 : 0;
}

static int record_open(const char *gen, const char *kind, const char *text)
{
	const struct caller me = {.uid = 1000, .gid = 1000, .pid = 0};

	return coord_etcd_ops.record_open(ce, &me, gen, kind, text, strlen(text), NULL, first,
					  &first_len);
}

/* Who was held up, and goes on when it is over, makes nothing any more. */
static void nothing_is_made_of_what_is_over(void **state)
{
	(void)state;
	assert_int_equal(record_open(GEN, "prepare", "x"), -ESTALE);
	assert_int_equal(read_err(ce, GEN, "prepare"), -ENOENT);
	assert_int_equal(record(ce, GEN, "open", "me"), 1);
	assert_int_equal(record_open(GEN, "prepare", "x"), 1);
	assert_int_equal(record_open(GEN, "prepare", "x"), 1);
	assert_int_equal(record_open(GEN, "prepare", "y"), 0);
	assert_true(first_is("x"));
	assert_int_equal(forget(ce, GEN), 0);
	assert_int_equal(record_open(GEN, "decision", "commit"), -ESTALE);
	assert_int_equal(read_err(ce, GEN, "decision"), -ENOENT);
}

static void generations_are_listed_once(void **state)
{
	const struct caller other = {.uid = 99, .gid = 99, .pid = 0};
	struct etcd *etcd = reach(server.url);
	struct found f = {0};
	char kind[32], *body, *key;
	unsigned i;

	(void)state;
	assert_int_equal(coord_etcd_ops.list(ce, found, &f), 0);
	assert_int_equal(f.nr, 0);
	for (i = 0; i < 1100; i++) { /* pages */
		snprintf(kind, sizeof(kind), "log.0.%u", i);
		assert_int_equal(record(ce, GEN, kind, "x"), 1);
	}
	assert_int_equal(record(ce, GEN_2, "open", "x"), 1);
	assert_int_equal(coord_etcd_ops.record(ce, &other, GEN, "open", "b", 1, first, &first_len),
			 1);
	/* What somebody else has put there is no generation, and does not hide any. */
	key = etcd_base64("/ckptfs/00000007-2222-4333-8444-555555555555/txn/1000/zzz",
			  strlen("/ckptfs/00000007-2222-4333-8444-555555555555/txn/1000/zzz"));
	assert_true(asprintf(&body, "{\"key\": \"%s\"}", key) > 0);
	ask_etcd(etcd, "kv/put", body);
	assert_int_equal(coord_etcd_ops.list(ce, found, &f), 0);
	assert_int_equal(f.nr, 3);
	assert_string_equal(f.all[0], "1000 " GEN); /* in the order of texts */
	assert_string_equal(f.all[1], "1000 " GEN_2);
	assert_string_equal(f.all[2], "99 " GEN);
	f = (struct found){.stop_at = 2};
	assert_int_equal(coord_etcd_ops.list(ce, found, &f), 7);
	assert_int_equal(f.nr, 2);
	free(key);
	free(body);
	etcd_destroy(etcd);
}

static void what_is_no_record_is_not_believed(void **state)
{
	struct etcd *etcd = reach(server.url);
	char name[160], *key, *body;

	(void)state;
	snprintf(name, sizeof(name),
		 "/ckptfs/00000008-2222-4333-8444-555555555555/txn/1000/%s.open", GEN);
	key = etcd_base64(name, strlen(name));
	assert_true(asprintf(&body, "{\"key\": \"%s\", \"value\": \"YQBi\"}", key) > 0);
	ask_etcd(etcd, "kv/put", body);
	assert_int_equal(read_err(ce, GEN, "open"), -EPERM);
	assert_int_equal(record(ce, GEN, "open", "x"), -EPERM);
	free(key);
	free(body);
	etcd_destroy(etcd);
}

/* --- waiting --- */

struct waiting {
	pthread_t thread;
	struct coord_key keys[200];
	size_t nr;
	int wake, result;
	uint64_t deadline_ns;
	atomic_bool begun;
};

static void *wait_for(void *arg)
{
	struct waiting *w = arg;

	w->begun = true;
	w->result = coord_etcd_ops.wait(ce, w->keys, w->nr, w->wake, w->deadline_ns);
	return NULL;
}

static void start_waiting(struct waiting *w)
{
	assert_int_equal(pthread_create(&w->thread, NULL, wait_for, w), 0);
	WAIT_FOR(w->begun);
}

static void one_that_is_there_is_not_waited_for(void **state)
{
	struct coord_key keys[] = {key_of(GEN, "open"), key_of(GEN, "prepare")};

	(void)state;
	assert_int_equal(record(ce, GEN, "prepare", "x"), 1);
	assert_int_equal(coord_etcd_ops.wait(ce, keys, 2, -1, in_s(1000)), 1);
}

static void a_wait_ends_with_any_of_its_records(void **state)
{
	unsigned round, i;

	(void)state;
	for (round = 0; round < 20; round++) { /* at any moment of it */
		struct waiting w = {.nr = 200, .wake = -1, .deadline_ns = in_s(1000)};
		const struct timespec some = {.tv_nsec = (long)(round * NSEC_PER_MSEC)};
		char kind[32];

		assert_int_equal(forget(ce, GEN), 0);
		for (i = 0; i < w.nr; i++) {
			snprintf(kind, sizeof(kind), "log.1.%u", i);
			w.keys[i] = key_of(GEN, kind);
		}
		start_waiting(&w);
		nanosleep(&some, NULL);
		assert_int_equal(record(ce, GEN, "log.1.200", "of no interest"), 1);
		snprintf(kind, sizeof(kind), "log.1.%u", round * 10);
		assert_int_equal(record(ce, GEN, kind, "x"), 1);
		assert_int_equal(pthread_join(w.thread, NULL), 0);
		assert_int_equal(w.result, 1);
	}
}

static void a_wait_has_an_end(void **state)
{
	struct coord_key key = key_of(GEN, "open");
	uint64_t soon = clock_mono_ns() + 300 * NSEC_PER_MSEC, one = 1;
	struct waiting w = {.keys = {key}, .nr = 1, .deadline_ns = in_s(1000)};

	(void)state;
	assert_int_equal(coord_etcd_ops.wait(ce, &key, 1, -1, 0), 0);
	assert_int_equal(coord_etcd_ops.wait(ce, &key, 1, -1, soon), 0);
	assert_true(clock_mono_ns() >= soon);
	w.wake = eventfd(0, EFD_CLOEXEC);
	start_waiting(&w);
	assert_int_equal(write(w.wake, &one, sizeof(one)), sizeof(one));
	assert_int_equal(pthread_join(w.thread, NULL), 0);
	assert_int_equal(w.result, 0);
	assert_int_equal(coord_etcd_ops.wait(ce, &key, 1, w.wake, in_s(1000)), 0);
	close(w.wake);
}

/* Lines of a stream until a key is in one: 1, or as etcd_stream_next. */
static int next_change(struct etcd_stream *s, int wake, uint64_t until_ns)
{
	struct etcd_answer a;
	size_t nr = 0;
	int r = 1;

	while (r == 1 && !nr) {
		r = etcd_stream_next(s, wake, until_ns, &a);
		nr = a.nr_kvs;
		etcd_answer_finish(&a);
	}
	return r;
}

/* Else it would be asked again and again. */
static void what_changes_comes_by_a_stream(void **state)
{
	struct etcd *etcd = reach(server.url);
	struct etcd_stream *s;
	char *key = etcd_base64("changes", strlen("changes")), *body, *put;
	int wake;

	(void)state;
	assert_true(asprintf(&put, "{\"key\": \"%s\"}", key) > 0);
	assert_true(asprintf(&body, "{\"create_request\": {\"key\": \"%s\"}}", key) > 0);
	s = etcd_stream_open(etcd, "watch", body);
	assert_int_equal(next_change(s, -1, clock_mono_ns() + 300 * NSEC_PER_MSEC), 0);
	ask_etcd(etcd, "kv/put", put);
	assert_int_equal(next_change(s, -1, in_s(1000)), 1);
	ask_etcd(etcd, "kv/put", put); /* and goes on */
	assert_int_equal(next_change(s, -1, in_s(1000)), 1);
	wake = eventfd(1, EFD_CLOEXEC); /* somebody has written to it */
	assert_int_equal(next_change(s, wake, in_s(1000)), 0);
	close(wake);
	etcd_stream_close(s);
	s = etcd_stream_open(etcd, "watch", "{");
	assert_true(next_change(s, -1, in_s(1000)) < 0);
	etcd_stream_close(s);
	free(key);
	free(body);
	free(put);
	etcd_destroy(etcd);
}

static void what_a_wait_has_found_is_read_without_asking(void **state)
{
	struct coord_key keys[] = {key_of(GEN, "log.1.9"), key_of(GEN, "log.1.10"),
				   key_of(GEN, "decision")};

	(void)state;
	assert_int_equal(
		coord_etcd_ops.wait(ce, keys, 3, -1, clock_mono_ns() + 300 * NSEC_PER_MSEC), 0);
	assert_int_equal(record(ce, GEN, "log.1.10", "ten"), 1);
	assert_int_equal(coord_etcd_ops.wait(ce, keys, 3, -1, in_s(1000)), 1);
	assert_false(keys[0].there);
	assert_true(keys[1].there);
	assert_false(keys[2].there);
	assert_int_equal(record(ce, GEN, "decision", "commit"), 1);
	assert_int_equal(coord_etcd_ops.wait(ce, &keys[2], 1, -1, in_s(1000)), 1);
	server_kill(&server);
	assert_true(read_is(ce, GEN, "log.1.10", "ten"));
	assert_true(read_is(ce, GEN, "decision", "commit"));
	assert_int_equal(read_err(ce, GEN, "log.1.9"), -EHOSTDOWN);
	assert_int_equal(coord_etcd_ops.wait(ce, NULL, 0, -1, 0),
			 0); /* it is kept no longer than for that */
	assert_int_equal(read_err(ce, GEN, "decision"), -EHOSTDOWN);
	server_start_alone(&server);
	WAIT_FOR(read_is(ce, GEN, "decision", "commit"));
}

/* Who clears up does not ask who waits. */
static void what_others_remove_is_not_found_again(void **state)
{
	struct coord_etcd *other = open_soon(server.url, uuid);
	struct coord_key key = key_of(GEN, "prepare");

	(void)state;
	assert_int_equal(record(ce, GEN, "prepare", "x"), 1);
	assert_int_equal(coord_etcd_ops.wait(ce, &key, 1, -1, in_s(1000)), 1);
	assert_int_equal(forget(other, GEN), 0);
	assert_int_equal(read_err(ce, GEN, "prepare"), -ENOENT);
	assert_int_equal(
		coord_etcd_ops.wait(ce, &key, 1, -1, clock_mono_ns() + 300 * NSEC_PER_MSEC), 0);
	assert_int_equal(record(other, GEN, "prepare", "y"), 1);
	assert_int_equal(coord_etcd_ops.wait(ce, &key, 1, -1, in_s(1000)), 1);
	assert_true(read_is(ce, GEN, "prepare", "y"));
	coord_etcd_close(other);
}

/* --- leases --- */

static int found_node(void *arg, const char *node)
{
	struct found *f = arg;

	snprintf(f->all[f->nr++ % ARRAY_SIZE(f->all)], sizeof(f->all[0]), "%s", node);
	return 0;
}

static void a_lease_lives_as_long_as_it_is_renewed(void **state)
{
	uint64_t until = in_s(2 * LEASE_S + 1);
	struct found f = {0};
	unsigned nr = 0;
	char text[32];

	(void)state;
	assert_int_equal(lease_err(ce, NODE), -ENOENT);
	while (clock_mono_ns() < until) {
		uint64_t begun = clock_mono_ns();

		snprintf(text, sizeof(text), "renewal %u", nr++);
		assert_int_equal(lease(ce, NODE, text), 0);
		if (!lease_is(ce, NODE, text))
			assert_true(clock_mono_ns() - begun > (LEASE_S - 1) * NSEC_PER_SEC);
	}
	assert_int_equal(coord_etcd_ops.lease_list(ce, found_node, &f), 0);
	assert_int_equal(f.nr, 1);
	assert_string_equal(f.all[0], NODE);
	WAIT_FOR(lease_err(ce, NODE) == -ENOENT);      /* nobody renews it */
	assert_int_equal(lease(ce, NODE, "again"), 0); /* whoever held it was only slow */
	assert_true(lease_is(ce, NODE, "again"));
	assert_int_equal(coord_etcd_ops.lease_end(ce, NODE), 0);
	assert_int_equal(lease_err(ce, NODE), -ENOENT);
	assert_int_equal(coord_etcd_ops.lease_end(ce, NODE), 0);
}

/* --- etcd goes away --- */

static unsigned times_in(const char *path, const char *what)
{
	FILE *f = fopen(path, "re");
	char line[4096];
	unsigned nr = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		nr += strstr(line, what) != NULL;
	fclose(f);
	return nr;
}

static void an_outage_is_told_once_and_loses_nothing(void **state)
{
	char log[PATH_MAX + 8], why[512] = "";
	struct coord_key key = key_of(GEN, "log.1.1");
	int err_fd = dup(STDERR_FILENO), fd;

	(void)state;
	snprintf(log, sizeof(log), "%s/told", server.dir);
	fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
	dup2(fd, STDERR_FILENO);
	assert_int_equal(record(ce, GEN, "open", "before"), 1);
	server_kill(&server);
	assert_int_equal(record(ce, GEN, "decision", "x"), -EHOSTDOWN);
	assert_int_equal(read_err(ce, GEN, "open"), -EHOSTDOWN);
	assert_int_equal(forget(ce, GEN), -EHOSTDOWN);
	assert_int_equal(lease(ce, NODE, "x"), -EHOSTDOWN);
	assert_int_equal(coord_etcd_ops.wait(ce, &key, 1, -1, in_s(1000)), -EHOSTDOWN);
	assert_true(coord_etcd_outage_ns(ce, why, sizeof(why)) > 0);
	assert_contains(why, server.url);
	assert_contains(why, "Connection refused");
	server_start_alone(&server);
	WAIT_FOR(record(ce, GEN, "decision", "x") == 1);
	assert_true(read_is(ce, GEN, "open", "before"));
	assert_int_equal(coord_etcd_outage_ns(ce, why, sizeof(why)), 0);
	dup2(err_fd, STDERR_FILENO);
	assert_int_equal(times_in(log, "cannot be used: etcd at"), 1);
	assert_int_equal(times_in(log, "is back"), 1);
	close(err_fd);
	close(fd);
}

static void a_wait_meets_an_outage(void **state)
{
	struct waiting w = {
		.keys = {key_of(GEN, "open")}, .nr = 1, .wake = -1, .deadline_ns = in_s(1000)};

	(void)state;
	start_waiting(&w);
	server_kill(&server);
	assert_int_equal(pthread_join(w.thread, NULL), 0);
	assert_int_equal(w.result, -EHOSTDOWN);
	server_start_alone(&server);
	WAIT_FOR(record(ce, GEN, "open", "x") == 1);
	assert_int_equal(coord_etcd_ops.wait(ce, w.keys, 1, -1, in_s(1000)), 1);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH(who_is_first_is_read_by_all),
		EACH(what_is_of_others_is_apart),
		EACH(records_may_be_long),
		EACH(what_cannot_be_a_record_is_refused),
		EACH(of_many_one_is_first),
		EACH(what_is_forgotten_is_gone),
		EACH(generations_are_listed_once),
		EACH(what_is_no_record_is_not_believed),
		EACH(nothing_is_made_of_what_is_over),
		EACH(one_that_is_there_is_not_waited_for),
		EACH(a_wait_ends_with_any_of_its_records),
		EACH(a_wait_has_an_end),
		EACH(what_changes_comes_by_a_stream),
		EACH(what_a_wait_has_found_is_read_without_asking),
		EACH(what_others_remove_is_not_found_again),
		EACH(a_lease_lives_as_long_as_it_is_renewed),
		EACH(an_outage_is_told_once_and_loses_nothing),
		EACH(a_wait_meets_an_outage),
	};

	if (!has_etcd()) {
		puts("no etcd here (package etcd-server)");
		return 77;
	}
	return cmocka_run_group_tests(tests, setup_server, teardown_server);
}
