/* SPDX-License-Identifier: MIT */
/*
 * conformance [--json]: what this program's driver, the real one or tests/fakecuda, does of what
 * libckptfs relies on. The same on both, but for what no real driver can be made to do; a difference
 * is a bug of the fake. Status 0: all as it should be; 1: something is not; 77: there is no driver.
 *
 * What is said as UNSURE is to be confirmed on hardware: documentation leaves it open, or only
 * reports tell it.
 *
 * A stream is kept busy by a host function that waits in it (struct gate), so that nothing here
 * depends on time.
 */
#include <err.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cuda_driver.h"
#include "engine/base/clock.h"
#include "tests/fakecuda/api.h"

#define UNSURE " [to be confirmed on hardware]"

#define PAGE	    4096ul
#define HOST_PAGES  64
#define ROUNDS	    20
#define BEYOND	    (4ul << 20) /* more than what a driver makes small allocations of */
#define MAX_ASSERTS 128
#define FAULTED	    99

static const struct cuda_driver *cu;
static struct cuda_trainer tr;
static CUcontext context;
static size_t size; /* of a copy that takes its time */

/* --- assertions --- */

static const char *group; /* of cases */
static struct {
	const char *group, *name, *verdict;
} asserted[MAX_ASSERTS];
static int n_asserted, n_failed, n_skipped;
static bool json;

static void note(const char *name, const char *verdict, const char *got)
{
	if (n_asserted == MAX_ASSERTS)
		errx(2, "more than MAX_ASSERTS assertions");
	asserted[n_asserted].group = group;
	asserted[n_asserted].name = name;
	asserted[n_asserted++].verdict = verdict;
	if (!json)
		printf("%-4s %s: %s%s%s\n", verdict, group, name, *got ? ": " : "", got);
	fflush(stdout);
}

static bool ok(const char *name, bool true_)
{
	n_failed += !true_;
	note(name, true_ ? "ok" : "FAIL", "");
	return true_;
}

static void skip(const char *name, const char *why)
{
	n_skipped++;
	note(name, "skip", why);
}

static bool is(const char *name, CUresult got, CUresult wanted)
{
	char one[80], other[80], text[200];

	if (got == wanted)
		return ok(name, true);
	snprintf(text, sizeof(text), "got %s, wanted %s",
		 cuda_error_text(cu, got, one, sizeof(one)),
		 cuda_error_text(cu, wanted, other, sizeof(other)));
	n_failed++;
	note(name, "FAIL", text);
	return false;
}

/* What has to work for anything to make sense. */
static void must(CUresult got, const char *what)
{
	char text[80];

	if (got)
		errx(1, "%s: %s", what, cuda_error_text(cu, got, text, sizeof(text)));
}

#define MUST(call) must(call, #call)

static void print_json(void)
{
	int version = 0;

	cu->DriverGetVersion(&version);
	printf("{\"driver\": %d, \"fake\": %s, \"passed\": %d, \"failed\": %d, \"skipped\": %d, "
	       "\"assertions\": [",
	       version, tr.Launch ? "true" : "false", n_asserted - n_failed - n_skipped, n_failed,
	       n_skipped);
	for (int i = 0; i < n_asserted; i++)
		printf("%s\n  {\"group\": \"%s\", \"name\": \"%s\", \"verdict\": \"%s\"}",
		       i ? "," : "", asserted[i].group, asserted[i].name, asserted[i].verdict);
	printf("]}\n");
}

/* --- what the cases use --- */

struct gate {
	sem_t reached, open;
};

static void gate_wait(void *arg)
{
	struct gate *gate = arg;

	sem_post(&gate->reached);
	sem_wait(&gate->open);
}

static void gate_init(struct gate *gate)
{
	sem_init(&gate->reached, 0, 0);
	sem_init(&gate->open, 0, 0);
}

/* From now on @stream does nothing, until gate_open. */
static void gate_close(struct gate *gate, CUstream stream)
{
	gate_init(gate);
	MUST(tr.LaunchHostFunc(stream, gate_wait, gate));
	sem_wait(&gate->reached);
}

static void gate_open(struct gate *gate)
{
	sem_post(&gate->open);
}

static CUstream new_stream(unsigned int flags)
{
	CUstream stream;

	MUST(cu->StreamCreate(&stream, flags));
	return stream;
}

static CUevent new_event(void)
{
	CUevent event;

	MUST(cu->EventCreate(&event, CU_EVENT_DISABLE_TIMING));
	return event;
}

static CUevent record(CUstream stream)
{
	CUevent event = new_event();

	MUST(cu->EventRecord(event, stream));
	return event;
}

static CUdeviceptr new_memory(size_t bytes, int byte)
{
	CUdeviceptr memory;

	MUST(tr.MemAlloc(&memory, bytes));
	MUST(tr.MemsetD8(memory, byte, bytes));
	MUST(tr.CtxSynchronize());
	return memory;
}

