/* SPDX-License-Identifier: MIT */
/*
 * Real etcds on loopback, each a child of the test with a directory and two ports of its own, and
 * what is asked of them.
 */
#ifndef TESTS_UNIT_ETCD_H
#define TESTS_UNIT_ETCD_H

#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/coord/coord_etcd.h"
#include "engine/coord/etcd_http.h"

#define GEN	"0123456789abcdef0123456789abcdef"
#define GEN_2	"ffffffffffffffffffffffffffffffff"
#define NODE	"00000000000000000000000000000001"
#define UUID	"11111111-2222-4333-8444-555555555555"
#define READY_S 60
#define LEASE_S 2 /* the least that etcd has */

struct server {
	char dir[PATH_MAX], url[64], peer[64], name[16];
	const char *args[16]; /* beside those that each has; ends with NULL */
	pid_t pid;
};

static inline bool has_etcd(void)
{
	return !system("command -v etcd >/dev/null");
}

static inline int free_port(void)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	close(fd);
	return ntohs(sa.sin_port);
}

static inline void server_init(struct server *s, const char *name, const char *scheme)
{
	memset(s, 0, sizeof(*s));
	scratch_dir(s->dir);
	snprintf(s->name, sizeof(s->name), "%s", name);
	snprintf(s->url, sizeof(s->url), "%s://127.0.0.1:%d", scheme, free_port());
	snprintf(s->peer, sizeof(s->peer), "http://127.0.0.1:%d", free_port());
}

/* @cluster: NAME=PEER,... of all members. It may not answer yet. */
static inline void server_start(struct server *s, const char *cluster)
{
	const char *argv[40] = {"etcd",	 "--name",
				s->name, "--data-dir",
				s->dir,	 "--listen-client-urls",
				s->url,	 "--advertise-client-urls",
				s->url,	 "--listen-peer-urls",
				s->peer, "--initial-advertise-peer-urls",
				s->peer, "--initial-cluster",
				cluster, "--heartbeat-interval",
				"50",	 "--election-timeout",
				"500"};
	char log[PATH_MAX + 16];
	size_t n = 0, i;

	while (argv[n])
		n++;
	for (i = 0; s->args[i]; i++)
		argv[n++] = s->args[i];
	snprintf(log, sizeof(log), "%s/log", s->dir);
	s->pid = fork();
	assert_true(s->pid >= 0);
	if (s->pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setenv("GOMAXPROCS", "1", 1); /* many run beside each other */
	n = (size_t)open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
	dup2((int)n, STDOUT_FILENO);
	dup2((int)n, STDERR_FILENO);
	execvp(argv[0], (char **)argv);
	_exit(127);
}

static inline void server_start_alone(struct server *s)
{
	char cluster[128];

	snprintf(cluster, sizeof(cluster), "%s=%s", s->name, s->peer);
	server_start(s, cluster);
}

static inline void server_kill(struct server *s)
{
	if (s->pid <= 0)
		return;
	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
	s->pid = 0;
}

static inline void nap(void)
{
	const struct timespec nap = {.tv_nsec = 20 * NSEC_PER_MSEC};

	nanosleep(&nap, NULL);
}

/* Waits until @cond holds. */
#define WAIT_FOR(cond) \
	do { \
		uint64_t until_ = clock_mono_ns() + READY_S * NSEC_PER_SEC; \
		while (!(cond)) { \
			if (clock_mono_ns() > until_) \
				fail_msg("never: %s", #cond); \
			nap(); \
		} \
	} while (0)

static inline int try_open(struct coord_etcd **ce, const char *spec, const char *uuid)
{
	struct error e;

	*ce = NULL;
	return coord_etcd_open(ce, spec, uuid, LEASE_S, &e);
}

/* Opens what will be there. */
static inline struct coord_etcd *open_soon(const char *spec, const char *uuid)
{
	struct coord_etcd *ce;

	WAIT_FOR(!try_open(&ce, spec, uuid));
	return ce;
}

/* --- verbs --- */

static char first[COORD_TEXT_MAX];
static size_t first_len;

static inline int record(struct coord_etcd *ce, const char *gen, const char *kind, const char *text)
{
	const struct caller me = {.uid = 1000, .gid = 1000, .pid = 0};

	return coord_etcd_ops.record(ce, &me, gen, kind, text, strlen(text), first, &first_len);
}

static inline bool first_is(const char *text)
{
	return first_len == strlen(text) && !memcmp(first, text, first_len);
}

static inline bool read_is(struct coord_etcd *ce, const char *gen, const char *kind,
			   const char *text)
{
	char buf[COORD_TEXT_MAX];
	ssize_t n = coord_etcd_ops.read(ce, 1000, gen, kind, buf, sizeof(buf));

	return n == (ssize_t)strlen(text) && !memcmp(buf, text, (size_t)n);
}

static inline int read_err(struct coord_etcd *ce, const char *gen, const char *kind)
{
	char buf[COORD_TEXT_MAX];

	return (int)coord_etcd_ops.read(ce, 1000, gen, kind, buf, sizeof(buf));
}

static inline int forget(struct coord_etcd *ce, const char *gen)
{
	const struct caller me = {.uid = 1000, .gid = 1000, .pid = 0};

	return coord_etcd_ops.forget(ce, &me, gen);
}

static inline int lease(struct coord_etcd *ce, const char *node, const char *text)
{
	return coord_etcd_ops.lease(ce, node, text, strlen(text));
}

static inline bool lease_is(struct coord_etcd *ce, const char *node, const char *text)
{
	char buf[COORD_LEASE_MAX];
	ssize_t n = coord_etcd_ops.lease_read(ce, node, buf, sizeof(buf));

	return n == (ssize_t)strlen(text) && !memcmp(buf, text, (size_t)n);
}

static inline int lease_err(struct coord_etcd *ce, const char *node)
{
	char buf[COORD_LEASE_MAX];

	return (int)coord_etcd_ops.lease_read(ce, node, buf, sizeof(buf));
}

static inline struct coord_key key_of(const char *gen, const char *kind)
{
	struct coord_key k = {.owner = 1000};

	snprintf(k.gen, sizeof(k.gen), "%s", gen);
	snprintf(k.kind, sizeof(k.kind), "%s", kind);
	return k;
}

static inline uint64_t in_s(unsigned s)
{
	return clock_mono_ns() + s * NSEC_PER_SEC;
}

/* Asks etcd itself: what no part of ckptfs does. */
static inline void ask_etcd(struct etcd *etcd, const char *path, const char *body)
{
	const struct etcd_request r = {.path = path, .body = body, .kind = ETCD_RANGE};
	struct etcd_answer a;

	if (etcd_call(etcd, &r, -1, &a))
		fail_msg("%s: %s", path, a.error);
	etcd_answer_finish(&a);
}

static inline struct etcd *reach(const char *spec)
{
	struct etcd_config c;
	struct error e;
	struct etcd *etcd;

	if (etcd_config_read(&c, spec, &e))
		fail_msg("%s", e.text);
	etcd = etcd_create(&c);
	assert_non_null(etcd);
	return etcd;
}

#endif
