/* SPDX-License-Identifier: MIT */
/* Of a CUDA driver: what comes after what, the capture of tensors, and stream capture. */
#include "tests/gpu/conformance.h"

#include <pthread.h>
#include <unistd.h>

#include "engine/base/clock.h"

#define ROUNDS 20

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

/*
 * What a capture does: copies @memory once @produced is past; what is then done with @trainer's
 * stream comes after.
 */
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

void stream_cases(void)
{
	group = "events";
	events();
	group = "legacy stream";
	legacy_stream();
	group = "barrier";
	barrier();
	group = "kernels";
	if (tr.Launch)
		kernels();
	else
		skip("kernels", "of C code only the fake driver has");
	group = "stream capture";
	capture_modes();
}
