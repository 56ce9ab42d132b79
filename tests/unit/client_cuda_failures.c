/* SPDX-License-Identifier: MIT */
/*
 * timeout: 300
 * cpu: 20
 * long: 300
 * libckptfs with tensors on a GPU: each call of the driver that it makes fails once. The save that
 * it is for fails, by name, the trainer lives, and the next save works; or nothing of it is
 * noticed. Never is something else in the file than what was saved.
 *
 * The test starts itself anew for each failure (as_told); where calls begin and end that are the
 * library's, a call of cuDriverGetVersion tells in the driver's log.
 */
#include "tests/unit/client_cuda.h"

#include <sys/wait.h>

#include "client/session.h"

#define LEN   (3 * 4096 + 100)
#define SAVES 3

static const struct {
	const char *what, *name;
	bool sticky;
} kinds[] = {
	{"2", "CUDA_ERROR_OUT_OF_MEMORY (2)", false},
	{"700", "CUDA_ERROR_ILLEGAL_ADDRESS (700)", true},
	{"late=719", "CUDA_ERROR_LAUNCH_FAILED (719)", true},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* What the driver refuses to destroy is there for good. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
	return "print_suppressions=0";
}

const char *__lsan_default_suppressions(void)
{
	return "leak:cuEventCreate\nleak:cuStreamCreate\nleak:cuMemHostRegister_v2\n";
}

/* --- the child: it saves, and something fails --- */

/* @text: CKPTFS_TEXT_MAX bytes, for what is said. */
static int save(struct ckptfs_session *s, CUdeviceptr memory, unsigned nr, char *text)
{
	struct ckptfs_write_op ops[] = {
		{.id = 1, .addr = address_of(memory), .len = LEN, .stream = handle(stream)},
		{.id = 2,
		 .file_off = LEN,
		 .addr = address_of(memory),
		 .len = 1200,
		 .rows = 2,
		 .row_bytes = 600,
		 .pitch = 1000,
		 .stream = handle(stream)}};
	uint64_t on = handle(stream);
	unsigned char *expected = malloc(LEN + 1200);
	unsigned nr_fails = daemon_.nr_fails;
	char name[16];
	int fd, err, later;

	snprintf(name, sizeof(name), "file-%u", nr);
	fd = file_create(name);
	memset(expected, (int)nr, LEN + 1200);
	tr.MemsetD8Async(memory, (unsigned char)nr, LEN, stream);
	err = ckptfs_write(s, fd, ops, 2);
	strcpy(text, ckptfs_error(s));
	later = ckptfs_barrier(s, &on, 1, 0, 0);
	if (later && !err) {
		err = later;
		strcpy(text, ckptfs_error(s));
	}
	/* Whatever the trainer does with its file now, the daemon has heard. */
	if (err && !strncmp(text, "layer.", 6))
		DAEMON_WAIT(daemon_.nr_fails > nr_fails);
	tr.MemsetD8Async(memory, 0xee, LEN, stream);
	later = ckptfs_barrier(s, NULL, 0, 0, 0);
	if (later && !err) {
		err = later;
		strcpy(text, ckptfs_error(s));
	}
	if (!err)
		assert_content(fd, 0, expected, LEN + 1200);
	free(expected);
	close(fd);
	return err;
}

static void as_told(void **state)
{
	const char *name = getenv("FAILURE_NAME");
	bool sticky = getenv("FAILURE_STICKY"), late = getenv("FAILURE_LATE");
	struct ckptfs_session *s = NULL;
	struct ckpt_source to;
	CUdeviceptr memory;
	char text[CKPTFS_TEXT_MAX];
	unsigned nr_failed = 0;
	int version, err;

	(void)state;
	alarm(60);
	if (late)
		s = session_open();
	gpu_begin(NULL);
	MUST(tr.MemAlloc(&memory, LEN));
	cu->DriverGetVersion(&version);
	if (!late)
		s = session_open();
	gpu_register(s, 1, LEN);
	gpu_register(s, 2, 1200);
	for (unsigned i = 1; i <= SAVES; i++) {
		err = save(s, memory, i, text);
		nr_failed += err != 0;
		if (err && !strstr(text, name))
			fail_msg("save %u: %d, %s", i, err, text);
		if (err && strstr(text, "(rank "))
			fail_msg("a rank is named that is not known: %s", text);
		printf("said: %s\n", err ? text : "nothing");
	}
	to = (struct ckpt_source){.addr = address_of(memory), .stream = handle(stream)};
	err = s->devices[1].ops->put(s->devices[1].state, &to, 0, 8, "restored");
	if (!err) {
		char got[8] = "";

		tr.MemcpyDtoH(got, memory, 8);
		assert_memory_equal(got, "restored", 8);
	}
	ckptfs_close(s);
	cu->DriverGetVersion(&version);
	assert_true(sticky || nr_failed + (err != 0) <= 1);
}

/* --- the parent --- */

static char log_path[PATH_MAX];

