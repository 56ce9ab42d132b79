/* SPDX-License-Identifier: MIT */
/*
 * Events. To record one is to note how far its stream has come to be queued; who waits for it waits
 * for what was noted when the wait was asked for, whatever is recorded later.
 */
#include "tests/fakecuda/fake.h"

#include "engine/base/cleanup.h"

struct CUevent_st {
	CUcontext context;
	struct moment moment; /* zero: never recorded, which is as good as past */
	uint64_t capture;     /* the one in which it was last recorded; 0: none */
};

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	CALL(CONTEXT, "flags=%u", flags);
	*event = malloc(sizeof(**event));
	**event = (struct CUevent_st){.context = current_context()};
	return CUDA_SUCCESS;
}

/*
 * Waits that were asked for have their own copy of the moment. In a failed context, too, it is
 * gone.
 */
CUresult cuEventDestroy_v2(CUevent event)
{
	CUresult failed;

	CALL(0, "event=%p", (void *)event);
	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	MUTEX_SCOPE(&fake.lock);
	failed = event->context->failed;
	free(event);
	return failed;
}

CUresult cuEventRecord(CUevent event, CUstream handle)
{
	struct CUstream_st *stream;
	CUresult error;
	uint64_t id;

	CALL(CONTEXT, "event=%p stream=%p", (void *)event, (void *)handle);
	MUTEX_SCOPE(&fake.lock);
	error = stream_of(handle, &stream);
	if (!error && (!event || event->context != stream->context))
		error = CUDA_ERROR_INVALID_HANDLE;
	if (error)
		return error;
	id = capture_id(stream);
	error = stream_add(stream, NULL, NULL, NULL, &event->moment);
	event->capture = error ? 0 : id;
	return error;
}

CUresult cuEventQuery(CUevent event)
{
	CALL(CONTEXT | UNSAFE, "event=%p", (void *)event);
	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	MUTEX_SCOPE(&fake.lock);
	if (event->capture)
		return CUDA_ERROR_CAPTURED_EVENT;
	return moment_past(event->moment) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event)
{
	CALL(CONTEXT | UNSAFE, "event=%p", (void *)event);
	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	MUTEX_SCOPE(&fake.lock);
	if (event->capture)
		return CUDA_ERROR_CAPTURED_EVENT;
	return moment_wait(event->context, event->moment);
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags)
{
	struct CUstream_st *stream;
	bool captured = false;
	CUresult error;

	CALL(CONTEXT, "stream=%p event=%p flags=%u", (void *)handle, (void *)event, flags);
	MUTEX_SCOPE(&fake.lock);
	error = stream_of(handle, &stream);
	if (!error && !event)
		error = CUDA_ERROR_INVALID_HANDLE;
	if (error || (!event->moment.stream && !event->capture))
		return error;
	error = capture_joins(stream, event->capture, &captured);
	if (error || captured)
		return error;
	return stream_add(stream, NULL, NULL, &event->moment, NULL);
}
