/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/*
 * A service that is no etcd, or a broken one: whatever it answers, or if it does not, is an outage
 * with a reason.
 */
#include "tests/unit/etcd.h"

#include <pthread.h>

#define HEADER "\"header\": {\"cluster_id\": \"7\", \"revision\": \"5\"}"
#define GOOD   "{" HEADER "}"
#define KEY_64 "L2NrcHRmcy8xMTExMTExMS0yMjIyLTQzMzMtODQ0NC01NTU1NTU1NTU1NTUv" /* /ckptfs/UUID/ */

/* Answers each connection with @text and closes it. */
struct fake {
	pthread_t thread;
	int fd;
	char url[64];
	pthread_mutex_t lock;
	const char *text; /* lock */
	size_t endless;	  /* lock: bytes behind it */
	bool silent;	  /* lock */
	bool holds;	  /* lock: streams, as a proxy that wants to see their ends first */
	unsigned nr;	  /* lock: of requests */
};

static struct fake fake = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct coord_etcd *ce;

/* Until the whole request is there, which ends with }. Is it for a stream? */
static bool take_request(int fd)
{
	char buf[262144];
	size_t len = 0;
	ssize_t n;

	while (len < sizeof(buf) - 1 && (n = read(fd, buf + len, sizeof(buf) - 1 - len)) > 0) {
		len += (size_t)n;
		buf[len] = '\0';
		if (strstr(buf, "\r\n\r\n") && buf[len - 1 - (buf[len - 1] == '\n')] == '}')
			break;
	}
	return len && !strncmp(buf, "POST /v3/watch ", 15);
}

static void *serve(void *arg)
{
	struct fake *f = arg;
	static char filler[65536];
	int fd;

	while ((fd = accept(f->fd, NULL, NULL)) >= 0) {
		const char *text;
		size_t endless;
		bool silent, stream;
		char c;

		stream = take_request(fd);
		pthread_mutex_lock(&f->lock);
		if (f->holds && stream) {
			pthread_mutex_unlock(&f->lock);
			continue; /* it stays open */
		}
		text = f->text;
		endless = f->endless;
		silent = f->silent;
		f->nr++;
		pthread_mutex_unlock(&f->lock);
		if (silent)
			while (read(fd, &c, 1) > 0)
				;
		else if (write(fd, text, strlen(text)) < 0)
			endless = 0;
		for (; endless > sizeof(filler); endless -= sizeof(filler))
			if (send(fd, filler, sizeof(filler), MSG_NOSIGNAL) < 0)
				break;
		close(fd);
	}
	return NULL;
}

static void answer_raw(const char *text)
{
	MUTEX_SCOPE(&fake.lock);
	fake.text = text;
	fake.silent = false;
	fake.endless = 0;
}

static void answer(const char *status, const char *body)
{
	static char text[131072];

	snprintf(text, sizeof(text),
		 "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s", status,
		 strlen(body), body);
	answer_raw(text);
}

static int setup_fake(void **state)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(sa);

	(void)state;
	fake.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fake.fd, (struct sockaddr *)&sa, len), 0);
	assert_int_equal(listen(fake.fd, 16), 0);
	assert_int_equal(getsockname(fake.fd, (struct sockaddr *)&sa, &len), 0);
	snprintf(fake.url, sizeof(fake.url), "http://127.0.0.1:%d", ntohs(sa.sin_port));
	answer("200 OK", GOOD);
	assert_int_equal(pthread_create(&fake.thread, NULL, serve, &fake), 0);
	return try_open(&ce, fake.url, UUID);
}

static int teardown_fake(void **state)
{
	(void)state;
	coord_etcd_close(ce);
	shutdown(fake.fd, SHUT_RDWR);
	pthread_join(fake.thread, NULL);
	close(fake.fd);
	return 0;
}

/* All of it fails, for the reason @why. */
static void assert_outage(const char *why)
{
	struct coord_key key = key_of(GEN, "open");
	char told[512] = "";

	assert_int_equal(read_err(ce, GEN, "open"), -EHOSTDOWN);
	assert_int_equal(record(ce, GEN, "open", "x"), -EHOSTDOWN);
	assert_int_equal(forget(ce, GEN), -EHOSTDOWN);
	assert_int_equal(lease(ce, NODE, "x"), -EHOSTDOWN);
	assert_int_equal(coord_etcd_ops.lease_end(ce, NODE), -EHOSTDOWN);
	assert_int_equal(coord_etcd_ops.wait(ce, &key, 1, -1, in_s(1000)), -EHOSTDOWN);
	assert_true(coord_etcd_outage_ns(ce, told, sizeof(told)) > 0);
	assert_contains(told, fake.url);
	assert_contains(told, why);
}

