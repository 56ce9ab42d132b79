/* SPDX-License-Identifier: MIT */
/*
 * capture [BYTES [ROUNDS]]: libckptfs on this program's CUDA driver, the real one or
 * tests/fakecuda, without a mount: the daemon is the one that the unit tests have. Prints one JSON
 * object: each case with what it found, and the numbers. Status 0: nothing is wrong; 1: something
 * is; 77: there is no GPU.
 *
 * Tensors have BYTES (default 256 MiB), those whose bytes are compared no more than the default;
 * the numbers are medians of ROUNDS (5).
 *
 * The negative controls say "shown" where leaving the barrier out, and the checks off, did tear a
 * tensor: only then does it mean something that with either none was.
 */
#define DAEMON_WITHOUT_CMOCKA
#include "tests/unit/client_daemon.h"

#include "client/cuda_driver.h"
#include "tests/fakecuda/api.h"

#define MIB	   (1ull << 20)
#define SLOT	   (8 * MIB)
#define NR_SLOTS   64
#define NR_STEPS   20
#define NR_SMALL   500
#define NR_TINY	   10000
#define TINY	   (16ull << 10)
#define PIECE	   (32 * MIB)
#define PAGE	   4096
#define ROUNDS_MAX 101

static const struct cuda_driver *cu;
static struct cuda_trainer tr;
static CUstream stream;
static uint64_t size = 256 * MIB, compared = 256 * MIB;
static unsigned rounds = 5;
static unsigned nr_wrong;
static const char *separator = "";

static void must(CUresult error, const char *what)
{
	char text[80];

	if (!error)
		return;
	fprintf(stderr, "capture: %s: %s\n", what, cuda_error_text(cu, error, text, sizeof(text)));
	exit(1);
}

#define MUST(call) must(call, #call)

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void say_case(const char *name, bool ok, const char *text)
{
	nr_wrong += !ok;
	printf("%s\n  {\"case\": \"%s\", \"ok\": %s, \"found\": \"%s\"}", separator, name,
	       ok ? "true" : "false", text);
	separator = ",";
	fflush(stdout);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, unsigned n)
{
	qsort(values, n, sizeof(*values), by_value);
	return values[n / 2];
}

static void say_number(const char *name, double value, const char *unit)
{
	printf(",\n \"%s\": {\"value\": %.6g, \"unit\": \"%s\"}", name, value, unit);
	fflush(stdout);
}

/* --- a session and its tensors --- */

static struct ckptfs_session *s;
static int fd;

static void begin_lent(enum ckptfs_check check, bool sink, uint32_t slot)
{
	daemon_setup(NULL);
	daemon_.slot_bytes = slot;
	daemon_.nr_slots = NR_SLOTS;
	daemon_.check = check;
	daemon_.sink = sink;
	s = session_open();
	fd = file_create("file");
}

static void begin(enum ckptfs_check check, bool sink)
{
	begin_lent(check, sink, SLOT);
}

/* So much of each slot that @bytes are four times all that is lent. */
static uint32_t quarter_slot(uint64_t bytes)
{
	uint64_t slot = bytes / 4 / NR_SLOTS / PAGE * PAGE;

	return (uint32_t)(slot ? slot : PAGE);
}

static void end(void)
{
	ckptfs_close(s);
	close(fd);
	daemon_teardown(NULL);
}

static CUdeviceptr allocate(uint64_t bytes)
{
	CUdeviceptr memory;

	MUST(tr.MemAlloc(&memory, bytes));
	return memory;
}

static void add(uint64_t id, uint64_t bytes)
{
	char name[32];
	struct ckptfs_tensor_info t = tensor_of(id, name, bytes);

	snprintf(name, sizeof(name), "layer.%d", (int)id);
	t.memory = CKPTFS_CUDA;
	if (ckptfs_register(s, &t, 1))
		fail_msg("ckptfs_register: %s\n", ckptfs_error(s));
}

