/* SPDX-License-Identifier: MIT */
/*
 * Streams. Each has a thread that does its work in order; work that is to come after a moment of
 * another stream holds the whole stream up until then. The legacy stream is one more stream: what
 * is queued there comes after all that blocking streams have by then, and theirs after what it has.
 *
 * After a sticky error work is passed over: the context is dead, but nobody waits for ever.
 */
#include "tests/fakecuda/fake.h"

#include <signal.h>

#include "engine/base/cleanup.h"

void stream_init(struct CUstream_st *stream, CUcontext context, bool blocking)
{
	*stream = (struct CUstream_st){.context = context, .blocking = blocking};
	stream->last = &stream->first;
}

bool moment_past(struct moment moment)
{
	return !moment.stream || moment.stream->done >= moment.seq;
}

static bool may_start(const struct op *op)
{
	for (size_t i = 0; i < op->n_after; i++)
		if (!moment_past(op->after[i]))
			return false;
	return true;
}

static void op_free(struct op *op)
{
	free(op->what);
	free(op);
}

static CUresult run_unlocked(struct op *op)
{
	CUresult error;

	pthread_mutex_unlock(&fake.lock);
	error = op->run(op->what);
	pthread_mutex_lock(&fake.lock);
	return error;
}

/* The stream's thread, there as long as there is something to do. */
static void *work(void *arg)
{
	struct CUstream_st *stream = arg;
	struct op *op;

	MUTEX_SCOPE(&fake.lock);
	while ((op = stream->first)) {
		while (!fake.exited && !stream->context->failed && !may_start(op))
			pthread_cond_wait(&fake.moved, &fake.lock);
		if (fake.exited)
			return NULL;
		if (op->run && !stream->context->failed) {
			CUresult error = run_unlocked(op);

			if (error && !stream->context->failed)
				stream->context->failed = error;
		}
		stream->first = op->next;
		if (!op->next)
			stream->last = &stream->first;
		stream->done = op->seq;
		op_free(op);
		pthread_cond_broadcast(&fake.moved);
	}
	return NULL;
}

/* Signals are the program's threads' to handle. */
static void start_thread(struct CUstream_st *stream)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, work, stream))
		abort();
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void op_after(struct op *op, struct CUstream_st *stream)
{
	struct moment moment = {stream, stream->queued};

	if (!moment_past(moment))
		op->after[op->n_after++] = moment;
}

static struct op *op_make(struct CUstream_st *stream, const struct moment *after)
{
	CUcontext context = stream->context;
	struct op *op;
	size_t n = 2;

	for (struct CUstream_st *other = context->streams; other; other = other->next)
		n++;
	op = calloc(1, sizeof(*op) + n * sizeof(op->after[0]));
	if (after && !moment_past(*after))
		op->after[op->n_after++] = *after;
	if (stream->legacy) {
		for (struct CUstream_st *other = context->streams; other; other = other->next)
			if (other->blocking)
				op_after(op, other);
	} else if (stream->blocking) {
		op_after(op, &context->legacy);
	}
	return op;
}

CUresult stream_add(struct CUstream_st *stream, CUresult (*run)(void *), void *what,
		    const struct moment *after, struct moment *when)
{
	bool captured = false;
	CUresult error = capture_work(stream, &captured);
	bool idle = !stream->first;
	struct op *op;

	if (when)
		*when = (struct moment){0};
	if (error || captured) {
		free(what);
		return error;
	}
	op = op_make(stream, after);
	op->run = run;
	op->what = what;
	op->seq = ++stream->queued;
	*stream->last = op;
	stream->last = &op->next;
	if (when)
		*when = (struct moment){stream, op->seq};
	if (idle)
		start_thread(stream);
	return CUDA_SUCCESS;
}

CUresult moment_wait(CUcontext context, struct moment moment)
{
	while (!fake.exited && !moment_past(moment))
		pthread_cond_wait(&fake.moved, &fake.lock);
	return fake.exited ? CUDA_ERROR_DEINITIALIZED : context->failed;
}

static struct moment end_of(struct CUstream_st *stream)
{
	return (struct moment){stream, stream->queued};
}

