/* SPDX-License-Identifier: MIT */
/*
 * A daemon in the process of the test, for libckptfs: it answers the ioctls, lends a memfd, and
 * puts what was copied there into real files. What it does and refuses is set by the fields of
 * `daemon`.
 */
#ifndef TESTS_UNIT_CLIENT_DAEMON_H
#define TESTS_UNIT_CLIENT_DAEMON_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef DAEMON_WITHOUT_CMOCKA /* for programs that run where nothing is installed */
#define assert_true(true_) \
	do { \
		if (!(true_)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #true_); \
			abort(); \
		} \
	} while (0)
#define assert_non_null(pointer)	assert_true((pointer) != NULL)
#define assert_int_equal(a, b)		assert_true((uint64_t)(a) == (uint64_t)(b))
#define assert_memory_equal(a, b, size) assert_true(!memcmp(a, b, size))
#define fail_msg(...)			(fprintf(stderr, __VA_ARGS__), abort())
#else
#include <cmocka.h>
#endif

#include "client/ckptfs.h"
#include "client/wire.h"

#define SESSION	  7
#define SLOTS_MAX 64
#define HELPER	  __attribute__((unused)) static

struct daemon_capture {
	struct ckptfs_capture c;
	uint64_t granted, landed;
	int fd;
	bool over;
};

struct daemon_grant {
	struct ckptfs_grant g;
	unsigned slot;
	bool done;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	char top[256];
	int control, listener, memory;
	char *arena;
	pthread_t giver;
	bool giving;
	bool busy[SLOTS_MAX];
	struct ckptfs_hello hello; /* as it came */
	struct daemon_capture *captures;
	size_t nr_captures, room_captures, first_open;
	struct daemon_grant *grants;
	size_t nr_grants, room_grants;
	uint64_t ids[1024];
	unsigned nr_ids;
	/* what was said */
	unsigned nr_nexts,
		nr_lazy;     /* questions, and those that wait while what was granted is not done */
	unsigned nr_unheard; /* reports, of one that is deaf */
	unsigned nr_fails, nr_barriers, nr_byes, nr_waiting, nr_registers, nr_most_pending;
	struct ckptfs_fail fail; /* the first */
	struct ckptfs_barrier barrier;
	/* what it is to do */
	uint32_t abi, slot_bytes, nr_slots, check;
	int seals, socket_type;
	off_t memory_off;     /* from what it says */
	bool hold;	      /* grants nothing */
	bool sink;	      /* what is captured goes nowhere */
	bool stuck;	      /* NEXT does not return */
	bool deaf;	      /* NEXT does not take what is done */
	bool ragged;	      /* pieces of any length, in any order */
	unsigned grants_left; /* then it holds */
	int next_err, write_err, register_err;
	unsigned writes_before_err, registers_before_err;
	int give_up; /* ends each capture after its first piece with this */
	unsigned seed;
} daemon_;

static bool fake_is_ckptfs(int fd)
{
	(void)fd;
	return true;
}

/* --- the socket --- */

static void *give(void *arg)
{
	int to = accept4(daemon_.listener, NULL, NULL, SOCK_CLOEXEC);
	char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &daemon_.memory, sizeof(int));
	if (to >= 0) {
		sendmsg(to, &m, MSG_NOSIGNAL);
		close(to);
	}
	return arg;
}

static void listen_locked(struct ckptfs_hello *h)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	daemon_.memory = memfd_create("arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(daemon_.memory, (off_t)daemon_.slot_bytes * daemon_.nr_slots +
							   daemon_.memory_off),
			 0);
	daemon_.arena = mmap(NULL, (size_t)daemon_.slot_bytes * daemon_.nr_slots,
			     PROT_READ | PROT_WRITE, MAP_SHARED, daemon_.memory, 0);
	assert_int_equal(fcntl(daemon_.memory, F_ADD_SEALS, daemon_.seals), 0);
	strcpy(h->socket, "arena-7");
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/%s", daemon_.control, h->socket);
	daemon_.listener = socket(AF_UNIX, daemon_.socket_type | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(daemon_.listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(daemon_.listener, 1), 0);
	assert_int_equal(pthread_create(&daemon_.giver, NULL, give, NULL), 0);
	daemon_.giving = true;
}

