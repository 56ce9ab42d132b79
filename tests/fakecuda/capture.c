/* SPDX-License-Identifier: MIT */
/*
 * Stream capture, of which only matters here what it forbids: which calls fail while a stream is
 * captured, whose, and which of them spoil the capture. What is captured is forgotten.
 */
#include "tests/fakecuda/fake.h"

#include "engine/base/cleanup.h"

#define CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD 908

struct capture {
	struct capture *next;
	struct fake_thread *thread; /* that began it */
	struct CUstream_st *origin;
	int mode;
	bool invalid;
	uint64_t id;
};

struct CUgraph_st {
	uint64_t capture;
};

static struct capture *captures;
static uint64_t last_id;

uint64_t capture_id(const struct CUstream_st *stream)
{
	return stream->capture ? stream->capture->id : 0;
}

/*
 * Is @capture in the way of an unsafe call of this thread? Its mode says how much it looks at
 * others.
 */
static bool in_the_way(const struct capture *capture)
{
	int mode = fake_thread.capture_mode;

	if (mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (capture->thread == &fake_thread)
		return capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
	return mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
	       capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult capture_forbids(void)
{
	CUresult error = CUDA_SUCCESS;

	for (struct capture *capture = captures; capture; capture = capture->next) {
		if (!in_the_way(capture))
			continue;
		capture->invalid = true;
		error = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return error;
}

/* A capture that @stream, the legacy one, would wait for. */
static struct capture *capture_beside(const struct CUstream_st *stream)
{
	for (struct CUstream_st *s = stream->legacy ? stream->context->streams : NULL; s;
	     s = s->next)
		if (s->blocking && s->capture)
			return s->capture;
	return NULL;
}

CUresult capture_work(struct CUstream_st *stream, bool *captured)
{
	struct capture *beside = capture_beside(stream);

	if (beside) {
		beside->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	*captured = stream->capture;
	return *captured && stream->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
						     : CUDA_SUCCESS;
}

CUresult capture_asks(struct CUstream_st *stream)
{
	struct capture *beside = capture_beside(stream);

	if (beside) {
		beside->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	if (!stream->capture)
		return CUDA_SUCCESS;
	stream->capture->invalid = true;
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static struct capture *capture_by_id(uint64_t id)
{
	struct capture *capture = captures;

	while (capture && capture->id != id)
		capture = capture->next;
	return capture;
}

CUresult capture_joins(struct CUstream_st *stream, uint64_t id, bool *captured)
{
	struct capture *capture = id ? capture_by_id(id) : NULL;

	if (id && !capture)
		return CUDA_ERROR_CAPTURED_EVENT; /* that capture has ended */
	if (stream->capture && stream->capture != capture) {
		stream->capture->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	if (capture)
		stream->capture = capture;
	return capture_work(stream, captured);
}

CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
	int before = fake_thread.capture_mode;

	CALL(0, "mode=%d", *mode);
	if (*mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	fake_thread.capture_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream handle, int *status)
{
	struct CUstream_st *stream;
	CUresult error;

	CALL(CONTEXT, "stream=%p", (void *)handle);
	MUTEX_SCOPE(&fake.lock);
	error = stream_of(handle, &stream);
	if (error)
		return error;
	if (capture_beside(stream))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	*status = !stream->capture	     ? CU_STREAM_CAPTURE_STATUS_NONE
		  : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
					     : CU_STREAM_CAPTURE_STATUS_ACTIVE;
	return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream handle, int mode)
{
	struct CUstream_st *stream;
	struct capture *capture;
	CUresult error;

	CALL(CONTEXT, "stream=%p mode=%d", (void *)handle, mode);
	MUTEX_SCOPE(&fake.lock);
	error = stream_of(handle, &stream);
	if (!error && stream->legacy)
		error = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (!error && stream->capture)
		error = CUDA_ERROR_INVALID_VALUE;
	if (error)
		return error;
	capture = malloc(sizeof(*capture));
	*capture = (struct capture){captures, &fake_thread, stream, mode, false, ++last_id};
	captures = stream->capture = capture;
	return CUDA_SUCCESS;
}

static void capture_end(struct capture *capture)
{
	struct capture **where = &captures;

	for (struct CUstream_st *s = capture->origin->context->streams; s; s = s->next)
		if (s->capture == capture)
			s->capture = NULL;
	while (*where != capture)
		where = &(*where)->next;
	*where = capture->next;
	free(capture);
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph)
{
	CUresult error = CUDA_SUCCESS;
	struct CUstream_st *stream;
	struct capture *capture;

	CALL(CONTEXT, "stream=%p", (void *)handle);
	MUTEX_SCOPE(&fake.lock);
	*graph = NULL;
	if (stream_of(handle, &stream) || !stream->capture || stream->capture->origin != stream)
		return CUDA_ERROR_INVALID_VALUE;
	capture = stream->capture;
	if (capture->thread != &fake_thread && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	if (capture->invalid) {
		error = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	} else {
		*graph = malloc(sizeof(**graph));
		(*graph)->capture = capture->id;
	}
	capture_end(capture);
	return error;
}

CUresult cuGraphDestroy(CUgraph graph)
{
	CALL(0, "graph=%p", (void *)graph);
	free(graph);
	return CUDA_SUCCESS;
}