CUresult context_wait(CUcontext context)
{
	struct CUstream_st *stream = context->streams;

	/* Streams are added in front, and none leaves the list. */
	for (; stream; stream = stream->next)
		moment_wait(context, end_of(stream));
	return moment_wait(context, end_of(&context->legacy));
}

CUresult stream_of(CUstream handle, struct CUstream_st **stream)
{
	CUcontext context = current_context();

	*stream = !handle || handle == CU_STREAM_LEGACY ? &context->legacy : NULL;
	for (int i = 0; i < MAX_DEVICES && !*stream; i++)
		for (struct CUstream_st *s = fake.contexts[i].streams; s && !*stream; s = s->next)
			if (s == handle && !s->gone)
				*stream = s;
	return *stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuStreamCreate(CUstream *handle, unsigned int flags)
{
	CUcontext context = current_context();
	struct CUstream_st *stream;

	CALL(CONTEXT, "flags=%u", flags);
	if (flags & ~CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	stream = malloc(sizeof(*stream));
	stream_init(stream, context, !(flags & CU_STREAM_NON_BLOCKING));
	MUTEX_SCOPE(&fake.lock);
	stream->next = context->streams;
	context->streams = stream;
	*handle = stream;
	return CUDA_SUCCESS;
}

/* What is queued is still done. */
CUresult cuStreamDestroy_v2(CUstream handle)
{
	struct CUstream_st *stream;
	CUresult error;

	CALL(CONTEXT, "stream=%p", (void *)handle);
	MUTEX_SCOPE(&fake.lock);
	error = stream_of(handle, &stream);
	if (!error && stream->legacy)
		error = CUDA_ERROR_INVALID_HANDLE;
	if (!error)
		stream->gone = true;
	return error;
}

CUresult cuStreamQuery(CUstream handle)
{
	struct CUstream_st *stream;
	CUresult error;
	bool idle;

	CALL(CONTEXT | UNSAFE, "stream=%p", (void *)handle);
	MUTEX_SCOPE(&fake.lock);
	error = stream_of(handle, &stream);
	if (!error)
		error = capture_asks(stream);
	if (error)
		return error;
	idle = moment_past(end_of(stream));
	if (stream->legacy)
		for (struct CUstream_st *s = stream->context->streams; s; s = s->next)
			idle = idle && (!s->blocking || moment_past(end_of(s)));
	return idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamSynchronize(CUstream handle)
{
	struct CUstream_st *stream;
	struct moment end;
	CUresult error;

	CALL(CONTEXT | UNSAFE, "stream=%p", (void *)handle);
	MUTEX_SCOPE(&fake.lock);
	error = stream_of(handle, &stream);
	if (!error)
		error = capture_asks(stream);
	if (!error)
		error = stream_add(stream, NULL, NULL, NULL, &end);
	return error ? error : moment_wait(stream->context, end);
}

CUresult cuCtxSynchronize(void)
{
	CALL(CONTEXT | UNSAFE, "%s", "");
	MUTEX_SCOPE(&fake.lock);
	return context_wait(current_context());
}

/* --- work that is a function of the program's --- */

struct launch {
	void (*fn)(void *arg);
	void *arg;
	uint64_t ns;
};

static CUresult launch_run(void *what)
{
	struct launch *launch = what;

	sleep_until(now_ns() + launch->ns);
	if (!fake.exited)
		launch->fn(launch->arg);
	return CUDA_SUCCESS;
}

static CUresult launch(CUstream handle, uint64_t ns, void (*fn)(void *arg), void *arg)
{
	struct launch *what = malloc(sizeof(*what));
	struct CUstream_st *stream;
	CUresult error;

	*what = (struct launch){fn, arg, ns};
	MUTEX_SCOPE(&fake.lock);
	error = stream_of(handle, &stream);
	if (!error)
		return stream_add(stream, launch_run, what, NULL, NULL);
	free(what);
	return error;
}

CUresult cuLaunchHostFunc(CUstream stream, void (*fn)(void *arg), void *arg)
{
	CALL(CONTEXT, "stream=%p", (void *)stream);
	return launch(stream, 0, fn, arg);
}

CUresult fakeLaunch(CUstream stream, uint64_t ns, void (*fn)(void *arg), void *arg)
{
	CALL(CONTEXT, "stream=%p ns=%llu", (void *)stream, (unsigned long long)ns);
	return launch(stream, ns, fn, arg);
}