static int hello_locked(struct ckptfs_hello *h)
{
	daemon_.hello = *h;
	if (h->abi != daemon_.abi) {
		h->abi = daemon_.abi;
		return -EPROTO;
	}
	h->session = SESSION;
	h->slot_bytes = daemon_.slot_bytes;
	h->nr_slots = daemon_.nr_slots;
	h->check = daemon_.check;
	listen_locked(h);
	return 0;
}

/* --- tensors --- */

static int id_at_locked(uint64_t id)
{
	for (unsigned i = 0; i < daemon_.nr_ids; i++)
		if (daemon_.ids[i] == id)
			return (int)i;
	return -1;
}

static int register_locked(const struct ckptfs_register *r)
{
	size_t names = r->nr * sizeof(struct ckptfs_tensor);

	daemon_.nr_registers++;
	if (daemon_.register_err && daemon_.registers_before_err-- == 0)
		return daemon_.register_err;
	for (unsigned i = 0; i < r->nr; i++) {
		struct ckptfs_tensor t;

		memcpy(&t, r->data + i * sizeof(t), sizeof(t));
		assert_true(t.name_len > 0 && names + t.name_len <= r->bytes);
		names += t.name_len;
		if (id_at_locked(t.id) >= 0)
			return -EEXIST;
		assert_true(daemon_.nr_ids < 1024);
		daemon_.ids[daemon_.nr_ids++] = t.id;
	}
	assert_int_equal(names, r->bytes);
	return 0;
}

static int unregister_locked(const struct ckptfs_unregister *u)
{
	for (unsigned i = 0; i < u->nr; i++) {
		int at = id_at_locked(u->ids[i]);

		if (at < 0)
			return -EBADF;
		daemon_.ids[at] = daemon_.ids[--daemon_.nr_ids];
	}
	return 0;
}

/* --- captures --- */

static int write_locked(int fd, const struct ckptfs_write *w)
{
	size_t pending = 0;

	if (daemon_.write_err && daemon_.writes_before_err-- == 0)
		return daemon_.write_err;
	for (unsigned i = 0; i < w->nr; i++)
		if (id_at_locked(w->captures[i].id) < 0)
			return -EBADF;
	for (size_t i = daemon_.first_open; i < daemon_.nr_captures; i++)
		pending += !daemon_.captures[i].over;
	if (pending + w->nr > CKPTFS_CAPTURES_MAX)
		return -EAGAIN;
	if (pending + w->nr > daemon_.nr_most_pending)
		daemon_.nr_most_pending = pending + w->nr;
	for (unsigned i = 0; i < w->nr; i++) {
		assert_int_equal(w->captures[i].seq, daemon_.nr_captures + 1);
		assert_true(w->captures[i].len > 0);
		if (daemon_.nr_captures == daemon_.room_captures) {
			daemon_.room_captures = 2 * daemon_.room_captures + 64;
			daemon_.captures =
				realloc(daemon_.captures,
					daemon_.room_captures * sizeof(*daemon_.captures));
		}
		daemon_.captures[daemon_.nr_captures++] =
			(struct daemon_capture){.c = w->captures[i], .fd = fd};
	}
	return 0;
}

static void end_locked(struct daemon_capture *c)
{
	c->over = true;
	while (daemon_.first_open < daemon_.nr_captures &&
	       daemon_.captures[daemon_.first_open].over)
		daemon_.first_open++;
}