static int write_on(uint64_t id, CUdeviceptr memory, uint64_t bytes, CUstream on)
{
	struct ckptfs_write_op op = {.id = id,
				     .addr = (const void *)(uintptr_t)memory,
				     .len = bytes,
				     .stream = (uintptr_t)on};

	return ckptfs_write(s, fd, &op, 1);
}

static int barrier_on(CUstream on)
{
	uint64_t streams[] = {(uintptr_t)on};

	return ckptfs_barrier(s, streams, 1, 0, 0);
}

static int barrier_landed(void)
{
	return ckptfs_barrier(s, NULL, 0, CKPTFS_BARRIER_LANDED, 0);
}

static bool file_is(const unsigned char *expected, uint64_t bytes)
{
	unsigned char *got = malloc(bytes);
	bool same = pread(fd, got, bytes, 0) == (ssize_t)bytes && !memcmp(got, expected, bytes);

	free(got);
	return same;
}

static bool file_is_all(int byte, uint64_t bytes)
{
	unsigned char *expected = malloc(bytes);
	bool same;

	memset(expected, byte, bytes);
	same = file_is(expected, bytes);
	free(expected);
	return same;
}

/* --- what is captured is right --- */

static void right_bytes(CUdeviceptr memory, uint64_t bytes, enum ckptfs_check check, CUstream on,
			uint32_t slot, const char *name)
{
	unsigned char *content = random_bytes(bytes);
	bool ok;

	begin_lent(check, false, slot);
	add(1, bytes);
	MUST(tr.MemcpyHtoD(memory, content, bytes));
	ok = !write_on(1, memory, bytes, on) && !barrier_on(on);
	MUST(tr.MemsetD8Async(memory, 0xee, bytes, on));
	ok = ok && !barrier_landed();
	say_case(name, ok && file_is(content, bytes), ok ? "" : ckptfs_error(s));
	end();
	MUST(tr.CtxSynchronize());
	free(content);
}

static void one_size(uint64_t bytes, enum ckptfs_check check, CUstream on)
{
	CUdeviceptr memory = allocate(bytes);
	char name[80];

	snprintf(name, sizeof(name), "%llu bytes, %s", (unsigned long long)bytes,
		 check == CKPTFS_CHECK_ALL ? "all checked" : "a sample checked");
	right_bytes(memory, bytes, check, on, SLOT, name);
	MUST(tr.MemFree(memory));
}

static void four_times_lent(void)
{
	CUdeviceptr memory = allocate(compared);

	right_bytes(memory, compared, CKPTFS_CHECK_SAMPLE, stream, quarter_slot(compared),
		    "four times what is lent");
	MUST(tr.MemFree(memory));
}

/* What cudaMallocAsync, and PyTorch with it, gives out: it belongs to no context. */
static void of_a_pool(void)
{
	CUdeviceptr memory;

	if (!tr.MemAllocAsync || tr.MemAllocAsync(&memory, compared, stream)) {
		say_case("memory of a pool", true, "this driver has none");
		return;
	}
	right_bytes(memory, compared, CKPTFS_CHECK_SAMPLE, stream, SLOT, "memory of a pool");
	MUST(tr.MemFreeAsync(memory, stream));
	MUST(tr.StreamSynchronize(stream));
}

static void strided(void)
{
	uint64_t rows = 3000, row = 4096, pitch = 6000;
	unsigned char *content = random_bytes(rows * pitch), *dense = malloc(rows * row);
	CUdeviceptr memory = allocate(rows * pitch);
	struct ckptfs_write_op op = {.id = 1,
				     .addr = (const void *)(uintptr_t)memory,
				     .len = rows * row,
				     .rows = rows,
				     .row_bytes = row,
				     .pitch = pitch};
	bool ok;

	for (uint64_t i = 0; i < rows; i++)
		memcpy(dense + i * row, content + i * pitch, row);
	begin(CKPTFS_CHECK_SAMPLE, false);
	add(1, rows * row);
	MUST(tr.MemcpyHtoD(memory, content, rows * pitch));
	ok = !ckptfs_write(s, fd, &op, 1) && !barrier_landed();
	say_case("rows apart", ok && file_is(dense, rows * row), ok ? "" : ckptfs_error(s));
	end();
	MUST(tr.MemFree(memory));
	free(dense);
	free(content);
}

