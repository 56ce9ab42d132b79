/* SPDX-License-Identifier: MIT */
/*
 * libckptfs: tensors on a GPU, on the fake driver: what is captured when, and what of it is
 * noticed.
 */
#include "tests/unit/client_cuda.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "client/session.h"

#define BYTES 100000
#define SLOT  65536

static struct ckptfs_session *s;
static unsigned char *bytes;
static CUdeviceptr memory;
static int fd;

static void begin_with(size_t len)
{
	daemon_.slot_bytes = SLOT;
	fd = file_create("file");
	bytes = random_bytes(len);
	memory = gpu_memory(bytes, len);
	s = session_open();
	gpu_register(s, 1, len);
}

static void end(void)
{
	ckptfs_close(s);
	close(fd);
	free(bytes);
	MUST(tr.MemFree(memory));
	MUST(tr.CtxSynchronize());
}

static uint64_t count(const char *what)
{
	uint64_t n = 0;

	MUST(tr.Count(what, &n));
	return n;
}

/* The fake GPU is attached to node 0 of the host. */
static void lent_memory_is_on_the_node_of_the_gpu(void **state)
{
	unsigned long nodes[16] = {0};
	int mode = -1;

	(void)state;
	begin_with(SLOT);
	assert_int_equal(gpu_write(s, fd, 1, memory, SLOT, 0), 0);
	if (syscall(SYS_get_mempolicy, &mode, nodes, 8 * sizeof(nodes), s->arena, MPOL_F_ADDR))
		assert_int_equal(errno, ENOSYS); /* a kernel without nodes */
	else
		assert_int_equal(mode, MPOL_PREFERRED);
	assert_int_equal(nodes[0], mode < 0 ? 0 : 1);
	end();
}

static void they_are_captured(void **state)
{
	static const size_t lens[] = {1, 511, 512, 513, 2048, 4097, BYTES, 10 * SLOT + 1};
	const uint64_t streams[] = {handle(stream), 0, UINT64_MAX};
	struct ckptfs_session_stats st;

	(void)state;
	for (unsigned i = 0; i < 3 * sizeof(lens) / sizeof(lens[0]); i++) {
		size_t len = lens[i / 3];

		daemon_.ragged = i % 2;
		daemon_.check = i % 4 ? CKPTFS_CHECK_SAMPLE : CKPTFS_CHECK_ALL;
		begin_with(len);
		assert_int_equal(gpu_write(s, fd, 1, memory, len, streams[i % 3]), 0);
		assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
		assert_content(fd, 0, bytes, len);
		assert_int_equal(ckptfs_session_stats(s, &st), 0);
		assert_int_equal(st.pinned_bytes, st.arena_bytes);
		assert_int_equal(st.captured_bytes, len);
		end();
		daemon_teardown(NULL);
		daemon_setup(NULL);
	}
	begin_with(BYTES);
	end();
	assert_int_equal(count("streams"), 1); /* the test's own */
}

/*
 * No copy of ours is to memory that the GPU does not reach: but for CHECK_ALL, which waits anyway.
 */
static void copies_are_asynchronous(void **state)
{
	uint64_t before;

	(void)state;
	begin_with(BYTES);
	before = count("pageable");
	assert_int_equal(gpu_write(s, fd, 1, memory, BYTES, handle(stream)), 0);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
	assert_int_equal(count("pageable"), before);
	end();
}

static void rows_apart(size_t row, size_t pitch, size_t nr)
{
	struct ckptfs_write_op op = {
		.id = 1, .rows = nr, .row_bytes = row, .pitch = pitch, .stream = handle(stream)};
	unsigned char *dense = malloc(row * nr);

	daemon_.slot_bytes = 16384;
	begin_with(pitch * nr);
	for (size_t i = 0; i < nr; i++)
		memcpy(dense + i * row, bytes + i * pitch, row);
	gpu_register(s, 2, row * nr);
	op.id = 2;
	op.addr = address_of(memory);
	op.src_off = 3;
	op.len = row * nr - 5;
	assert_int_equal(ckptfs_write(s, fd, &op, 1), 0);
	if (ckptfs_barrier(s, NULL, 0, 0, 0))
		fail_msg("%s", ckptfs_error(s));
	assert_content(fd, 0, dense + 3, row * nr - 5);
	free(dense);
	end();
}