static void done_locked(const struct ckptfs_done *d)
{
	struct daemon_grant *g;
	struct daemon_capture *c;

	assert_true(d->nr > 0 && d->nr <= daemon_.nr_grants);
	g = &daemon_.grants[d->nr - 1];
	if (g->done)
		return;
	g->done = true;
	if (!g->g.len)
		return;
	c = &daemon_.captures[g->g.seq - 1];
	assert_true(d->begin_ns && d->begin_ns <= d->end_ns);
	if (!daemon_.sink) {
		assert_int_equal(pwrite(c->fd, daemon_.arena + g->g.arena_off, g->g.len,
					(off_t)(c->c.file_off + g->g.src_off - c->c.src_off)),
				 g->g.len);
		/* So that a copy that is late, or goes to a place that is not its own, shows. */
		memset(daemon_.arena + g->g.arena_off, 0xee, g->g.len);
	}
	daemon_.busy[g->slot] = false;
	c->landed += g->g.len;
	if (c->landed == c->c.len)
		end_locked(c);
}

static struct daemon_capture *wanting_locked(void)
{
	size_t from = daemon_.first_open, n = daemon_.nr_captures - from;
	size_t start = daemon_.ragged && n ? (size_t)rand_r(&daemon_.seed) % n : 0;

	for (size_t i = 0; i < n; i++) {
		struct daemon_capture *c = &daemon_.captures[from + (start + i) % n];

		if (!c->over && c->granted < c->c.len)
			return c;
	}
	return NULL;
}

static int free_slot_locked(void)
{
	for (unsigned i = 0; i < daemon_.nr_slots; i++)
		if (!daemon_.busy[i])
			return (int)i;
	return -1;
}

static struct daemon_grant *grant_create_locked(const struct ckptfs_grant *g)
{
	if (daemon_.nr_grants == daemon_.room_grants) {
		daemon_.room_grants = 2 * daemon_.room_grants + 64;
		daemon_.grants =
			realloc(daemon_.grants, daemon_.room_grants * sizeof(*daemon_.grants));
	}
	daemon_.grants[daemon_.nr_grants] = (struct daemon_grant){.g = *g};
	daemon_.grants[daemon_.nr_grants].g.nr = daemon_.nr_grants + 1;
	return &daemon_.grants[daemon_.nr_grants++];
}

static bool grant_locked(struct ckptfs_grant *g)
{
	struct daemon_capture *c = wanting_locked();
	int slot = free_slot_locked();
	uint64_t left, len;

	if (daemon_.hold || !c)
		return false;
	left = c->c.len - c->granted;
	if (daemon_.give_up && c->granted) {
		*g = grant_create_locked(&(struct ckptfs_grant){.seq = c->c.seq,
								.err = (uint32_t)daemon_.give_up})
			     ->g;
		end_locked(c);
		return true;
	}
	if (slot < 0)
		return false;
	len = left < daemon_.slot_bytes ? left : daemon_.slot_bytes;
	if (daemon_.ragged)
		len = 1 + (uint64_t)rand_r(&daemon_.seed) % len;
	struct daemon_grant *made = grant_create_locked(
		&(struct ckptfs_grant){.seq = c->c.seq,
				       .src_off = c->c.src_off + c->granted,
				       .arena_off = (uint64_t)slot * daemon_.slot_bytes,
				       .len = (uint32_t)len});

	made->slot = (unsigned)slot;
	daemon_.busy[slot] = true;
	c->granted += len;
	*g = made->g;
	if (daemon_.grants_left && --daemon_.grants_left == 0)
		daemon_.hold = true;
	return true;
}

HELPER bool wait_until_locked(const struct timespec *until)
{
	return pthread_cond_timedwait(&daemon_.changed, &daemon_.lock, until) != ETIMEDOUT;
}