static int run_child(const char *inject, const char *name, bool sticky, bool late)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		setenv("FAKE_CUDA_LOG", log_path, 1);
		setenv("FAKE_CUDA_INJECT", inject, 1);
		setenv("FAKE_CUDA_DTOH_US", "200",
		       1); /* so that a barrier mostly finds some under way */
		setenv("FAILURE_NAME", name, 1);
		if (sticky)
			setenv("FAILURE_STICKY", "1", 1);
		if (late)
			setenv("FAILURE_LATE", "1", 1);
		unlink(log_path);
		execl("/proc/self/exe", "client_cuda_failures", "--child", NULL);
		_exit(99);
	}
	waitpid(pid, &status, 0);
	return status;
}

/* Of @function: the calls before the library's, and those of the library. */
static void count_calls(const char *function, unsigned *before, unsigned *ours, bool *hit)
{
	FILE *f = fopen(log_path, "re");
	char line[600], name[100], arg[100];
	unsigned markers = 0;

	*before = *ours = 0;
	*hit = false;
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*u %*d %*d %99s %99s", name, arg) < 1)
			continue;
		markers += !strcmp(name, "cuDriverGetVersion");
		*hit = *hit || !strcmp(name, "injected");
		if (!strcmp(name, function)) {
			*before += markers == 0;
			*ours += markers == 1;
		}
	}
	fclose(f);
}

static void fail_call(const char *function, unsigned n, unsigned kind, bool late, unsigned *nr_hit)
{
	char rule[200];
	unsigned before, ours;
	bool hit;
	int status;

	snprintf(rule, sizeof(rule), "%s:%u=%s", function, n, kinds[kind].what);
	status = run_child(rule, kinds[kind].name, kinds[kind].sticky, late);
	if (status)
		fail_msg("with %s%s: status 0x%x", rule, late ? ", late" : "", status);
	count_calls(function, &before, &ours, &hit);
	*nr_hit += hit;
}

static void fail_calls(const char *function, unsigned kind, bool late)
{
	/* Of the calls of a function: so many of the first, of the last and between. */
	const unsigned sample = getenv("CKPTFS_TEST_LONG") ? 3 : 1;
	unsigned before, ours, nr_hit = 0;
	bool hit;

	if (run_child("", "nothing", false, late))
		fail_msg("it does not even work without failures");
	count_calls(function, &before, &ours, &hit);
	for (unsigned i = 1; i <= ours; i++)
		if (i <= sample || i > ours - sample || (i > ours / 2 && i <= ours / 2 + sample))
			fail_call(function, before + i, kind, late, &nr_hit);
	/* Called on failures alone, and if something is still under way. */
	if (!nr_hit && strcmp(function, "cuStreamSynchronize") != 0 &&
	    strcmp(function, "cuStreamWaitEvent") != 0 && !late)
		fail_msg("%s never failed", function);
}

static const char *const functions[] = {"cuDeviceGetCount",
					"cuDeviceGet",
					"cuDevicePrimaryCtxGetState",
					"cuDevicePrimaryCtxRetain",
					"cuDevicePrimaryCtxRelease_v2",
					"cuCtxPushCurrent_v2",
					"cuCtxPopCurrent_v2",
					"cuPointerGetAttributes",
					"cuStreamCreate",
					"cuStreamDestroy_v2",
					"cuStreamSynchronize",
					"cuStreamIsCapturing",
					"cuStreamWaitEvent",
					"cuThreadExchangeStreamCaptureMode",
					"cuEventCreate",
					"cuEventRecord",
					"cuEventQuery",
					"cuEventSynchronize",
					"cuEventDestroy_v2",
					"cuMemHostRegister_v2",
					"cuMemHostUnregister",
					"cuMemcpyDtoHAsync_v2",
					"cuMemcpyHtoDAsync_v2",
					"cuMemcpy2DAsync_v2"};

static void each_call_fails_once(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		fail_calls(functions[i], 0, false);
		fail_calls(functions[i], 0, true);
	}
}

static void the_context_is_lost(void **state)
{
	static const char *const lost[] = {"cuMemcpyDtoHAsync_v2", "cuEventSynchronize",
					   "cuEventRecord", "cuStreamWaitEvent"};

	(void)state;
	for (unsigned i = 0; i < sizeof(lost) / sizeof(lost[0]); i++)
		fail_calls(lost[i], 1, false);
	fail_calls("cuMemcpyDtoHAsync_v2", 2, false);
	fail_calls("cuMemcpy2DAsync_v2", 2, false);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest child[] = {DAEMON_TEST(as_told)};
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_call_fails_once),
					   cmocka_unit_test(the_context_is_lost)};

	if (argc == 2 && !strcmp(argv[1], "--child"))
		return cmocka_run_group_tests(child, NULL, NULL);
	gpu_main(argv);
	snprintf(log_path, sizeof(log_path), "%s/failing", getenv("FAKE_CUDA_DIR"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