static int read_back(CUdeviceptr memory, uint64_t bytes, uint64_t row, uint64_t pitch)
{
	struct ckptfs_read_op op = {.len = bytes,
				    .addr = (void *)(uintptr_t)memory,
				    .stream = (uintptr_t)stream,
				    .rows = row ? bytes / row : 0,
				    .row_bytes = row,
				    .pitch = pitch,
				    .memory = CKPTFS_CUDA};

	return ckptfs_read(s, fd, &op, 1, 3);
}

/* The other way: from a file into memory of the device, behind what is enqueued there. */
static void restored(void)
{
	uint64_t rows = 3000, row = 4096, pitch = 6000, bytes = rows * row;
	unsigned char *content = random_bytes(bytes), *got = malloc(rows * pitch);
	CUdeviceptr memory = allocate(rows * pitch);
	bool ok;

	begin(CKPTFS_CHECK_SAMPLE, false);
	ok = pwrite(fd, content, bytes, 0) == (ssize_t)bytes;
	MUST(tr.MemsetD8Async(memory, 0x11, rows * pitch, stream));
	ok = ok && !read_back(memory, bytes, 0, 0);
	MUST(tr.MemcpyDtoH(got, memory, rows * pitch));
	ok = ok && !memcmp(got, content, bytes) && got[bytes] == 0x11;
	say_case("restored", ok, ok ? "" : ckptfs_error(s));
	MUST(tr.MemsetD8Async(memory, 0x22, rows * pitch, stream));
	ok = !read_back(memory, bytes, row, pitch);
	MUST(tr.MemcpyDtoH(got, memory, rows * pitch));
	for (uint64_t i = 0; i < rows; i++)
		ok = ok && !memcmp(got + i * pitch, content + i * row, row) &&
		     got[i * pitch + row] == 0x22 && got[(i + 1) * pitch - 1] == 0x22;
	say_case("restored, rows apart", ok, ok ? "" : ckptfs_error(s));
	ok = read_back(0x1000, bytes, 0, 0) < 0 && strstr(ckptfs_error(s), "file: at byte");
	say_case("restored to where nothing is", ok, ok ? "refused" : ckptfs_error(s));
	end();
	MUST(tr.MemFree(memory));
	free(content);
	free(got);
}

/* Every step is saved, and changed as soon as may be, by work that is enqueued. */
static void steps(const char *name, enum ckptfs_check check, bool with_barrier, bool control)
{
	CUdeviceptr memory = allocate(compared);
	unsigned right = 0, told = 0, wrong = 0;
	char text[100];

	begin(check, false);
	add(1, compared);
	for (int step = 1; step <= NR_STEPS; step++) {
		int err;

		MUST(tr.MemsetD8Async(memory, (unsigned char)step, compared, stream));
		err = write_on(1, memory, compared, stream);
		if (!err && with_barrier)
			err = barrier_on(stream);
		MUST(tr.MemsetD8Async(memory, 0xee, compared, stream));
		if (!err)
			err = barrier_landed();
		if (err)
			told += err == -ESTALE;
		else if (file_is_all(step, compared))
			right++;
		else
			wrong++;
	}
	snprintf(text, sizeof(text), "%u right, %u failed with ESTALE, %u wrong%s", right, told,
		 wrong,
		 !control ? ""
		 : wrong  ? ": shown"
			  : ": not shown");
	if (control)
		say_case(name, right + told + wrong == NR_STEPS, text);
	else
		say_case(name,
			 !wrong && (with_barrier ? right == NR_STEPS : right + told == NR_STEPS),
			 text);
	end();
	MUST(tr.CtxSynchronize());
	MUST(tr.MemFree(memory));
}