static int next_locked(struct ckptfs_next *n)
{
	struct timespec until;
	bool waits = n->nr_done == 0 && n->wait_ms;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += n->wait_ms / 1000;
	until.tv_nsec += n->wait_ms % 1000 * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	daemon_.nr_unheard += n->nr_done;
	pthread_cond_broadcast(&daemon_.changed);
	while (daemon_.deaf && n->nr_done)
		pthread_cond_wait(&daemon_.changed, &daemon_.lock);
	daemon_.nr_unheard -= n->nr_done;
	if (!daemon_.next_err)
		for (unsigned i = 0; i < n->nr_done; i++)
			done_locked(&n->done[i]);
	n->nr_grants = 0;
	daemon_.nr_nexts++;
	for (unsigned i = 0; i < daemon_.nr_slots; i++)
		daemon_.nr_lazy += waits && daemon_.busy[i];
	daemon_.nr_waiting += waits;
	pthread_cond_broadcast(&daemon_.changed);
	do {
		while (daemon_.stuck)
			pthread_cond_wait(&daemon_.changed, &daemon_.lock);
		if (daemon_.next_err)
			break;
		while (n->nr_grants < CKPTFS_GRANTS_MAX && grant_locked(&n->grants[n->nr_grants]))
			n->nr_grants++;
	} while (waits && !n->nr_grants && wait_until_locked(&until));
	daemon_.nr_waiting -= waits;
	return daemon_.next_err;
}

static int fail_locked(const struct ckptfs_fail *f)
{
	if (daemon_.nr_fails++ == 0)
		daemon_.fail = *f;
	if (f->seq < 1 || f->seq > daemon_.nr_captures)
		return -EBADF;
	end_locked(&daemon_.captures[f->seq - 1]);
	for (size_t i = 0; i < daemon_.nr_grants; i++) {
		struct daemon_grant *g = &daemon_.grants[i];

		if (g->g.seq != f->seq || g->done || !g->g.len)
			continue;
		g->done = true;
		daemon_.busy[g->slot] = false;
	}
	return 0;
}

static int fake_ioctl(int fd, unsigned long request, void *arg)
{
	int err = -ENOTTY;

	if (request == CKPTFS_IOC_WRITE)
		sched_yield(); /* so that who does not keep the order of captures is overtaken */
	pthread_mutex_lock(&daemon_.lock);
	switch (request) {
	case CKPTFS_IOC_HELLO:
		err = hello_locked(arg);
		break;
	case CKPTFS_IOC_REGISTER:
		err = register_locked(arg);
		break;
	case CKPTFS_IOC_UNREGISTER:
		err = unregister_locked(arg);
		break;
	case CKPTFS_IOC_WRITE:
		err = write_locked(fd, arg);
		break;
	case CKPTFS_IOC_NEXT:
		err = next_locked(arg);
		break;
	case CKPTFS_IOC_FAIL:
		err = fail_locked(arg);
		break;
	case CKPTFS_IOC_BARRIER:
		daemon_.nr_barriers++;
		daemon_.barrier = *(struct ckptfs_barrier *)arg;
		err = 0;
		break;
	case CKPTFS_IOC_BYE:
		daemon_.nr_byes++;
		err = 0;
		break;
	}
	pthread_cond_broadcast(&daemon_.changed);
	pthread_mutex_unlock(&daemon_.lock);
	return err;
}

static const struct ckpt_wire fake_wire = {.ioctl = fake_ioctl, .is_ckptfs = fake_is_ckptfs};

/* --- for tests --- */