static void strided_ones(void **state)
{
	static const size_t shapes[][3] = {
		{700, 1024, 100}, {1, 2, 900}, {5000, 5000, 7}, {20000, 20100, 5}, {512, 600, 1}};

	(void)state;
	for (unsigned i = 0; i < 2 * sizeof(shapes) / sizeof(shapes[0]); i++) {
		daemon_.ragged = i % 2;
		daemon_.check = i % 3 ? CKPTFS_CHECK_SAMPLE : CKPTFS_CHECK_ALL;
		rows_apart(shapes[i / 2][0], shapes[i / 2][1], shapes[i / 2][2]);
		daemon_teardown(NULL);
		daemon_setup(NULL);
	}
}

static void eager_ones_and_plain_files(void **state)
{
	struct ckptfs_tensor_info t = tensor_of(2, "eager", BYTES);

	(void)state;
	begin_with(BYTES);
	t.memory = CKPTFS_CUDA;
	t.eager = 1;
	assert_int_equal(ckptfs_register(s, &t, 1), 0);
	assert_int_equal(gpu_write(s, fd, 2, memory, BYTES, handle(stream)), 0);
	assert_content(fd, 0, bytes, BYTES);
	assert_int_equal(daemon_.nr_captures, 0);
	assert_int_equal(ftruncate(fd, 0), 0);
	daemon_.write_err = -EOPNOTSUPP;
	assert_int_equal(gpu_write(s, fd, 1, memory, BYTES, UINT64_MAX), 0);
	assert_content(fd, 0, bytes, BYTES);
	end();
}

/* What is captured is what the stream that was named makes of it, however late. */
static void after_what_produces_them(void **state)
{
	struct gate g;

	(void)state;
	begin_with(BYTES);
	gate_init(&g, 0);
	MUST(tr.LaunchHostFunc(stream, gate_wait, &g));
	MUST(tr.MemsetD8Async(memory, 0x5a, BYTES, stream));
	assert_int_equal(gpu_write(s, fd, 1, memory, BYTES, handle(stream)), 0);
	DAEMON_WAIT(daemon_.nr_grants > 1);
	sem_post(&g.open);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
	memset(bytes, 0x5a, BYTES);
	assert_content(fd, 0, bytes, BYTES);
	end();
}

static void *open_late(void *gate)
{
	struct gate *g = gate;

	for (unsigned i = 0; i < 1000; i++)
		sched_yield();
	sem_post(&g->open);
	return NULL;
}

/*
 * ~0, what a write says of what is complete, is no stream that could be held back: a barrier of
 * that is one of none.
 */
static void a_barrier_of_no_stream_waits(void **state)
{
	const uint64_t complete[] = {UINT64_MAX, UINT64_MAX};
	struct ckptfs_session_stats st;
	struct gate g;
	pthread_t t;

	(void)state;
	begin_with(SLOT);
	gate_init(&g, SLOT);
	MUST(tr.OnStep(at_half, &g));
	assert_int_equal(gpu_write(s, fd, 1, memory, SLOT, UINT64_MAX), 0);
	sem_wait(&g.reached);
	MUST(tr.OnStep(NULL, NULL));
	pthread_create(&t, NULL, open_late, &g);
	assert_int_equal(ckptfs_barrier(s, complete, 2, 0, 0), 0);
	assert_int_equal(ckptfs_session_stats(s, &st), 0);
	assert_int_equal(st.pending, 0);
	pthread_join(t, NULL);
	assert_content(fd, 0, bytes, SLOT);
	end();
}

