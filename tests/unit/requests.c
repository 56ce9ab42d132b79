/* SPDX-License-Identifier: MIT */
/*
 * The receive loop, with a socket in place of the device and this test in place of the
 * kernel: what is asked is answered once, what hangs holds up nothing else, and what is
 * interrupted returns.
 */
#include "tests/unit/engine_stub.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "engine/base/json.h"
#include "engine/metrics/failures.h"
#include "fs/fs.h"
#include "fs/requests.h"
#include "fs/wire.h"

#include "engine/base/cleanup.h"

#define PATIENCE_MS 20000

static int drain_s = 5;

static struct {
	int kernel; /* our end */
	struct engine *en;
	struct fs fs;
	pthread_t server;
	int served; /* what requests_serve returned */
	uint64_t unique;
	/* of the handlers */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int waiting, ready, ready_err;
	bool released;
	int late_reply; /* what a handler was told when it replied to a request given up
			 */
} k = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* --- the daemon's side --- */

static void wait_for_release(void)
{
	MUTEX_SCOPE(&k.lock);
	k.waiting++;
	pthread_cond_broadcast(&k.changed);
	while (!k.released)
		pthread_cond_wait(&k.changed, &k.lock);
	k.waiting--;
	pthread_cond_broadcast(&k.changed);
}

static void release(void)
{
	MUTEX_SCOPE(&k.lock);
	k.released = true;
	pthread_cond_broadcast(&k.changed);
}

static void wait_until_waiting(int nr)
{
	MUTEX_SCOPE(&k.lock);
	while (k.waiting != nr)
		pthread_cond_wait(&k.changed, &k.lock);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param entry = {.ino = 7};
	int told;

	(void)parent;
	if (!strcmp(name, "slow"))
		wait_for_release();
	if (strcmp(name, "slow")) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	told = fuse_reply_entry(req, &entry);
	if (told) {
		MUTEX_SCOPE(&k.lock);
		k.late_reply = told;
		pthread_cond_broadcast(&k.changed);
	}
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	if (ino == 2)
		requests_open_extra(WIRE_FOPEN_PASSTHROUGH, 77);
	fi->fh = 5;
	fuse_reply_open(req, fi);
}

static void on_ready(struct fs *fs, int err)
{
	MUTEX_SCOPE(&k.lock);
	assert_ptr_equal(fs, &k.fs);
	k.ready++;
	k.ready_err = err;
	pthread_cond_broadcast(&k.changed);
}

static void *serve(void *arg)
{
	(void)arg;
	k.served = requests_serve(k.fs.requests, k.fs.session, on_ready, drain_s);
	return NULL;
}

static void start(void)
{
	static const struct fuse_lowlevel_ops ops = {.lookup = op_lookup, .open = op_open};
	char *argv[] = {"test", NULL};
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	k.kernel = ends[0];
	k.en = engine_stub();
	k.waiting = k.ready = k.late_reply = 0;
	k.released = false;
	k.unique = 0;
	k.fs = (struct fs){.engine = k.en, .mountpoint = "/mnt", .label = "n1"};
	k.fs.tree = tree_create(k.en, 10);
	k.fs.requests = requests_create(&k.fs);
	k.fs.session = fuse_session_new(&args, &ops, sizeof(ops), &k.fs);
	fuse_opt_free_args(&args);
	assert_non_null(k.fs.session);
	assert_int_equal(fuse_session_custom_io(k.fs.session, &requests_io, ends[1]), 0);
	assert_int_equal(pthread_create(&k.server, NULL, serve, NULL), 0);
}

static void stop(void)
{
	release();
	close(k.kernel);
	pthread_join(k.server, NULL);
	assert_int_equal(k.served, 0);
	fuse_session_destroy(k.fs.session); /* closes the other end */
	tree_destroy(k.fs.tree);
	requests_destroy(k.fs.requests);
	engine_stub_free(k.en);
}

/* --- the kernel's side --- */