HELPER int daemon_setup(void **state)
{
	const char *tmp = getenv("TEST_TMP");
	pthread_condattr_t attr;
	char path[300];

	(void)state;
	memset(&daemon_, 0, sizeof(daemon_));
	pthread_mutex_init(&daemon_.lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&daemon_.changed, &attr);
	pthread_condattr_destroy(&attr);
	snprintf(daemon_.top, sizeof(daemon_.top), "%s/mount-XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(daemon_.top));
	snprintf(path, sizeof(path), "%s/" CKPTFS_CONTROL_DIR, daemon_.top);
	assert_int_equal(mkdir(path, 0755), 0);
	daemon_.control = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	close(openat(daemon_.control, CKPTFS_CTL, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	daemon_.abi = CKPTFS_ABI_VERSION;
	daemon_.slot_bytes = 4096;
	daemon_.nr_slots = 8;
	daemon_.check = CKPTFS_CHECK_SAMPLE;
	daemon_.seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	daemon_.socket_type = SOCK_STREAM;
	daemon_.listener = daemon_.memory = -1;
	daemon_.seed = 1;
	ckpt_wire = &fake_wire;
	return 0;
}

static void remove_socket(void)
{
	if (daemon_.giving)
		pthread_join(daemon_.giver, NULL);
	daemon_.giving = false;
	unlinkat(daemon_.control, "arena-7", 0);
}

HELPER int daemon_teardown(void **state)
{
	char command[300];

	(void)state;
	remove_socket();
	if (daemon_.arena)
		munmap(daemon_.arena, (size_t)daemon_.slot_bytes * daemon_.nr_slots);
	if (daemon_.listener >= 0)
		close(daemon_.listener);
	if (daemon_.memory >= 0)
		close(daemon_.memory);
	close(daemon_.control);
	free(daemon_.captures);
	free(daemon_.grants);
	pthread_cond_destroy(&daemon_.changed);
	pthread_mutex_destroy(&daemon_.lock);
	snprintf(command, sizeof(command), "rm -rf '%s'", daemon_.top);
	return system(command);
}

#define DAEMON_TEST(f) cmocka_unit_test_setup_teardown(f, daemon_setup, daemon_teardown)

/* Changes what the daemon does, under its lock, and wakes who waits in it. */
#define DAEMON_SET(what) \
	do { \
		pthread_mutex_lock(&daemon_.lock); \
		what; \
		pthread_cond_broadcast(&daemon_.changed); \
		pthread_mutex_unlock(&daemon_.lock); \
	} while (0)

#define DAEMON_WAIT(condition) \
	do { \
		pthread_mutex_lock(&daemon_.lock); \
		while (!(condition)) \
			pthread_cond_wait(&daemon_.changed, &daemon_.lock); \
		pthread_mutex_unlock(&daemon_.lock); \
	} while (0)

HELPER struct ckptfs_session *session_open(void)
{
	struct ckptfs_session *s;
	int err = ckptfs_open(daemon_.top, NULL, &s);

	if (err)
		fail_msg("ckptfs_open: %s: %s", strerror(-err), ckptfs_error(NULL));
	return s;
}

HELPER int file_create(const char *name)
{
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", daemon_.top, name);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	return fd;
}

HELPER void assert_content(int fd, uint64_t off, const void *expected, size_t len)
{
	char *got = malloc(len + 1);

	assert_int_equal(pread(fd, got, len, (off_t)off), len);
	assert_memory_equal(got, expected, len);
	free(got);
}

HELPER unsigned char *random_bytes(size_t len)
{
	static unsigned seed = 12345;
	unsigned char *p = malloc(len + 1);

	for (size_t i = 0; i < len; i++)
		p[i] = (unsigned char)(rand_r(&seed) >> 4);
	return p;
}

HELPER struct ckptfs_tensor_info tensor_of(uint64_t id, const char *name, uint64_t bytes)
{
	return (struct ckptfs_tensor_info){.id = id, .name = name, .bytes = bytes};
}

/* One tensor that is registered, and its bytes. */
HELPER unsigned char *tensor_create(struct ckptfs_session *s, uint64_t id, const char *name,
				    uint64_t bytes)
{
	struct ckptfs_tensor_info t = tensor_of(id, name, bytes);

	assert_int_equal(ckptfs_register(s, &t, 1), 0);
	return random_bytes(bytes);
}

HELPER int write_tensor(struct ckptfs_session *s, int fd, uint64_t id, const void *addr,
			uint64_t bytes)
{
	struct ckptfs_write_op op = {.id = id, .addr = addr, .len = bytes};

	return ckptfs_write(s, fd, &op, 1);
}

#endif