/* With a stream the barrier waits for no copy: the stream does. */
static void a_barrier_holds_back_streams(uint64_t on, CUstream update)
{
	struct gate g;

	begin_with(SLOT);
	gate_init(&g, SLOT);
	MUST(tr.OnStep(at_half, &g));
	assert_int_equal(gpu_write(s, fd, 1, memory, SLOT, handle(stream)), 0);
	sem_wait(&g.reached);
	MUST(tr.OnStep(NULL, NULL));
	assert_int_equal(ckptfs_barrier(s, &on, 1, 0, 0), 0);
	MUST(tr.MemsetD8Async(memory, 0x77, SLOT, update));
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(tr.StreamQuery(update), CUDA_ERROR_NOT_READY);
	sem_post(&g.open);
	MUST(tr.StreamSynchronize(update));
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
	assert_content(fd, 0, bytes, SLOT);
	end();
}

static void a_barrier_holds_back(void **state)
{
	(void)state;
	a_barrier_holds_back_streams(handle(stream), stream);
	daemon_teardown(NULL);
	daemon_setup(NULL);
	a_barrier_holds_back_streams(0, NULL);
}

static const char stale[] =
	"layer.1 was changed before it was captured: no barrier came before the change (rank 3)";

/*
 * An update without a barrier, before the copy or in the middle of it; *differs: the file is not
 * what was saved.
 */
static int update_too_early(enum ckptfs_check check, bool in_the_middle, bool *differs)
{
	unsigned char *got = malloc(SLOT);
	struct gate g;
	int err;

	daemon_.check = check;
	daemon_.hold = !in_the_middle;
	begin_with(SLOT);
	gate_init(&g, SLOT);
	if (in_the_middle)
		MUST(tr.OnStep(at_half, &g));
	/* CHECK_ALL reads it all at once; that is not the copy that is meant. */
	g.done = check == CKPTFS_CHECK_ALL;
	assert_int_equal(gpu_write(s, fd, 1, memory, SLOT, handle(stream)), 0);
	if (in_the_middle && check != CKPTFS_CHECK_ALL)
		sem_wait(&g.reached);
	MUST(tr.MemsetD8Async(memory, 0x77, SLOT, stream));
	MUST(tr.StreamSynchronize(stream));
	sem_post(&g.open);
	DAEMON_SET(daemon_.hold = false);
	err = ckptfs_barrier(s, NULL, 0, 0, 0);
	MUST(tr.OnStep(NULL, NULL));
	if (err == -ESTALE) {
		assert_non_null(strstr(ckptfs_error(s), stale));
		DAEMON_WAIT(daemon_.nr_fails == 1);
		assert_int_equal(daemon_.fail.err, ESTALE);
		assert_string_equal(daemon_.fail.text, stale);
		assert_int_equal(daemon_.captures[0].landed, 0);
	}
	*differs = pread(fd, got, SLOT, 0) == SLOT && memcmp(got, bytes, SLOT) != 0;
	if (*differs && in_the_middle) /* torn: some of both */
		assert_true(got[0] == bytes[0] && got[SLOT - 1] == 0x77);
	/* The next save is one. */
	memset(bytes, 0x77, SLOT);
	assert_int_equal(gpu_write(s, fd, 1, memory, SLOT, handle(stream)), 0);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
	assert_content(fd, 0, bytes, SLOT);
	free(got);
	end();
	return err;
}

static void an_update_without_a_barrier_is_noticed(void **state)
{
	static const struct {
		enum ckptfs_check check;
		bool in_the_middle, noticed;
	} cases[] = {
		{CKPTFS_CHECK_SAMPLE, false, true}, {CKPTFS_CHECK_SAMPLE, true, true},
		{CKPTFS_CHECK_ALL, false, true},    {CKPTFS_CHECK_OFF, false, false},
		{CKPTFS_CHECK_OFF, true, false}, /* so the others could have failed */
	};
	bool differs;

	(void)state;
	setenv("RANK", "3", 1);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int err = update_too_early(cases[i].check, cases[i].in_the_middle, &differs);

		assert_int_equal(err, cases[i].noticed ? -ESTALE : 0);
		assert_int_equal(differs, !cases[i].noticed);
		daemon_teardown(NULL);
		daemon_setup(NULL);
	}
	unsetenv("RANK");
}