struct reply {
	struct fuse_out_header head;
	union {
		struct wire_init_out init;
		struct wire_open_out open;
		char bytes[512];
	};
};

static uint64_t ask(uint32_t opcode, uint64_t node, const void *body, size_t len)
{
	char message[1024];
	struct fuse_in_header head = {.len = (uint32_t)(sizeof(head) + len),
				      .opcode = opcode,
				      .nodeid = node,
				      .unique = k.unique += 2,
				      .pid = (uint32_t)getpid()};

	memcpy(message, &head, sizeof(head));
	memcpy(message + sizeof(head), body, len);
	assert_int_equal(send(k.kernel, message, head.len, 0), head.len);
	return head.unique;
}

static uint64_t look_up(const char *name)
{
	return ask(FUSE_LOOKUP, 1, name, strlen(name) + 1);
}

static uint64_t interrupt(uint64_t unique)
{
	struct fuse_interrupt_in in = {.unique = unique};

	return ask(FUSE_INTERRUPT, 0, &in, sizeof(in));
}

static bool get_reply(struct reply *r, int timeout_ms)
{
	struct pollfd p = {.fd = k.kernel, .events = POLLIN};
	ssize_t n;

	if (poll(&p, 1, timeout_ms) <= 0)
		return false;
	memset(r, 0, sizeof(*r));
	n = recv(k.kernel, r, sizeof(*r), 0);
	assert_true(n >= (ssize_t)sizeof(r->head));
	assert_int_equal(n, r->head.len);
	return true;
}

static struct reply next_reply(void)
{
	struct reply r;

	if (!get_reply(&r, PATIENCE_MS))
		fail_msg("no reply");
	return r;
}

static struct reply answer_to(uint64_t unique)
{
	struct reply r = next_reply();

	assert_int_equal(r.head.unique, unique);
	return r;
}

static struct reply say_hello(uint32_t minor, uint32_t flags, uint32_t flags2)
{
	struct fuse_init_in in = {
		.major = 7, .minor = minor, .flags = flags, .max_readahead = 1 << 20};
	struct reply r;

	in.flags2 = flags2;
	r = answer_to(ask(FUSE_INIT, 0, &in, minor < 36 ? 16 : sizeof(in)));
	assert_int_equal(r.head.error, 0);
	return r;
}

static void start_up(void)
{
	start();
	say_hello(36, 0, 0);
}

/* --- tests --- */

static void init_asks_for_what_is_offered(void **state)
{
	struct reply r;

	(void)state;
	start();
	r = say_hello(40, WIRE_INIT_EXT, WIRE2_PASSTHROUGH | WIRE2_DIRECT_IO_ALLOW_MMAP);
	assert_int_equal(r.init.major, 7);
	assert_true(r.init.flags & WIRE_INIT_EXT);
	assert_true(r.init.flags2 & WIRE2_DIRECT_IO_ALLOW_MMAP);
	assert_true(requests_negotiated(k.fs.requests).direct_mmap);
	assert_int_equal(!!(r.init.flags2 & WIRE2_PASSTHROUGH), geteuid() == 0);
	assert_int_equal(requests_negotiated(k.fs.requests).passthrough, geteuid() == 0);
	if (geteuid() == 0) {
		assert_int_equal(r.init.max_stack_depth, 1);
		assert_true(r.init.minor >= WIRE_PASSTHROUGH_MINOR);
	}
	stop();
	assert_int_equal(k.ready, 1);
	assert_int_equal(k.ready_err, 0);
}