static void memory_used(void)
{
	size_t before, after, total;
	CUdeviceptr memory = allocate(size);
	char text[80];

	MUST(tr.MemGetInfo(&before, &total));
	begin(CKPTFS_CHECK_SAMPLE, true);
	add(1, size);
	if (write_on(1, memory, size, stream) || barrier_landed())
		fail_msg("%s\n", ckptfs_error(s));
	MUST(tr.MemGetInfo(&after, &total));
	snprintf(text, sizeof(text), "%lld bytes of GPU memory, in the trainer",
		 (long long)(before - after));
	/* A stream and events may make the driver take a little. */
	say_case("memory of the GPU that a session takes",
		 before - after <= 16 * MIB || after > before, text);
	end();
	MUST(tr.MemFree(memory));
}

/* --- numbers --- */

/* The floor: nothing but copies to pinned memory, some pieces under way. */
static double peak(void)
{
	CUdeviceptr memory = allocate(size);
	double took[ROUNDS_MAX];
	void *host;

	MUST(cu->MemHostAlloc(&host, 2 * PIECE, CU_MEMHOSTREGISTER_PORTABLE));
	for (unsigned r = 0; r < rounds; r++) {
		double start = seconds();

		for (uint64_t at = 0; at < size; at += PIECE)
			MUST(cu->MemcpyDtoHAsync((char *)host + at / PIECE % 2 * PIECE, memory + at,
						 size - at < PIECE ? size - at : PIECE, stream));
		MUST(tr.StreamSynchronize(stream));
		took[r] = seconds() - start;
	}
	MUST(cu->MemFreeHost(host));
	MUST(tr.MemFree(memory));
	return (double)size / median(took, rounds) * 1e-9;
}

struct captured {
	double gbps, blocked_ms;
};

/*
 * From the write of @pieces of @each bytes to the last byte, and how long the trainer's thread was
 * held up by the call.
 */
static struct captured captured(uint64_t pieces, uint64_t each, uint32_t slot)
{
	uint64_t bytes = pieces * each;
	CUdeviceptr memory = allocate(bytes);
	struct ckptfs_write_op *ops = calloc(pieces, sizeof(*ops));
	double took[ROUNDS_MAX], held[ROUNDS_MAX];

	begin_lent(CKPTFS_CHECK_SAMPLE, true, slot);
	add(1, bytes);
	for (uint64_t i = 0; i < pieces; i++)
		ops[i] = (struct ckptfs_write_op){.id = 1,
						  .file_off = i * each,
						  .src_off = i * each,
						  .addr = (const void *)(uintptr_t)memory,
						  .len = each,
						  .stream = (uintptr_t)stream};
	for (unsigned r = 0; r <= rounds; r++) {
		double start = seconds(), written;

		if (ckptfs_write(s, fd, ops, pieces))
			fail_msg("%s\n", ckptfs_error(s));
		written = seconds();
		if (barrier_landed())
			fail_msg("%s\n", ckptfs_error(s));
		if (r) { /* the first one is to warm up */
			took[r - 1] = seconds() - start;
			held[r - 1] = written - start;
		}
	}
	end();
	free(ops);
	MUST(tr.MemFree(memory));
	return (struct captured){.gbps = (double)bytes / median(took, rounds) * 1e-9,
				 .blocked_ms = median(held, rounds) * 1e3};
}

/* A step of enqueued work on other memory, with a save of all at its begin or without; seconds. */
static double step_time(bool saves, CUdeviceptr memory, CUdeviceptr other, unsigned work)
{
	double took[ROUNDS_MAX];

	for (unsigned r = 0; r < rounds; r++) {
		double start = seconds();

		if (saves && write_on(1, memory, size, stream))
			fail_msg("%s\n", ckptfs_error(s));
		for (unsigned i = 0; i < work; i++)
			MUST(tr.MemsetD8Async(other, (unsigned char)i, size, stream));
		if (saves && barrier_on(stream))
			fail_msg("%s\n", ckptfs_error(s));
		MUST(tr.MemsetD8Async(memory, (unsigned char)r, size, stream));
		MUST(tr.StreamSynchronize(stream));
		took[r] = seconds() - start;
	}
	return median(took, rounds);
}

