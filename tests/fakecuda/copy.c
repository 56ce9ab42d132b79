/* SPDX-License-Identifier: MIT */
/*
 * Copies. One takes the engine's time that it takes, and really happens during it, 4 KiB after 4
 * KiB: who changes the source meanwhile, or reads the target, gets some of both. The host's side
 * has to be registered for that, and to stay so; if it is not the call waits for the copy, at a
 * quarter of the speed.
 *
 * Sanitizers see what is read and written of host memory, as if a thread of the program did it:
 * that is what a program must not do meanwhile. Of device memory they see nothing.
 */
#include "tests/fakecuda/fake.h"

#include <string.h>

#include "engine/base/cleanup.h"

#define STEP	      4096
#define PAGEABLE_COST 4
#define AHEAD_NS      50000 /* not worth sleeping for */

struct side {
	CUdeviceptr device; /* or */
	char *host;
	size_t pitch;
};

struct copy {
	struct side to, from;
	size_t rows, row;
	int device, engine;
	int fill; /* a byte to fill with; -1: copy */
	bool pageable;
	struct effect effect;
	fake_step_fn *on_step;
	void *on_step_arg;
};

/* Without the sanitizers' knowing, and without a call that they know. */
__attribute__((no_sanitize("thread", "address", "undefined"))) static void
move_hidden(void *to, const void *from, size_t bytes)
{
	volatile uint64_t *to8 = to;
	const volatile uint64_t *from8 = from;
	size_t words = ((uintptr_t)to | (uintptr_t)from) % 8 ? 0 : bytes / 8;

	for (size_t i = 0; i < words; i++)
		to8[i] = from8[i];
	for (size_t i = words * 8; i < bytes; i++)
		((volatile char *)to)[i] = ((const volatile char *)from)[i];
}

static void move(const struct copy *copy, size_t row, size_t at, size_t bytes)
{
	char step[STEP] __attribute__((aligned(8)));
	size_t from = row * copy->from.pitch + at, to = row * copy->to.pitch + at;

	if (copy->fill >= 0)
		memset(step, copy->fill, bytes);
	else if (copy->from.device)
		move_hidden(step, device_view(copy->from.device + from), bytes);
	else
		memcpy(step, copy->from.host + from, bytes);
	if (copy->to.device)
		move_hidden(device_view(copy->to.device + to), step, bytes);
	else
		memcpy(copy->to.host + to, step, bytes);
}

static size_t extent(const struct copy *copy, const struct side *side)
{
	return copy->rows ? (copy->rows - 1) * side->pitch + copy->row : 0;
}

/* Can the device get at it, now? */
static bool in_reach(const struct copy *copy, const struct side *side)
{
	bool fits = false;

	if (side->device)
		return is_allocated(side->device, extent(copy, side), &fits) && fits;
	return copy->pageable || !side->host || registered(side->host, extent(copy, side)) == 1;
}

static CUresult check_reach(const struct copy *copy)
{
	MUTEX_SCOPE(&fake.lock);
	return in_reach(copy, &copy->from) && in_reach(copy, &copy->to)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_ILLEGAL_ADDRESS;
}

static void move_all(const struct copy *copy, uint64_t start, uint64_t end)
{
	size_t total = copy->rows * copy->row, done = 0;

	for (size_t row = 0; row < copy->rows; row++) {
		for (size_t at = 0, bytes; at < copy->row && !fake.exited; at += bytes) {
			/* A double: bytes times nanoseconds may not fit. */
			uint64_t due = start + (uint64_t)((double)(end - start) * done / total);

			bytes = copy->row - at < STEP ? copy->row - at : STEP;
			if (due > now_ns() + AHEAD_NS)
				sleep_until(due);
			if (copy->on_step)
				copy->on_step(copy->on_step_arg, copy->engine, done, total);
			move(copy, row, at, bytes);
			done += bytes;
		}
	}
	sleep_until(end);
}