static void init_asks_for_nothing_else(void **state)
{
	struct reply r;

	(void)state;
	start();
	r = say_hello(40, WIRE_INIT_EXT, 0);
	assert_int_equal(r.init.flags2, 0);
	assert_false(requests_negotiated(k.fs.requests).passthrough);
	assert_false(requests_negotiated(k.fs.requests).direct_mmap);
	stop();
	start();
	r = say_hello(31, 0, ~0u); /* of before there was a second word */
	assert_int_equal(r.init.flags2, 0);
	assert_false(requests_negotiated(k.fs.requests).direct_mmap);
	stop();
	start();
	k.en->backing.features->state[FEATURE_PASSTHROUGH] = FEATURE_TURNED_OFF;
	k.en->backing.features->state[FEATURE_DIRECT_MMAP] = FEATURE_TURNED_OFF;
	r = say_hello(40, WIRE_INIT_EXT, ~0u);
	assert_int_equal(r.init.flags2 & (WIRE2_PASSTHROUGH | WIRE2_DIRECT_IO_ALLOW_MMAP), 0);
	stop();
}

static void every_request_is_answered_once(void **state)
{
	enum { NR = 200 };
	bool answered[NR + 1] = {false};
	uint64_t first = 0;
	struct reply r;
	int i;

	(void)state;
	start_up();
	for (i = 0; i < NR; i++) {
		uint64_t unique = look_up("fast");

		first = first ? first : unique;
	}
	for (i = 0; i < NR; i++) {
		r = next_reply();
		assert_int_equal(r.head.error, -ENOENT);
		assert_in_range((r.head.unique - first) / 2, 0, NR - 1);
		assert_false(answered[(r.head.unique - first) / 2]);
		answered[(r.head.unique - first) / 2] = true;
	}
	assert_false(get_reply(&r, 50));
	stop();
}

static void slow_requests_hold_up_nobody(void **state)
{
	int i;

	(void)state;
	start_up();
	for (i = 1; i <= 8; i++) {
		look_up("slow");
		assert_int_equal(answer_to(look_up("fast")).head.error, -ENOENT);
		wait_until_waiting(i);
	}
	release();
	for (i = 0; i < 8; i++)
		assert_int_equal(next_reply().head.error, 0);
	stop();
}

static void bursts_of_slow_requests_are_all_begun(void **state)
{
	int i;

	(void)state;
	start_up();
	for (i = 0; i < 20; i++)
		look_up("slow");
	wait_until_waiting(20);
	assert_int_equal(answer_to(look_up("fast")).head.error, -ENOENT);
	release();
	for (i = 0; i < 20; i++)
		assert_int_equal(next_reply().head.error, 0);
	stop();
}

static json_int_t status_of(const char *what)
{
	json_t *o = requests_to_json(k.fs.requests);
	json_int_t n = json_get_int(o, what, -1);

	json_decref(o);
	return n;
}

/* More of them than there may be threads: the rest waits in line, and can be interrupted
 * there. */
static void interrupts_are_read_when_all_threads_hang(void **state)
{
	enum { NR = MAX_THREADS + 10 };
	uint64_t last = 0;
	int i, late = 0;

	(void)state;
	start_up();
	for (i = 0; i < NR; i++)
		last = look_up("slow");
	interrupt(last);
	assert_int_equal(answer_to(last).head.error, -EINTR);
	assert_int_equal(status_of("in_flight"), NR - 1);
	assert_true(status_of("queued") >= NR - 1 - MAX_THREADS);
	assert_true(status_of("threads") <= MAX_THREADS);
	assert_int_equal(k.en->metrics.interrupted, 1);
	release();
	for (i = 0; i < NR - 1; i++) {
		struct reply r = next_reply();

		assert_int_equal(r.head.error, 0);
		late += r.head.unique == last;
	}
	assert_int_equal(late, 0);
	assert_int_equal(answer_to(look_up("fast")).head.error, -ENOENT);
	assert_int_equal(status_of("queued"), 0);
	stop();
}