static char *new_host(size_t bytes)
{
	int fd = memfd_create("conformance", MFD_CLOEXEC);
	char *memory;

	if (fd < 0 || ftruncate(fd, bytes) < 0)
		err(1, "memfd_create");
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		err(1, "mmap");
	close(fd);
	memset(memory, 0, bytes);
	return memory;
}

static char *new_pinned(size_t bytes)
{
	char *memory = new_host(bytes);

	MUST(cu->MemHostRegister(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE));
	return memory;
}

static void free_pinned(char *memory, size_t bytes)
{
	MUST(cu->MemHostUnregister(memory));
	munmap(memory, bytes);
}

static bool all_are(const char *memory, size_t bytes, int byte)
{
	return memory[0] == (char)byte && !memcmp(memory, memory + 1, bytes - 1);
}

/* All of device memory, looked at with all work done. */
static bool device_is(CUdeviceptr memory, size_t bytes, int byte)
{
	char *copy = malloc(bytes);
	bool same;

	MUST(tr.CtxSynchronize());
	MUST(tr.MemcpyDtoH(copy, memory, bytes));
	same = all_are(copy, bytes, byte);
	free(copy);
	return same;
}

struct about {
	unsigned int type;
	unsigned long long id;
	CUdeviceptr start;
	size_t size;
	int ordinal;
	unsigned int managed;
};

static CUresult about(CUdeviceptr pointer, struct about *about)
{
	int which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_BUFFER_ID,
		       CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
		       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,   CU_POINTER_ATTRIBUTE_IS_MANAGED};
	void *values[] = {&about->type, &about->id,	 &about->start,
			  &about->size, &about->ordinal, &about->managed};

	memset(about, 0xff, sizeof(*about));
	return cu->PointerGetAttributes(6, which, values, pointer);
}

/* The exit status of this program, started anew with @role: a process of its own, to be spoilt. */
static int status_of(const char *role)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		execl("/proc/self/exe", "conformance", "--child", role, NULL);
		_exit(126);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* --- cases --- */

static void before_init(void)
{
	const char *name = "";
	unsigned int flags;
	char text[80];
	int n = -1;

	is("names of errors are there before cuInit",
	   cu->GetErrorName ? cu->GetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &name) : CUDA_SUCCESS,
	   CUDA_SUCCESS);
	ok("an error's text is its name and number",
	   !strcmp(cuda_error_text(cu, CUDA_ERROR_ILLEGAL_ADDRESS, text, sizeof(text)),
		   "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
	ok("an error without a name has a text",
	   !strcmp(cuda_error_text(cu, 123456, text, sizeof(text)), "CUDA error 123456"));
	is("the version is there before cuInit", cu->DriverGetVersion(&n), CUDA_SUCCESS);
	ok("the version is 11 or later", n >= 11000);
	is("there are no devices before cuInit", cu->DeviceGetCount(&n),
	   CUDA_ERROR_NOT_INITIALIZED);
	is("nor primary contexts", cu->DevicePrimaryCtxGetState(0, &flags, &n),
	   CUDA_ERROR_NOT_INITIALIZED);
	is("cuInit takes no flags", cu->Init(1), CUDA_ERROR_INVALID_VALUE);
}

static void devices(void)
{
	CUuuid one = {{0}}, again = {{0}}, zero = {{0}};
	char bus[32] = "";
	CUdevice device;
	int n = 0, value = 0;
	unsigned int a, b, c, d;

	is("devices can be counted", cu->DeviceGetCount(&n), CUDA_SUCCESS);
	is("one past the last is none", cu->DeviceGet(&device, n), CUDA_ERROR_INVALID_DEVICE);
	is("the first can be had", cu->DeviceGet(&device, 0), CUDA_SUCCESS);
	cu->DeviceGetUuid(&one, 0);
	cu->DeviceGetUuid(&again, 0);
	ok("a UUID is always the same, and not zero",
	   !memcmp(&one, &again, sizeof(one)) && memcmp(&one, &zero, sizeof(one)));
	is("the PCI address can be had", cu->DeviceGetPCIBusId(bus, sizeof(bus), 0), CUDA_SUCCESS);
	ok("it is domain:bus:device.function",
	   sscanf(bus, "%x:%x:%x.%u", &a, &b, &c, &d) == 4 && strlen(bus) == 12);
	cu->DeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0);
	ok("addresses are unified", value == 1);
	is("an attribute that there is not is refused", cu->DeviceGetAttribute(&value, 100000, 0),
	   CUDA_ERROR_INVALID_VALUE);
}