static void what_is_no_answer_of_etcd_is_an_outage(void **state)
{
	static const char *const bodies[] = {
		"",
		"garbage",
		"<html>Bad Gateway</html>",
		"{}",
		"[]",
		"null",
		"{\"header\": 1}",
		"{\"header\": {\"revision\": \"5\"}}",
		"{\"header\": {\"cluster_id\": \"x\", \"revision\": \"5\"}}",
		"{\"header\": {\"cluster_id\": \"-1\", \"revision\": \"5\"}}",
		"{\"header\": {\"cluster_id\": \"99999999999999999999999\", \"revision\": \"5\"}}",
		"{\"header\": {\"cluster_id\": \"7\", \"revision\": \"0\"}}",
		"{\"header\": {\"cluster_id\": \"7\", \"revision\": \"9223372036854775807\"}}",
		"{\"error\": \"x\"}",
		"{\"error\": {\"grpc_code\": -1}}",
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(bodies); i++) {
		answer("200 OK", bodies[i]);
		assert_outage("is not what etcd v3 does");
	}
	answer("404 Not Found", "404 page not found\n");
	assert_outage("HTTP status 404");
}

static void so_is_what_is_not_believed_of_one(void **state)
{
	static const char *const ranges[] = {
		"{" HEADER ", \"kvs\": 1}",
		"{" HEADER ", \"kvs\": [1]}",
		"{" HEADER ", \"kvs\": [{}]}",
		"{" HEADER ", \"kvs\": [{\"key\": \"*\"}]}",
		"{" HEADER ", \"kvs\": [{\"key\": \"YQ\"}]}",
		"{" HEADER ", \"kvs\": [{\"key\": \"YQBi\"}]}", /* a NUL in it */
		"{" HEADER ", \"kvs\": [{\"key\": \"YWFh\", \"value\": 7}]}",
		"{" HEADER ", \"more\": 1}",
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(ranges); i++) {
		answer("200 OK", ranges[i]);
		assert_int_equal(read_err(ce, GEN, "open"), -EHOSTDOWN);
	}
	answer("200 OK", "{" HEADER ", \"kvs\": [{\"key\": \"YWFh\", \"value\": \"YWFh\"}]}");
	assert_int_equal(read_err(ce, GEN, "open"), -EPERM); /* another key than was asked for */
	answer("200 OK", GOOD);
	assert_int_equal(read_err(ce, GEN, "open"), -ENOENT);
	assert_int_equal(record(ce, GEN, "open", "x"), -EIO); /* neither made nor there */
}

static int found(void *arg, uid_t owner, const char *gen)
{
	(void)arg;
	(void)owner;
	(void)gen;
	return 0;
}

static void a_listing_has_an_end(void **state)
{
	(void)state;
	answer("200 OK", "{" HEADER ", \"more\": true}");
	assert_int_equal(coord_etcd_ops.list(ce, found, NULL), -EBADMSG);
	/* The same again and again: /ckptfs/UUID/txn/0 */
	answer("200 OK",
	       "{" HEADER ", \"more\": true, \"kvs\": [{\"key\": \"" KEY_64 "dHhuLzA=\"}]}");
	assert_int_equal(coord_etcd_ops.list(ce, found, NULL), -EBADMSG);
	answer("200 OK", "{" HEADER ", \"kvs\": [{\"key\": \"YWFh\"}]}"); /* from elsewhere */
	assert_int_equal(coord_etcd_ops.list(ce, found, NULL), -EBADMSG);
}

static void what_is_no_http_is_an_outage(void **state)
{
	(void)state;
	answer_raw("SSH-2.0-OpenSSH_9.2p1\r\n");
	assert_outage("etcd at");
	answer_raw("");
	assert_outage("Empty reply");
	answer_raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"header\"");
	assert_outage("etcd at");
	answer_raw(
		"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n");
	assert_outage("HTTP status 302");
}

static void an_endless_answer_is_an_outage(void **state)
{
	char why[512] = "";

	(void)state;
	answer_raw("HTTP/1.1 200 OK\r\n\r\n");
	{
		MUTEX_SCOPE(&fake.lock);
		fake.endless = 64u << 20;
	}
	assert_int_equal(read_err(ce, GEN, "open"), -EHOSTDOWN);
	assert_true(coord_etcd_outage_ns(ce, why, sizeof(why)) > 0);
	assert_contains(why, "too long");
}

static void who_is_silent_holds_nobody(void **state)
{
	char why[512] = "";

	(void)state;
	answer_raw("");
	{
		MUTEX_SCOPE(&fake.lock);
		fake.silent = true;
	}
	assert_int_equal(read_err(ce, GEN, "open"), -EHOSTDOWN);
	assert_true(coord_etcd_outage_ns(ce, why, sizeof(why)) > 0);
	assert_contains(why, "did not answer in time");
}