static void an_interrupted_request_is_given_up_after_its_grace(void **state)
{
	uint64_t unique, began;
	struct reply r;

	(void)state;
	start_up();
	unique = look_up("slow");
	wait_until_waiting(1);
	began = clock_mono_ns();
	interrupt(unique);
	assert_int_equal(answer_to(unique).head.error, -EINTR);
	assert_true(clock_mono_ns() - began >= INTERRUPT_GRACE_NS);
	assert_true(clock_mono_ns() - began < 10 * NSEC_PER_SEC);
	/* Its handler ends unseen, and is told so. */
	release();
	{
		MUTEX_SCOPE(&k.lock);
		while (!k.late_reply)
			pthread_cond_wait(&k.changed, &k.lock);
	}
	assert_int_equal(k.late_reply, -ENOENT);
	assert_false(get_reply(&r, 50));
	assert_int_equal(failures_total(k.en->failures), 1);
	stop();
}

static void one_that_ends_in_time_is_answered_as_ever(void **state)
{
	uint64_t unique, interrupted;
	struct reply r;

	(void)state;
	start_up();
	unique = look_up("slow");
	wait_until_waiting(1);
	interrupted = interrupt(unique);
	release();
	assert_int_equal(answer_to(unique).head.error, 0);
	/* If the INTERRUPT was read only behind it, it is of a request unknown. */
	if (get_reply(&r, 1000)) {
		assert_int_equal(r.head.unique, interrupted);
		assert_int_equal(r.head.error, -EAGAIN);
	}
	assert_int_equal(k.en->metrics.interrupted, 0);
	stop();
}

static void interrupts_of_the_unknown_come_again(void **state)
{
	uint64_t unique;

	(void)state;
	start_up();
	unique = interrupt(123456);
	assert_int_equal(answer_to(unique).head.error, -EAGAIN);
	stop();
}

static void opens_get_what_their_handler_adds(void **state)
{
	struct fuse_open_in in = {0};
	struct reply r;

	(void)state;
	start_up();
	r = answer_to(ask(FUSE_OPEN, 2, &in, sizeof(in)));
	assert_int_equal(r.head.error, 0);
	assert_int_equal(r.open.fh, 5);
	assert_true(r.open.open_flags & WIRE_FOPEN_PASSTHROUGH);
	assert_int_equal(r.open.backing_id, 77);
	r = answer_to(ask(FUSE_OPEN, 3, &in, sizeof(in)));
	assert_false(r.open.open_flags & WIRE_FOPEN_PASSTHROUGH);
	assert_int_equal(r.open.backing_id, 0);
	stop();
}

static void unknown_requests_are_refused(void **state)
{
	(void)state;
	start_up();
	assert_int_equal(answer_to(ask(FUSE_POLL, 1, "12345678901234567890123", 24)).head.error,
			 -ENOSYS);
	assert_int_equal(answer_to(ask(4000, 1, "", 0)).head.error, -ENOSYS);
	assert_null(request_op_name(4000));
	assert_string_equal(request_op_name(FUSE_LOOKUP), "LOOKUP");
	stop();
}

/* The backing still holds a request when all is over: told, not waited for for ever. */
static void the_end_waits_only_so_long(void **state)
{
	int status;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (!pid) {
		drain_s = 1;
		start_up();
		look_up("slow");
		wait_until_waiting(1);
		close(k.kernel);
		pthread_join(k.server, NULL);
		_exit(k.served == -EBUSY ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(init_asks_for_what_is_offered),
		cmocka_unit_test(init_asks_for_nothing_else),
		cmocka_unit_test(every_request_is_answered_once),
		cmocka_unit_test(slow_requests_hold_up_nobody),
		cmocka_unit_test(bursts_of_slow_requests_are_all_begun),
		cmocka_unit_test(interrupts_are_read_when_all_threads_hang),
		cmocka_unit_test(an_interrupted_request_is_given_up_after_its_grace),
		cmocka_unit_test(one_that_ends_in_time_is_answered_as_ever),
		cmocka_unit_test(interrupts_of_the_unknown_come_again),
		cmocka_unit_test(opens_get_what_their_handler_adds),
		cmocka_unit_test(unknown_requests_are_refused),
		cmocka_unit_test(the_end_waits_only_so_long),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