/* So much work that it takes three times as long as the copies. */
static double inflation(void)
{
	CUdeviceptr memory = allocate(size), other = allocate(size);
	double one, copies = (double)size / (peak() * 1e9), alone, with;
	unsigned work;

	begin(CKPTFS_CHECK_SAMPLE, true);
	add(1, size);
	one = step_time(false, memory, other, 1) / 2;
	work = (unsigned)(3 * copies / one) + 1;
	alone = step_time(false, memory, other, work);
	with = step_time(true, memory, other, work);
	end();
	MUST(tr.MemFree(other));
	MUST(tr.MemFree(memory));
	return with / alone;
}

static void numbers(void)
{
	double floor_ = peak();
	struct captured one = captured(1, size, SLOT), quarter, small, tiny;

	quarter = captured(1, size, quarter_slot(size));
	small = captured(NR_SMALL, size / NR_SMALL, SLOT);
	tiny = captured(NR_TINY, TINY, SLOT);
	say_number("pinned_copy_GBps", floor_, "10^9 bytes/s");
	say_number("capture_GBps", one.gbps, "10^9 bytes/s");
	say_number("capture_of_peak", one.gbps / floor_, "ratio");
	say_number("capture_four_times_lent_GBps", quarter.gbps, "10^9 bytes/s");
	say_number("capture_500_tensors_GBps", small.gbps, "10^9 bytes/s");
	say_number("write_500_tensors_ms", small.blocked_ms, "ms");
	say_number("capture_10000_tensors_GBps", tiny.gbps, "10^9 bytes/s");
	say_number("write_10000_tensors_ms", tiny.blocked_ms, "ms");
	say_number("step_inflation_memory_bound", inflation(), "ratio");
}

static void cases(void)
{
	const uint64_t sizes[] = {1, 511, 4097, MIB + 3, compared + 1};

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		one_size(sizes[i], CKPTFS_CHECK_SAMPLE, stream);
		one_size(sizes[i], CKPTFS_CHECK_ALL, NULL);
	}
	four_times_lent();
	of_a_pool();
	strided();
	restored();
	steps("a save at every step", CKPTFS_CHECK_SAMPLE, true, false);
	steps("without the barrier nothing wrong lands", CKPTFS_CHECK_SAMPLE, false, false);
	steps("control: without barrier and checks it does", CKPTFS_CHECK_OFF, false, true);
	memory_used();
}

static const char *begin_cuda(void)
{
	CUcontext context;
	const char *lacks;
	int n = 0;

	cu = cuda_driver();
	if (!cu)
		return cuda_driver_missing();
	lacks = cuda_trainer_load(&tr);
	if (lacks)
		return lacks;
	if (cu->Init(0) || cu->DeviceGetCount(&n) || !n)
		return "no CUDA device";
	MUST(cu->DevicePrimaryCtxRetain(&context, 0));
	MUST(cu->CtxPushCurrent(context));
	MUST(cu->StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return NULL;
}

int main(int argc, char **argv)
{
	const char *none = begin_cuda();
	int version = 0;

	if (none) {
		printf("{\"skipped\": \"%s\"}\n", none);
		return 77;
	}
	if (argc > 1)
		size = strtoull(argv[1], NULL, 10);
	if (argc > 2)
		rounds = (unsigned)atoi(argv[2]);
	if (size < NR_SMALL * 4096 || !rounds || rounds > ROUNDS_MAX) {
		fputs("capture: BYTES or ROUNDS is out of range\n", stderr);
		return 2;
	}
	if (size < compared)
		compared = size;
	cu->DriverGetVersion(&version);
	printf("{\"driver\": %d, \"fake\": %s, \"bytes\": %llu, \"cases\": [", version,
	       tr.Launch ? "true" : "false", (unsigned long long)size);
	cases();
	printf("]");
	numbers();
	printf(",\n \"wrong\": %u}\n", nr_wrong);
	return nr_wrong > 0;
}