static void a_barrier_that_times_out_drains(void **state)
{
	struct gate g;
	uint64_t on = handle(stream);

	(void)state;
	daemon_.grants_left = 1;
	begin_with(2 * SLOT);
	gate_init(&g, SLOT);
	MUST(tr.OnStep(at_half, &g));
	assert_int_equal(gpu_write(s, fd, 1, memory, 2 * SLOT, on), 0);
	sem_wait(&g.reached);
	MUST(tr.OnStep(NULL, NULL));
	MUST(tr.LaunchHostFunc(NULL, gate_open, &g)); /* by another thread, some time */
	assert_int_equal(ckptfs_barrier(s, &on, 1, 0, 1), -ETIMEDOUT);
	MUST(tr.MemsetD8Async(memory, 1, 2 * SLOT, stream));
	DAEMON_WAIT(daemon_.nr_fails == 1);
	assert_int_equal(daemon_.fail.err, ETIMEDOUT);
	end();
}

static void a_stream_that_is_captured_is_refused(void **state)
{
	uint64_t on = handle(stream);
	CUgraph graph;

	(void)state;
	begin_with(SLOT);
	MUST(tr.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	assert_int_equal(gpu_write(s, fd, 1, memory, SLOT, on), -EBUSY);
	assert_non_null(strstr(ckptfs_error(s), "layer.1: cuStreamIsCapturing on GPU 0: "
						"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)"));
	/* Another stream's tensors can be captured meanwhile, and the graph is none the worse. */
	assert_int_equal(gpu_write(s, fd, 1, memory, SLOT, UINT64_MAX), 0);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
	assert_content(fd, 0, bytes, SLOT);
	MUST(tr.StreamEndCapture(stream, &graph));
	MUST(tr.GraphDestroy(graph));

	end();
}

static void *wait_in_barrier(void *arg)
{
	uint64_t on = handle(stream);

	*(int *)arg = ckptfs_barrier(s, &on, 1, 0, 0);
	return NULL;
}

static void a_barrier_that_cannot_hold_back_waits_itself(void **state)
{
	struct ckptfs_session_stats st;
	pthread_t waiting;
	unsigned calls;
	CUgraph graph;
	struct gate g;
	int err;

	(void)state;
	begin_with(SLOT);
	gate_init(&g, SLOT);
	MUST(tr.OnStep(at_half, &g));
	assert_int_equal(gpu_write(s, fd, 1, memory, SLOT, handle(stream)), 0);
	sem_wait(&g.reached);
	MUST(tr.OnStep(NULL, NULL));
	MUST(tr.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	calls = calls_of("cuStreamIsCapturing");
	pthread_create(&waiting, NULL, wait_in_barrier, &err);
	while (calls_of("cuStreamIsCapturing") == calls)
		sched_yield();
	assert_int_equal(ckptfs_session_stats(s, &st), 0);
	assert_int_equal(st.barriers, 0);
	gate_open(&g);
	pthread_join(waiting, NULL);
	assert_int_equal(err, -EBUSY);
	/* So what is captured into the graph, or done without it, may change it. */
	MUST(tr.StreamEndCapture(stream, &graph));
	MUST(tr.GraphDestroy(graph));
	MUST(tr.MemsetD8Async(memory, 1, SLOT, stream));
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
	assert_content(fd, 0, bytes, SLOT);
	end();
}

/* Each with a stream and a thread of ours; stream 0 is that of each. */
static void two_gpus(void **state)
{
	unsigned char *other = random_bytes(SLOT);
	uint64_t on = 0;
	CUcontext second;
	CUdeviceptr there;
	struct gate g;

	(void)state;
	begin_with(SLOT);
	MUST(cu->DevicePrimaryCtxRetain(&second, 1));
	MUST(tr.CtxSetCurrent(second));
	there = gpu_memory(other, SLOT);
	gpu_register(s, 2, SLOT);
	gate_init(&g, SLOT);
	MUST(tr.OnStep(at_half, &g));
	assert_int_equal(gpu_write(s, fd, 2, there, SLOT, 0), 0);
	sem_wait(&g.reached);
	MUST(tr.OnStep(NULL, NULL));
	assert_int_equal(ckptfs_barrier(s, &on, 1, 0, 0), 0);
	/*
	 * The first has nothing under way, and its stream does wait: either may be what changes a
	 * tensor.
	 */
	MUST(tr.MemsetD8Async(there, 1, SLOT, NULL));
	assert_int_equal(tr.StreamQuery(NULL), CUDA_ERROR_NOT_READY);
	MUST(tr.CtxSetCurrent(context));
	assert_int_equal(tr.StreamQuery(NULL), CUDA_ERROR_NOT_READY);
	gate_open(&g);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
	assert_content(fd, 0, other, SLOT);
	assert_int_equal(gpu_write(s, fd, 1, memory, SLOT, 0), 0);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
	assert_content(fd, 0, bytes, SLOT);
	end();
	MUST(cu->DevicePrimaryCtxRelease(1));
	free(other);
}

/* What is bound last has probes to come: a large piece would hold up each of them. */
static void pieces_are_held_back_for_probes(void **state)
{
	CUstream second;
	unsigned calls;
	uint64_t before;
	struct gate g;

	(void)state;
	daemon_.hold = true;
	begin_with(SLOT);
	gpu_register(s, 2, SLOT);
	MUST(cu->StreamCreate(&second, CU_STREAM_NON_BLOCKING));
	assert_int_equal(gpu_write(s, fd, 1, memory, SLOT, handle(stream)), 0);
	MUST(tr.StreamSynchronize(stream));
	gate_init(&g, 0);
	MUST(tr.LaunchHostFunc(second, gate_wait, &g));
	sem_wait(&g.reached);
	assert_int_equal(gpu_write(s, fd, 2, memory, SLOT, handle(second)), 0);
	before = count("copies");
	calls = calls_of("cuEventSynchronize");
	DAEMON_SET(daemon_.hold = false);
	while (calls_of("cuEventSynchronize") < calls + 2) /* one of what is past, and then */
		sched_yield();
	assert_int_equal(count("copies"), before);
	gate_open(&g);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
	assert_content(fd, 0, bytes, SLOT);
	MUST(cu->StreamDestroy(second));
	end();
}

static void addresses_that_are_none(void **state)
{
	(void)state;
	begin_with(SLOT);
	assert_int_equal(gpu_write(s, fd, 1, (uintptr_t)bytes, SLOT, handle(stream)), -EFAULT);
	assert_non_null(strstr(ckptfs_error(s), "layer.1: is registered as of a GPU, and 0x"));
	assert_int_equal(daemon_.nr_captures, 0);
	gpu_register(s, 2, 100 * SLOT);
	assert_int_equal(gpu_write(s, fd, 2, memory, 100 * SLOT, handle(stream)), -EFAULT);
	assert_non_null(strstr(ckptfs_error(s), "layer.2: is registered as of a GPU, and 0x"));
	assert_int_equal(daemon_.nr_captures, 0);
	assert_int_equal(gpu_write(s, fd, 1, memory, SLOT, handle(stream)), 0);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
	end();
}

static void read_back(void **state)
{
	const struct ckpt_device *d;
	struct ckpt_source to;
	unsigned char *got;

	(void)state;
	begin_with(BYTES);
	d = s->devices[1].ops;
	got = random_bytes(BYTES);
	to = (struct ckpt_source){.addr = address_of(memory), .stream = handle(stream)};
	assert_int_equal(d->put(s->devices[1].state, &to, 10, 5000, got), 0);
	memcpy(bytes + 10, got, 5000);
	to = (struct ckpt_source){.addr = address_of(memory),
				  .stream = UINT64_MAX,
				  .rows = 50,
				  .row_bytes = 700,
				  .pitch = 1024};
	assert_int_equal(d->put(s->devices[1].state, &to, 3, 20000, got), 0);
	for (size_t b = 3; b < 20003; b++)
		bytes[b / 700 * 1024 + b % 700] = got[b - 3];
	MUST(tr.MemcpyDtoH(got, memory, BYTES));
	assert_memory_equal(got, bytes, BYTES);
	to.addr = (const char *)bytes;
	assert_int_equal(d->put(s->devices[1].state, &to, 0, 10, got), -EFAULT);
	free(got);
	end();
}

static void in_a_child(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	begin_with(SLOT);
	daemon_.hold = true;
	assert_int_equal(gpu_write(s, fd, 1, memory, SLOT, handle(stream)), 0);
	pid = fork();
	if (pid == 0) {
		int err = gpu_write(s, fd, 1, memory, SLOT, handle(stream));

		ckptfs_close(s);
		_exit(err == -ECHILD ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	DAEMON_SET(daemon_.hold = false);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
	assert_content(fd, 0, bytes, SLOT);
	end();
}

/*
 * Nothing is initialised, no context made, before the trainer has one; CUDA may come after the
 * session.
 */
static void nothing_is_made_active(void **state)
{
	unsigned int flags;
	int active;

	(void)state;
	MUST(cu->StreamDestroy(stream));
	MUST(cu->DevicePrimaryCtxRelease(0));
	s = session_open();
	gpu_register(s, 1, SLOT);
	MUST(cu->DevicePrimaryCtxGetState(0, &flags, &active));
	assert_int_equal(active, 0);
	assert_true(gpu_write(s, 0, 1, 4096, SLOT, 0) < 0);
	MUST(cu->DevicePrimaryCtxGetState(0, &flags, &active));
	assert_int_equal(active, 0);
	ckptfs_close(s);
	daemon_teardown(NULL);
	daemon_setup(NULL);
	s = session_open();
	gpu_begin(NULL);
	fd = file_create("file");
	bytes = random_bytes(SLOT);
	memory = gpu_memory(bytes, SLOT);
	gpu_register(s, 1, SLOT);
	assert_int_equal(gpu_write(s, fd, 1, memory, SLOT, handle(stream)), 0);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
	assert_content(fd, 0, bytes, SLOT);
	end();
	/* And none is kept. */
	MUST(cu->DevicePrimaryCtxRelease(0));
	MUST(cu->DevicePrimaryCtxGetState(0, &flags, &active));
	assert_int_equal(active, 0);
	gpu_begin(NULL);
}

/* The last: after it the context is another. */
static void a_context_that_is_destroyed(void **state)
{
	(void)state;
	daemon_.hold = true;
	begin_with(SLOT);
	assert_int_equal(gpu_write(s, fd, 1, memory, SLOT, handle(stream)), 0);
	MUST(tr.DevicePrimaryCtxReset(0));
	DAEMON_SET(daemon_.hold = false);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), -ENODEV);
	assert_non_null(strstr(ckptfs_error(s), "layer.1: cu"));
	assert_non_null(strstr(ckptfs_error(s), "CUDA_ERROR_INVALID_CONTEXT (201)"));
	assert_true(gpu_write(s, fd, 1, memory, SLOT, handle(stream)) < 0);
	ckptfs_close(s);
	close(fd);
	free(bytes);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		DAEMON_TEST(lent_memory_is_on_the_node_of_the_gpu),
		DAEMON_TEST(they_are_captured),
		DAEMON_TEST(a_barrier_of_no_stream_waits),
		DAEMON_TEST(copies_are_asynchronous),
		DAEMON_TEST(strided_ones),
		DAEMON_TEST(eager_ones_and_plain_files),
		DAEMON_TEST(after_what_produces_them),
		DAEMON_TEST(a_barrier_holds_back),
		DAEMON_TEST(an_update_without_a_barrier_is_noticed),
		DAEMON_TEST(a_barrier_that_times_out_drains),
		DAEMON_TEST(a_stream_that_is_captured_is_refused),
		DAEMON_TEST(a_barrier_that_cannot_hold_back_waits_itself),
		DAEMON_TEST(two_gpus),
		DAEMON_TEST(pieces_are_held_back_for_probes),
		DAEMON_TEST(addresses_that_are_none),
		DAEMON_TEST(read_back),
		DAEMON_TEST(in_a_child),
		DAEMON_TEST(nothing_is_made_active),
		DAEMON_TEST(a_context_that_is_destroyed),
	};

	(void)argc;
	gpu_main(argv);
	return cmocka_run_group_tests(tests, gpu_begin, NULL);
}