static void flip(const struct copy *copy)
{
	size_t at = (copy->rows / 2) * copy->to.pitch + copy->row / 2;
	char *byte = copy->to.device ? device_view(copy->to.device + at) : copy->to.host + at;

	*byte ^= 1;
}

/*
 * Between these two no lock is taken, which would order, for ThreadSanitizer, what is copied and
 * what the program does. Exit waits in between, unless the program may be holding up the copy
 * itself.
 */
static void copy_begins(struct copy *copy)
{
	MUTEX_SCOPE(&fake.lock);
	if (copy->fill < 0) {
		copy->on_step = fake.on_step;
		copy->on_step_arg = fake.on_step_arg;
		fake.copies++;
	}
	fake.copying += !copy->on_step;
}

static void copy_ends(const struct copy *copy)
{
	MUTEX_SCOPE(&fake.lock);
	fake.copying -= !copy->on_step;
	pthread_cond_broadcast(&fake.moved);
}

static CUresult copy_run(void *what)
{
	struct copy *copy = what;
	size_t total = copy->rows * copy->row;
	uint64_t start, end;
	CUresult error;

	if (copy->effect.stall)
		inject_stall(copy->effect.stall);
	if (copy->effect.late)
		return copy->effect.late;
	error = check_reach(copy);
	if (error)
		return error;
	engine_reserve(copy->device, copy->engine, copy->pageable ? total * PAGEABLE_COST : total,
		       &start, &end);
	sleep_until(start);
	copy_begins(copy);
	call_log("%s engine=%d bytes=%zu pageable=%d", copy->fill < 0 ? "begin" : "fill",
		 copy->engine, total, copy->pageable);
	move_all(copy, start, end);
	if (copy->effect.flip && total)
		flip(copy);
	error = check_reach(copy);
	if (copy->fill < 0)
		call_log("end engine=%d bytes=%zu", copy->engine, total);
	copy_ends(copy);
	return error;
}

/* What the driver sees of a wrong range before anything is queued. Freed memory shows later. */
static CUresult check_side(const struct copy *copy, struct side *side)
{
	bool fits;

	if (copy->rows > 1 && side->pitch < copy->row)
		return CUDA_ERROR_INVALID_VALUE;
	if (!side->device)
		return side->host && registered(side->host, extent(copy, side)) < 0
			       ? CUDA_ERROR_INVALID_VALUE
			       : CUDA_SUCCESS;
	if (!is_device_address(side->device))
		return CUDA_ERROR_INVALID_VALUE;
	if (is_allocated(side->device, extent(copy, side), &fits) && !fits)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static bool is_pageable(const struct copy *copy, const struct side *side)
{
	return side->host && !registered(side->host, extent(copy, side));
}

/* @sync: returns when it is done, as it does of memory that is not registered in any case. */
static CUresult copy_queue(const struct copy *asked, CUstream handle, bool sync)
{
	struct CUstream_st *stream;
	struct moment end;
	struct copy *copy;
	CUresult error;

	MUTEX_SCOPE(&fake.lock);
	error = stream_of(handle, &stream);
	if (error || !asked->rows || !asked->row)
		return error;
	copy = malloc(sizeof(*copy));
	*copy = *asked;
	copy->device = stream->context->device;
	copy->effect = fake_thread.effect;
	copy->pageable = is_pageable(copy, &copy->from) || is_pageable(copy, &copy->to);
	error = check_side(copy, &copy->from);
	if (!error)
		error = check_side(copy, &copy->to);
	if (error) {
		free(copy);
		return error;
	}
	fake.pageable += copy->pageable;
	sync = sync || copy->pageable;
	error = stream_add(stream, copy_run, copy, NULL, &end);
	return error || !sync ? error : moment_wait(stream->context, end);
}

static struct copy linear(int engine, size_t bytes)
{
	return (struct copy){.engine = engine, .rows = 1, .row = bytes, .fill = -1};
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	struct copy copy = linear(ENGINE_DTOH, bytes);

	CALL(CONTEXT, "to=%p from=%llx bytes=%zu stream=%p", to, from, bytes, (void *)stream);
	copy.to.host = to;
	copy.from.device = from;
	return copy_queue(&copy, stream, false);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	struct copy copy = linear(ENGINE_HTOD, bytes);

	CALL(CONTEXT, "to=%llx from=%p bytes=%zu stream=%p", to, from, bytes, (void *)stream);
	copy.to.device = to;
	copy.from.host = (char *)from;
	return copy_queue(&copy, stream, false);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
	struct copy copy = linear(ENGINE_DTOH, bytes);

	CALL(CONTEXT | UNSAFE, "to=%p from=%llx bytes=%zu", to, from, bytes);
	copy.to.host = to;
	copy.from.device = from;
	return copy_queue(&copy, NULL, true);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
	struct copy copy = linear(ENGINE_HTOD, bytes);

	CALL(CONTEXT | UNSAFE, "to=%llx from=%p bytes=%zu", to, from, bytes);
	copy.to.device = to;
	copy.from.host = (char *)from;
	return copy_queue(&copy, NULL, true);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	struct copy copy = linear(ENGINE_DTOD, bytes);

	CALL(CONTEXT, "to=%llx from=%llx bytes=%zu stream=%p", to, from, bytes, (void *)stream);
	copy.to.device = to;
	copy.from.device = from;
	return copy_queue(&copy, stream, false);
}

static CUresult fill(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream)
{
	struct copy copy = linear(ENGINE_DTOD, bytes);

	copy.to.device = to;
	copy.fill = byte;
	return copy_queue(&copy, stream, false);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream)
{
	CALL(CONTEXT, "to=%llx byte=%d bytes=%zu stream=%p", to, byte, bytes, (void *)stream);
	return fill(to, byte, bytes, stream);
}

/* On the legacy stream, and not waited for, as the driver does it. */
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char byte, size_t bytes)
{
	CALL(CONTEXT | UNSAFE, "to=%llx byte=%d bytes=%zu", to, byte, bytes);
	return fill(to, byte, bytes, NULL);
}