static void another_cluster_is_no_member(void **state)
{
	(void)state;
	answer("200 OK", "{\"header\": {\"cluster_id\": \"8\", \"revision\": \"5\"}}");
	assert_outage("another cluster");
}

static void what_etcd_does_not_like_is_told(void **state)
{
	(void)state;
	answer("403 Forbidden", "{\"error\": \"etcdserver: permission denied\", \"code\": 7}");
	assert_outage("etcdserver: permission denied");
	answer("503 Service Unavailable", "{\"error\": \"etcdserver: no leader\", \"code\": 14}");
	assert_outage("etcdserver: no leader");
	answer("200 OK", "{\"error\": {\"grpc_code\": 8, \"message\": \"no\\nspace\"}}");
	assert_outage("no space"); /* in one line of the log */
	/* As etcd 3.6 has it. */
	answer("403 Forbidden",
	       "{\"code\": 7, \"message\": \"permission denied\", \"details\": []}");
	assert_outage("permission denied");
	answer("200 OK", "{\"error\": {\"code\": 14, \"message\": \"gone\"}}");
	assert_outage("gone");
}

/* There is such a record. */
static void answer_open(void)
{
	char path[256], body[1024], *name;

	snprintf(path, sizeof(path), "/ckptfs/%s/txn/1000/%s.open", UUID, GEN);
	name = etcd_base64(path, strlen(path));
	snprintf(body, sizeof(body),
		 "{" HEADER
		 ", \"responses\": [{\"response_range\": {\"kvs\": [{\"key\": \"%s\"}]}}]}",
		 name);
	free(name);
	answer("200 OK", body);
}

/* Without streams a record is found by asking again. */
static void a_wait_does_without_streams(void **state)
{
	struct coord_key key = key_of(GEN, "open");
	uint64_t until = clock_mono_ns() + 700 * NSEC_PER_MSEC;
	unsigned nr;

	(void)state;
	answer("200 OK", GOOD); /* which is none of a stream */
	{
		MUTEX_SCOPE(&fake.lock);
		fake.nr = 0;
	}
	assert_int_equal(coord_etcd_ops.wait(ce, &key, 1, -1, until), 0);
	{
		MUTEX_SCOPE(&fake.lock);
		nr = fake.nr;
	}
	assert_true(nr >= 2 && nr < 20); /* and not without a pause */
	answer_open();
	assert_int_equal(coord_etcd_ops.wait(ce, &key, 1, -1, in_s(1000)), 1);
	coord_etcd_ops.wait(ce, NULL, 0, -1, 0);
	/* The same where a stream never begins. */
	{
		MUTEX_SCOPE(&fake.lock);
		fake.holds = true;
	}
	answer("200 OK", GOOD);
	until = clock_mono_ns() + 700 * NSEC_PER_MSEC;
	assert_int_equal(coord_etcd_ops.wait(ce, &key, 1, -1, until), 0);
	answer_open();
	assert_int_equal(coord_etcd_ops.wait(ce, &key, 1, -1, in_s(1000)), 1);
}

static void nobody_there_is_told_at_once(void **state)
{
	struct coord_etcd *none;
	struct error e;
	char url[64];

	(void)state;
	snprintf(url, sizeof(url), "http://127.0.0.1:%d", free_port());
	assert_int_equal(coord_etcd_open(&none, url, UUID, 30, &e), -EHOSTDOWN);
	assert_contains(e.text, url);
	assert_contains(e.text, "Connection refused");
	assert_int_equal(coord_etcd_open(&none, "https://127.0.0.1:1,x", UUID, 30, &e), -EINVAL);
	assert_contains(e.text, "coord=etcd:https://127.0.0.1:1,x");
	/* TLS is asked of one that has none. */
	snprintf(url, sizeof(url), "https%.50s", fake.url + 4);
	answer("200 OK", GOOD);
	assert_int_equal(coord_etcd_open(&none, url, UUID, 30, &e), -EHOSTDOWN);
	assert_contains(e.text, "etcd at https");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_no_answer_of_etcd_is_an_outage),
		cmocka_unit_test(so_is_what_is_not_believed_of_one),
		cmocka_unit_test(a_listing_has_an_end),
		cmocka_unit_test(what_is_no_http_is_an_outage),
		cmocka_unit_test(an_endless_answer_is_an_outage),
		cmocka_unit_test(who_is_silent_holds_nobody),
		cmocka_unit_test(another_cluster_is_no_member),
		cmocka_unit_test(what_etcd_does_not_like_is_told),
		cmocka_unit_test(a_wait_does_without_streams),
		cmocka_unit_test(nobody_there_is_told_at_once),
	};

	return cmocka_run_group_tests(tests, setup_fake, teardown_fake);
}