static void contexts(void)
{
	CUcontext again, popped = NULL;
	unsigned int flags;
	CUstream stream;
	int active = -1;

	cu->DevicePrimaryCtxGetState(0, &flags, &active);
	ok("cuInit makes no context", active == 0);
	is("without a context there is no stream", cu->StreamCreate(&stream, 0),
	   CUDA_ERROR_INVALID_CONTEXT);
	is("nothing can be popped where nothing was pushed", cu->CtxPopCurrent(&popped),
	   CUDA_ERROR_INVALID_CONTEXT);
	MUST(cu->DevicePrimaryCtxRetain(&context, 0));
	cu->DevicePrimaryCtxGetState(0, &flags, &active);
	ok("a retained context is active", active == 1);
	MUST(cu->DevicePrimaryCtxRetain(&again, 0));
	ok("there is one primary context a device", again == context);
	MUST(cu->DevicePrimaryCtxRelease(0));
	cu->DevicePrimaryCtxGetState(0, &flags, &active);
	ok("it is active until it is released as often", active == 1);
	MUST(cu->CtxPushCurrent(context));
	MUST(cu->CtxPopCurrent(&popped));
	ok("what was pushed is popped", popped == context);
	MUST(tr.CtxSetCurrent(context));
	MUST(tr.CtxGetCurrent(&again));
	ok("the current context can be set", again == context);
	MUST(tr.CtxSetCurrent(NULL));
	is("and taken away", cu->StreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
	MUST(cu->CtxPushCurrent(context));
}

static void device_memory(void)
{
	char out[256], in[256] = {0}, *room = malloc(BEYOND);
	CUdeviceptr memory = 0, other;
	struct about a, b;
	void *heap = malloc(100);
	unsigned long long freed;

	is("no bytes cannot be allocated", tr.MemAlloc(&memory, 0), CUDA_ERROR_INVALID_VALUE);
	is("a petabyte is too much", tr.MemAlloc(&memory, 1ull << 50), CUDA_ERROR_OUT_OF_MEMORY);
	memory = new_memory(PAGE, 7);
	other = new_memory(100, 7);
	ok("memory is aligned to 256", memory % 256 == 0 && other % 256 == 0);
	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (char)i;
	MUST(tr.MemcpyHtoD(memory + 3, out, sizeof(out)));
	MUST(tr.MemcpyDtoH(in, memory + 3, sizeof(in)));
	ok("what goes to the device comes back", !memcmp(in, out, sizeof(in)));

	is("a pointer into memory is known", about(memory + 100, &a), CUDA_SUCCESS);
	about(other, &b);
	ok("as device memory of this device",
	   a.type == CU_MEMORYTYPE_DEVICE && a.ordinal == 0 && !(a.managed & 1));
	ok("with the range that was allocated" UNSURE, a.start == memory && a.size == PAGE);
	ok("each allocation has a number of its own", a.id != b.id && a.id && b.id);
	freed = b.id;
	MUST(tr.MemFree(other));
	other = new_memory(100, 7);
	about(other, &b);
	ok("and so has the next one", b.id != freed && b.id != a.id);
	is("an unknown pointer is no error" UNSURE, about((CUdeviceptr)(uintptr_t)heap, &b),
	   CUDA_SUCCESS);
	ok("but of no type, without a number" UNSURE, b.type == 0 && b.id == 0);
	is("a copy beyond the end is refused" UNSURE, tr.MemcpyDtoH(room, other, BEYOND),
	   CUDA_ERROR_INVALID_VALUE);
	is("no bytes can be copied" UNSURE, tr.MemcpyDtoH(in, other, 0), CUDA_SUCCESS);
	MUST(tr.MemFree(other));
	MUST(tr.MemFree(memory));
	free(heap);
	free(room);
}

static void registration(void)
{
	char *host = new_host(HOST_PAGES * PAGE), *hole = new_host(PAGE);
	CUdeviceptr memory = new_memory(8 * PAGE, 5);
	struct about a;

	is("no bytes cannot be registered", cu->MemHostRegister(host, 0, 0),
	   CUDA_ERROR_INVALID_VALUE);
	munmap(hole, PAGE);
	ok("nor what is not mapped", cu->MemHostRegister(hole, PAGE, 0) != CUDA_SUCCESS);
	is("a memfd can be registered", cu->MemHostRegister(host + 8 * PAGE, 8 * PAGE, 0),
	   CUDA_SUCCESS);
	is("not twice", cu->MemHostRegister(host + 8 * PAGE, 8 * PAGE, 0),
	   CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	is("nor a part of it", cu->MemHostRegister(host + 10 * PAGE, PAGE, 0),
	   CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	is("nor what overlaps with its end", cu->MemHostRegister(host + 15 * PAGE, 2 * PAGE, 0),
	   CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	is("nor what holds it all" UNSURE, cu->MemHostRegister(host, HOST_PAGES * PAGE, 0),
	   CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	is("what comes next can be", cu->MemHostRegister(host + 16 * PAGE, 8 * PAGE, 0),
	   CUDA_SUCCESS);
	about((CUdeviceptr)(uintptr_t)(host + 9 * PAGE), &a);
	ok("registered memory is known as the host's", a.type == CU_MEMORYTYPE_HOST);
	is("a copy to its middle works",
	   cu->MemcpyDtoHAsync(host + 10 * PAGE, memory, 2 * PAGE, NULL), CUDA_SUCCESS);
	MUST(tr.CtxSynchronize());
	ok("and stays within",
	   all_are(host + 10 * PAGE, 2 * PAGE, 5) && !host[10 * PAGE - 1] && !host[12 * PAGE]);
	is("one copy may not run from one registration into the next" UNSURE,
	   cu->MemcpyDtoHAsync(host + 15 * PAGE, memory, 2 * PAGE, NULL), CUDA_ERROR_INVALID_VALUE);
	ok("its middle cannot be unregistered" UNSURE,
	   cu->MemHostUnregister(host + 9 * PAGE) != CUDA_SUCCESS);
	is("it can be unregistered", cu->MemHostUnregister(host + 8 * PAGE), CUDA_SUCCESS);
	is("once", cu->MemHostUnregister(host + 8 * PAGE), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	is("and registered again", cu->MemHostRegister(host + 8 * PAGE, 8 * PAGE, 0), CUDA_SUCCESS);
	MUST(cu->MemHostUnregister(host + 8 * PAGE));
	MUST(cu->MemHostUnregister(host + 16 * PAGE));
	is("a copy to memory that is not registered works",
	   cu->MemcpyDtoHAsync(host, memory, 8 * PAGE, NULL), CUDA_SUCCESS);
	ok("and has ended when it returns" UNSURE, all_are(host, 8 * PAGE, 5));
	MUST(tr.MemFree(memory));
	munmap(host, HOST_PAGES * PAGE);
}

static void allocated_host_memory(void)
{
	CUdeviceptr memory = new_memory(PAGE, 6);
	size_t available = 0, total = 0;
	struct about a;
	void *host;

	MUST(tr.MemGetInfo(&available, &total));
	ok("there is some memory, and not more of it free", total && available <= total);
	if (!cu->MemHostAlloc || !cu->MemFreeHost)
		return skip("host memory can be allocated", "the driver cannot");
	is("host memory can be allocated", cu->MemHostAlloc(&host, 2 * PAGE, 0), CUDA_SUCCESS);
	about((CUdeviceptr)(uintptr_t)host, &a);
	ok("and is known as such", a.type == CU_MEMORYTYPE_HOST);
	is("it is registered already", cu->MemHostRegister(host, PAGE, 0),
	   CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	MUST(cu->MemcpyDtoHAsync(host, memory, PAGE, NULL));
	MUST(tr.CtxSynchronize());
	ok("copies to it work", all_are(host, PAGE, 6));
	ok("it cannot be unregistered", cu->MemHostUnregister(host) != CUDA_SUCCESS);
	is("it can be freed", cu->MemFreeHost(host), CUDA_SUCCESS);
	ok("once", cu->MemFreeHost(host) != CUDA_SUCCESS);
	MUST(tr.MemFree(memory));
}

static void events(void)
{
	CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
	CUevent event = new_event(), later, after;
	struct gate gate;

	is("an event that was never recorded is past", cu->EventQuery(event), CUDA_SUCCESS);
	MUST(cu->StreamWaitEvent(a, event, 0));
	is("and waiting for it does not wait", tr.StreamSynchronize(a), CUDA_SUCCESS);

	MUST(cu->EventRecord(event, b));
	MUST(tr.StreamSynchronize(b));
	gate_close(&gate, a);
	later = record(a);
	is("an event behind work is not ready", cu->EventQuery(later), CUDA_ERROR_NOT_READY);
	is("nor is its stream", tr.StreamQuery(a), CUDA_ERROR_NOT_READY);
	MUST(cu->StreamWaitEvent(b, event, 0));
	MUST(cu->EventRecord(event, a));
	is("a wait is for what was recorded before it", tr.StreamSynchronize(b), CUDA_SUCCESS);
	MUST(cu->StreamWaitEvent(b, event, 0));
	after = record(b);
	MUST(cu->EventRecord(event, new_stream(CU_STREAM_NON_BLOCKING)));
	is("and what is recorded after it changes nothing", cu->EventQuery(after),
	   CUDA_ERROR_NOT_READY);
	is("an event may be destroyed while it is waited for", cu->EventDestroy(event),
	   CUDA_SUCCESS);
	is("which ends no wait", cu->EventQuery(after), CUDA_ERROR_NOT_READY);
	gate_open(&gate);
	is("a recorded event can be waited for", cu->EventSynchronize(after), CUDA_SUCCESS);
	is("and is past then", cu->EventQuery(after), CUDA_SUCCESS);
	is("as is what it waited for", cu->EventQuery(later), CUDA_SUCCESS);

	gate_close(&gate, a);
	MUST(cu->EventRecord(later, a));
	is("a stream may be destroyed with work in it", cu->StreamDestroy(a), CUDA_SUCCESS);
	is("which goes on", cu->EventQuery(later), CUDA_ERROR_NOT_READY);
	gate_open(&gate);
	is("to its end", cu->EventSynchronize(later), CUDA_SUCCESS);
	MUST(cu->EventDestroy(later));
	MUST(cu->EventDestroy(after));
	MUST(cu->StreamDestroy(b));
}

/* An event recorded on @waits while @holds is kept busy. */
static CUresult while_busy(CUstream holds, CUstream waits)
{
	struct gate gate;
	CUresult result;
	CUevent event;

	gate_close(&gate, holds);
	event = record(waits);
	/* If nothing holds it, it is past soon. */
	for (int i = 0; (result = cu->EventQuery(event)) == CUDA_ERROR_NOT_READY && i < 100; i++)
		usleep(1000);
	gate_open(&gate);
	MUST(tr.CtxSynchronize());
	MUST(cu->EventDestroy(event));
	return result;
}

static void legacy_stream(void)
{
	CUstream blocking = new_stream(0), free_ = new_stream(CU_STREAM_NON_BLOCKING),
		 other = new_stream(CU_STREAM_NON_BLOCKING);

	is("a blocking stream waits for the legacy stream", while_busy(NULL, blocking),
	   CUDA_ERROR_NOT_READY);
	is("which has two names", while_busy(CU_STREAM_LEGACY, blocking), CUDA_ERROR_NOT_READY);
	is("the legacy stream waits for a blocking stream", while_busy(blocking, NULL),
	   CUDA_ERROR_NOT_READY);
	is("a non-blocking stream does not wait for it", while_busy(NULL, free_), CUDA_SUCCESS);
	is("nor is it waited for", while_busy(free_, NULL), CUDA_SUCCESS);
	is("nor does another one", while_busy(other, free_), CUDA_SUCCESS);
	MUST(cu->StreamDestroy(blocking));
	MUST(cu->StreamDestroy(free_));
	MUST(cu->StreamDestroy(other));
}

static void copies(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr memory = new_memory(64 * PAGE, 1);
	char *host = new_pinned(64 * PAGE);
	struct gate gate;
	bool rows = true;
	CUDA_MEMCPY2D strided = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = memory,
		.srcPitch = PAGE,
		.srcXInBytes = 100,
		.srcY = 2,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = host,
		.dstPitch = 1024,
		.WidthInBytes = 512,
		.Height = 32,
	};

	gate_close(&gate, stream);
	MUST(cu->MemcpyDtoHAsync(host, memory, 64 * PAGE, stream));
	MUST(tr.MemsetD8Async(memory, 2, 64 * PAGE, stream));
	ok("a copy to registered memory returns before it begins", all_are(host, 64 * PAGE, 0));
	gate_open(&gate);
	MUST(tr.StreamSynchronize(stream));
	ok("one stream's work is done in order",
	   all_are(host, 64 * PAGE, 1) && device_is(memory, 64 * PAGE, 2));

	memset(host, 0, 64 * PAGE);
	for (int row = 0; row < 32; row++)
		MUST(tr.MemsetD8Async(memory + (2 + row) * PAGE + 100, row + 1, 512, stream));
	is("a strided copy works", cu->Memcpy2DAsync(&strided, stream), CUDA_SUCCESS);
	MUST(tr.StreamSynchronize(stream));
	for (int row = 0; row < 32; row++)
		rows = rows && all_are(host + 1024 * row, 512, row + 1) &&
		       all_are(host + 1024 * row + 512, 512, 0);
	ok("of the rows, and nothing between them", rows);
	strided.srcPitch = 256;
	is("a pitch below the row is refused", cu->Memcpy2DAsync(&strided, stream),
	   CUDA_ERROR_INVALID_VALUE);

	memset(host, 9, PAGE);
	MUST(cu->MemcpyHtoDAsync(memory, host, PAGE, stream));
	MUST(tr.MemcpyDtoDAsync(memory + PAGE, memory, PAGE, stream));
	ok("copies to the device and within it work",
	   tr.StreamSynchronize(stream) == CUDA_SUCCESS && device_is(memory, 2 * PAGE, 9));
	free_pinned(host, 64 * PAGE);
	MUST(tr.MemFree(memory));
	MUST(cu->StreamDestroy(stream));
}

/* What a capture does: copies @memory once @produced is past; what is then done with @trainer's stream comes after. */
struct capture {
	CUstream trainer, copier;
	CUdeviceptr memory;
	char *host;
};

static void capture_queue(const struct capture *c, bool wait_for_producer, bool barrier)
{
	CUevent produced = record(c->trainer), captured;

	if (wait_for_producer)
		MUST(cu->StreamWaitEvent(c->copier, produced, 0));
	MUST(cu->MemcpyDtoHAsync(c->host, c->memory, size, c->copier));
	captured = record(c->copier);
	if (barrier)
		MUST(cu->StreamWaitEvent(c->trainer, captured, 0));
	MUST(cu->EventDestroy(produced));
	MUST(cu->EventDestroy(captured));
}

static void at_half(void *arg, int engine, size_t done, size_t total)
{
	if (engine == ENGINE_DTOH && done == total / 2)
		gate_wait(arg);
}

/* On the fake: the copy stops at its half until the change that nothing holds back is done. */
static void torn_without_barrier(const struct capture *c)
{
	struct gate gate;

	if (!tr.OnStep) {
		skip("without the barrier a capture is torn", "no copy stops at its half here");
		return;
	}
	gate_init(&gate);
	tr.OnStep(at_half, &gate);
	MUST(tr.MemsetD8Async(c->memory, 1, size, c->trainer));
	capture_queue(c, true, false);
	sem_wait(&gate.reached);
	MUST(tr.MemsetD8Async(c->memory, 2, size, c->trainer));
	MUST(tr.StreamSynchronize(c->trainer));
	gate_open(&gate);
	MUST(tr.CtxSynchronize());
	tr.OnStep(NULL, NULL);
	ok("without the barrier a capture is torn",
	   all_are(c->host, size / 2, 1) && all_are(c->host + size / 2, size / 2, 2));
}

static void barrier(void)
{
	struct capture c = {new_stream(CU_STREAM_NON_BLOCKING), new_stream(CU_STREAM_NON_BLOCKING),
			    new_memory(size, 1), new_pinned(size)};
	bool whole = true, changed = true;
	struct gate gate;

	torn_without_barrier(&c);
	if (tr.Rate)
		tr.Rate(ENGINE_DTOH, 2, 0);
	for (int i = 0; i < ROUNDS; i++) {
		MUST(tr.MemsetD8Async(c.memory, 1 + i, size, c.trainer));
		capture_queue(&c, true, true);
		MUST(tr.MemsetD8Async(c.memory, 101 + i, size, c.trainer));
		MUST(tr.StreamSynchronize(c.trainer));
		whole = whole && all_are(c.host, size, 1 + i);
		changed = changed && device_is(c.memory, size, 101 + i);
	}
	ok("with the barrier every capture is whole", whole);
	ok("and what comes after it is done", changed);
	if (tr.Rate)
		tr.Rate(ENGINE_DTOH, 0, 0);

	gate_close(&gate, c.trainer);
	MUST(tr.MemsetD8Async(c.memory, 60, size, c.trainer));
	capture_queue(&c, false, false);
	MUST(tr.StreamSynchronize(c.copier));
	ok("without waiting for the producer a capture is of what was before",
	   all_are(c.host, size, 101 + ROUNDS - 1));
	capture_queue(&c, true, false);
	gate_open(&gate);
	MUST(tr.StreamSynchronize(c.copier));
	ok("having waited it is of what was produced", all_are(c.host, size, 60));
	free_pinned(c.host, size);
	MUST(tr.MemFree(c.memory));
	MUST(cu->StreamDestroy(c.trainer));
	MUST(cu->StreamDestroy(c.copier));
}

struct kernel {
	CUdeviceptr memory;
	char byte;
};

static void add_one(void *arg)
{
	struct kernel *kernel = arg;
	void *view;

	MUST(tr.Memory(kernel->memory, &view));
	kernel->byte = ++*(char *)view;
}

static void kernels(void)
{
	struct kernel kernel = {new_memory(PAGE, 4), 0};
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	uint64_t start = clock_mono_ns();

	MUST(tr.MemsetD8Async(kernel.memory, 7, PAGE, stream));
	MUST(tr.Launch(stream, 20 * NSEC_PER_MSEC, add_one, &kernel));
	MUST(tr.Launch(stream, 0, add_one, &kernel));
	MUST(tr.StreamSynchronize(stream));
	ok("a kernel of 20 ms takes them", clock_mono_ns() - start >= 20 * NSEC_PER_MSEC);
	ok("kernels change memory in their stream's order", kernel.byte == 9);
	MUST(tr.MemsetD8(kernel.memory + 1, 9, PAGE - 1));
	ok("memory that a kernel changed is what others see", device_is(kernel.memory, PAGE, 9));
	MUST(tr.MemFree(kernel.memory));
	MUST(cu->StreamDestroy(stream));
}

/* --- stream capture --- */

struct query {
	CUevent event;
	CUstream stream;
	int mode; /* the thread's; -1: as it comes */
	CUresult result, work;
};

/* As a copy thread does in the midst of somebody else's capture. */
static void *query_thread(void *arg)
{
	struct query *query = arg;
	CUcontext popped;

	MUST(cu->CtxPushCurrent(context));
	if (query->mode >= 0)
		MUST(cu->ThreadExchangeStreamCaptureMode(&query->mode));
	query->work = cu->EventRecord(query->event, query->stream);
	query->result = cu->EventQuery(query->event);
	if (query->result == CUDA_ERROR_NOT_READY)
		query->result = CUDA_SUCCESS;
	cu->CtxPopCurrent(&popped);
	return NULL;
}

/* Captures on @stream in mode @of while another thread, in mode @by, queries an event. */
static struct query query_during(CUstream stream, int of, int by, CUresult *end)
{
	struct query query = {new_event(), new_stream(CU_STREAM_NON_BLOCKING), by, 0, 0};
	pthread_t thread;
	CUgraph graph;

	MUST(tr.StreamBeginCapture(stream, of));
	pthread_create(&thread, NULL, query_thread, &query);
	pthread_join(thread, NULL);
	*end = tr.StreamEndCapture(stream, &graph);
	if (*end == CUDA_SUCCESS)
		MUST(tr.GraphDestroy(graph));
	MUST(tr.CtxSynchronize());
	MUST(cu->EventDestroy(query.event));
	MUST(cu->StreamDestroy(query.stream));
	return query;
}

/* The thread that captures asks about an event of no capture, in this mode of its own. */
static CUresult query_by_itself(CUstream stream, int mode, CUresult *end)
{
	CUevent event = new_event();
	CUresult result;
	CUgraph graph;

	MUST(tr.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	MUST(cu->ThreadExchangeStreamCaptureMode(&mode));
	result = cu->EventQuery(event);
	MUST(cu->ThreadExchangeStreamCaptureMode(&mode));
	*end = tr.StreamEndCapture(stream, &graph);
	if (*end == CUDA_SUCCESS)
		MUST(tr.GraphDestroy(graph));
	MUST(cu->EventDestroy(event));
	return result;
}

static void capture_and_threads(CUstream stream)
{
	int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	struct query query;
	CUresult end;

	MUST(cu->ThreadExchangeStreamCaptureMode(&mode));
	ok("a thread's capture mode is global at first", mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
	MUST(cu->ThreadExchangeStreamCaptureMode(&mode));
	ok("exchanging it gives back the one before", mode == CU_STREAM_CAPTURE_MODE_RELAXED);
	query = query_during(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, -1, &end);
	is("beside a capture another thread may queue work", query.work, CUDA_SUCCESS);
	is("but query nothing", query.result, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	is("which spoils the capture", end, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	query = query_during(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED,
			     &end);
	is("a relaxed thread may", query.result, CUDA_SUCCESS);
	is("and spoils nothing", end, CUDA_SUCCESS);
	query = query_during(stream, CU_STREAM_CAPTURE_MODE_GLOBAL,
			     CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, &end);
	ok("nor does one that only looks at itself", !query.result && !end);
	query = query_during(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, -1, &end);
	ok("nor anybody, of a capture that only looks at its own thread", !query.result && !end);
	is("the capturing thread itself may not",
	   query_by_itself(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, &end),
	   CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	is("unless it is relaxed", query_by_itself(stream, CU_STREAM_CAPTURE_MODE_RELAXED, &end),
	   CUDA_SUCCESS);
	is("which then spoils nothing either", end, CUDA_SUCCESS);
}

static void capture_of_streams(CUstream stream)
{
	CUstream blocking = new_stream(0), other = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr memory = new_memory(PAGE, 1);
	CUevent event, outside = record(other);
	int status = -1;
	CUgraph graph;

	MUST(cu->StreamIsCapturing(stream, &status));
	ok("a stream is not captured at first", status == CU_STREAM_CAPTURE_STATUS_NONE);
	MUST(tr.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	MUST(cu->StreamIsCapturing(stream, &status));
	ok("then it is", status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	MUST(tr.MemsetD8Async(memory, 2, PAGE, stream));
	event = record(stream);
	is("an event of a capture cannot be queried", cu->EventQuery(event),
	   CUDA_ERROR_CAPTURED_EVENT);
	MUST(tr.StreamEndCapture(stream, &graph));
	MUST(tr.GraphDestroy(graph));
	ok("what was captured is not done", device_is(memory, PAGE, 1));
	MUST(cu->EventDestroy(event));

	MUST(tr.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	is("a captured stream cannot wait for an event of another",
	   cu->StreamWaitEvent(stream, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	is("which spoils the capture" UNSURE, tr.StreamEndCapture(stream, &graph),
	   CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

	MUST(tr.StreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
	is("while a blocking stream is captured the legacy one cannot be asked",
	   cu->StreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	is("which spoils nothing", tr.StreamEndCapture(blocking, &graph), CUDA_SUCCESS);
	MUST(tr.GraphDestroy(graph));
	MUST(cu->EventDestroy(outside));
	MUST(cu->StreamDestroy(blocking));
	MUST(cu->StreamDestroy(other));
	MUST(tr.MemFree(memory));
}

static void capture_modes(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);

	capture_and_threads(stream);
	capture_of_streams(stream);
	MUST(cu->StreamDestroy(stream));
}

/* --- processes of their own --- */

static void start(void)
{
	MUST(cu->Init(0));
	MUST(cu->DevicePrimaryCtxRetain(&context, 0));
	MUST(cu->CtxPushCurrent(context));
}

static void exit_handler(void)
{
	int n;

	_exit(cu->DeviceGetCount(&n));
}

static void fault(int signal_)
{
	(void)signal_;
	_exit(FAULTED);
}

static int child(const char *role)
{
	CUdeviceptr memory;
	CUstream stream;
	CUresult first;
	char *host;
	void *view;

	if (!strcmp(role, "after-exit")) {
		atexit(exit_handler);
		start();
		return 125;
	}
	start();
	host = new_pinned(PAGE);
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	memory = new_memory(32 << 20, 1);
	if (!strcmp(role, "dereference")) {
		memcpy(&view, &memory, sizeof(view));
		signal(SIGSEGV, fault);
		return *(volatile char *)view;
	}
	if (!strcmp(role, "unregistered")) {
		struct gate gate;

		/* The registration goes while a copy to it is still to come. */
		gate_close(&gate, stream);
		MUST(cu->MemcpyDtoHAsync(host, memory, PAGE, stream));
		MUST(cu->MemHostUnregister(host));
		gate_open(&gate);
		return tr.StreamSynchronize(stream) == CUDA_ERROR_ILLEGAL_ADDRESS ? 0 : 1;
	}
	if (!strcmp(role, "nobodys"))
		return tr.MemcpyDtoH(host, PAGE, 1) == CUDA_ERROR_INVALID_VALUE ? 0 : 1;
	MUST(tr.MemFree(memory));
	if (tr.Launch)
		new_memory(32 << 20, 2); /* elsewhere, as long as there is room */
	first = cu->MemcpyDtoHAsync(host, memory, PAGE, stream);
	if (!first)
		first = tr.StreamSynchronize(stream);
	if (first == CUDA_ERROR_ILLEGAL_ADDRESS)
		return tr.MemAlloc(&memory, PAGE) == first && tr.CtxSynchronize() == first ? 0 : 1;
	return first == CUDA_ERROR_INVALID_VALUE ? 0 : 2;
}

static int in_a_fork(void)
{
	int n, status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(cu->DeviceGetCount(&n));
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void processes(void)
{
	is("in a forked child nothing works" UNSURE, in_a_fork(), CUDA_ERROR_NOT_INITIALIZED);
	is("nor when the program is ending" UNSURE, status_of("after-exit"),
	   CUDA_ERROR_DEINITIALIZED);
	ok("use after free is refused, or fails and is sticky" UNSURE,
	   status_of("use-after-free") == 0);
	ok("an address that nobody has is refused" UNSURE, status_of("nobodys") == 0);
	if (!tr.Launch) {
		skip("who reads device memory on the CPU dies", "some systems can");
		skip("a copy to what was unregistered meanwhile fails", "undefined");
		return;
	}
	ok("who reads device memory on the CPU dies", status_of("dereference") == FAULTED);
	ok("a copy to what was unregistered meanwhile fails", status_of("unregistered") == 0);
}

int main(int argc, char **argv)
{
	const char *lacks;

	cu = cuda_driver();
	if (!cu) {
		printf("no CUDA driver: %s\n", cuda_driver_missing());
		return 77;
	}
	lacks = cuda_trainer_load(&tr);
	if (lacks)
		errx(1, "the driver lacks %s", lacks);
	if (argc == 3 && !strcmp(argv[1], "--child"))
		return child(argv[2]);
	json = argc == 2 && !strcmp(argv[1], "--json");
	size = tr.Launch ? 4 << 20 : 256 << 20;

	group = "before cuInit";
	before_init();
	if (cu->Init(0) == CUDA_ERROR_NO_DEVICE) {
		printf("no CUDA device\n");
		return 77;
	}
	group = "devices";
	devices();
	group = "contexts";
	contexts();
	group = "device memory";
	device_memory();
	group = "registered memory";
	registration();
	group = "allocated host memory";
	allocated_host_memory();
	group = "events";
	events();
	group = "legacy stream";
	legacy_stream();
	group = "copies";
	copies();
	group = "barrier";
	barrier();
	group = "kernels";
	if (tr.Launch)
		kernels();
	else
		skip("kernels", "of C code only the fake driver has");
	group = "stream capture";
	capture_modes();
	group = "processes";
	processes();
	if (json)
		print_json();
	else
		printf("%d assertions: %d failed, %d skipped\n", n_asserted, n_failed, n_skipped);
	return n_failed > 0;
}