static bool side_of(unsigned int type, const void *host, CUdeviceptr device, size_t pitch, size_t x,
		    size_t y, struct side *side)
{
	*side = (struct side){.pitch = pitch};
	if (type == CU_MEMORYTYPE_DEVICE)
		side->device = device + y * pitch + x;
	else if (type == CU_MEMORYTYPE_HOST)
		side->host = (char *)host + y * pitch + x;
	return side->device || side->host;
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *p, CUstream stream)
{
	struct copy copy = linear(ENGINE_DTOD, p->WidthInBytes);

	CALL(CONTEXT, "rows=%zu row=%zu stream=%p", p->Height, p->WidthInBytes, (void *)stream);
	copy.rows = p->Height;
	if (!side_of(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcPitch, p->srcXInBytes,
		     p->srcY, &copy.from) ||
	    !side_of(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstPitch, p->dstXInBytes,
		     p->dstY, &copy.to) ||
	    (copy.from.host && copy.to.host))
		return CUDA_ERROR_INVALID_VALUE;
	if (!copy.to.device)
		copy.engine = ENGINE_DTOH;
	else if (!copy.from.device)
		copy.engine = ENGINE_HTOD;
	return copy_queue(&copy, stream, false);
}

CUresult fakeOnStep(fake_step_fn *fn, void *arg)
{
	CALL(0, "%s", fn ? "on" : "off");
	MUTEX_SCOPE(&fake.lock);
	fake.on_step = fn;
	fake.on_step_arg = arg;
	return CUDA_SUCCESS;
}

CUresult fakeCount(const char *what, uint64_t *count)
{
	MUTEX_SCOPE(&fake.lock);
	if (!strcmp(what, "copies"))
		*count = fake.copies;
	else if (!strcmp(what, "pageable"))
		*count = fake.pageable;
	else if (!strcmp(what, "streams")) {
		*count = 0;
		for (int i = 0; i < MAX_DEVICES; i++)
			for (struct CUstream_st *s = fake.contexts[i].streams; s; s = s->next)
				*count += !s->gone;
	} else
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}
