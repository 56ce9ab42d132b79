/* SPDX-License-Identifier: MIT */
#include "client/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/io.h"

#define BLOCK (1u << 20)

static int cuda_open(struct ckptfs_session *s, unsigned threads, void **state)
{
	struct cuda *cuda = calloc(1, sizeof(*cuda));

	(void)threads;
	if (!cuda)
		return -ENOMEM;
	cuda->session = s;
	pthread_mutex_init(&cuda->opening, NULL);
	cuda_gpus_open_active(cuda);
	*state = cuda;
	return 0;
}

static void cuda_close(void *state)
{
	struct cuda *cuda = state;

	cuda_gpus_close(cuda);
	pthread_mutex_destroy(&cuda->opening);
	free(cuda);
}

/* --- streams --- */

/* NULL, the legacy stream, is that of the current context. */
static CUstream stream_of(const struct cuda_gpu *g, uint64_t handle)
{
	return handle == CUDA_COMPLETE ? g->stream : (CUstream)(uintptr_t)handle;
}

/*
 * False, with @f: the stream is being captured into a graph. Work on it would run at each launch of
 * that.
 */
static bool refuse_captured(CUstream stream, struct cuda_fault *f)
{
	int status = CU_STREAM_CAPTURE_STATUS_NONE;

	if (!CUDA_TRY(f, StreamIsCapturing, stream, &status))
		return false;
	if (status == CU_STREAM_CAPTURE_STATUS_NONE)
		return true;
	f->code = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return false;
}

static bool wait_for(struct cuda_bound *b, CUstream stream, struct cuda_fault *f)
{
	return CUDA_TRY(f, EventRecord, b->produced, stream) &&
	       CUDA_TRY(f, EventSynchronize, b->produced);
}

/* --- writing by handle --- */

/* Digests of all bytes, by reading all: the price of CKPTFS_CHECK_ALL. */
static bool take_all(struct ckpt_capture *c, struct cuda_bound *b, CUstream stream,
		     struct cuda_fault *f)
{
	char *block = malloc(BLOCK);
	bool ok = block && !ckpt_probes_all_create(c);

	if (!ok)
		*f = (struct cuda_fault){CUDA_ERROR_OUT_OF_MEMORY, "malloc"};
	for (uint64_t at = 0; at < c->len && ok; at += BLOCK) {
		size_t len = c->len - at < BLOCK ? c->len - at : BLOCK;

		ok = cuda_source_copy(&c->source, c->src_off + at, len, block, CUDA_FROM_DEVICE,
				      stream, f) &&
		     wait_for(b, stream, f);
		if (ok)
			ckpt_probes_all_set(c, at / CKPT_PROBES_ALL_BYTES, block, len);
	}
	free(block);
	return ok;
}

/*
 * On the stream that produces the tensor: what is enqueued there from now on runs after the probes.
 */
static bool take_few(struct ckpt_capture *c, struct cuda_bound *b, CUstream stream,
		     struct cuda_fault *f)
{
	bool ok = true;

	ckpt_probes_choose(c);
	for (uint32_t i = 0; i < c->probes.nr && ok; i++)
		ok = cuda_source_copy(
			&c->source, c->probes.few[i].off, ckpt_probe_len(c, c->probes.few[i].off),
			b->before + i * CKPT_PROBE_BYTES, CUDA_FROM_DEVICE, stream, f);
	return ok;
}

static bool bind_to(struct cuda_gpu *g, struct ckpt_capture *c, struct cuda_bound *b,
		    struct cuda_fault *f)
{
	CUstream stream = stream_of(g, c->source.stream);
	enum ckptfs_check check = g->cuda->session->check;
	bool ok = true;

	if (check == CKPTFS_CHECK_ALL)
		ok = take_all(c, b, stream, f);
	else if (check == CKPTFS_CHECK_SAMPLE)
		ok = take_few(c, b, stream, f);
	ok = ok && CUDA_TRY(f, EventRecord, b->produced, stream);
	/*
	 * No stream tells when a tensor changes that is complete already: so the probes end here.
	 */
	if (ok && c->source.stream == CUDA_COMPLETE)
		ok = CUDA_TRY(f, EventSynchronize, b->produced);
	if (ok)
		atomic_store(&g->newest, b->produced);
	else
		cuda_driver()->StreamSynchronize(stream); /* copies to b->before may be under way */
	return ok;
}

static bool bind_in_context(struct cuda_gpu *g, struct ckpt_capture *c, struct cuda_fault *f)
{
	struct ckptfs_session *s = g->cuda->session;
	struct cuda_bound *b;

	if (!refuse_captured(stream_of(g, c->source.stream), f))
		return false;
	b = cuda_bound_get(g, f);
	if (!b)
		return false;
	if (bind_to(g, c, b, f)) {
		c->bound = b;
		return true;
	}
	pthread_mutex_lock(&s->lock);
	cuda_bound_put_locked(b);
	pthread_mutex_unlock(&s->lock);
	return false;
}

static int cuda_bind(void *state, struct ckpt_capture *c)
{
	struct cuda *cuda = state;
	struct cuda_fault f;
	struct cuda_gpu *g;
	bool ok;
	int mode, err = cuda_gpu_find(cuda, &c->source, c->src_off, c->len, c->tensor->name, &g);

	if (err)
		return err;
	ok = cuda_enter(g, &mode, &f);
	if (ok) {
		ok = bind_in_context(g, c, &f);
		cuda_leave(mode);
	}
	return ok ? 0 : cuda_fault_error(cuda->session, &f, c->tensor->name, g->ordinal);
}

static void cuda_unbind(void *state, struct ckpt_capture *c)
{
	(void)state;
	cuda_bound_put_locked(c->bound);
}

static void cuda_submit(void *state, struct ckpt_piece *p)
{
	const struct cuda_bound *b = p->capture->bound;

	(void)state;
	cuda_copy_submit(b->gpu, p);
}

/* --- the barrier --- */

/* True if @handle stands for a stream of each context. */
static bool is_special(uint64_t handle)
{
	return handle <= (uintptr_t)CU_STREAM_PER_THREAD;
}

static bool hold_back(const struct cuda_gpu *where, uint64_t handle, CUevent event,
		      struct cuda_fault *f)
{
	CUstream stream = (CUstream)(uintptr_t)handle;
	bool ok;
	int mode;

	if (!cuda_enter(where, &mode, f))
		return false;
	ok = refuse_captured(stream, f) && CUDA_TRY(f, StreamWaitEvent, stream, event, 0);
	cuda_leave(mode);
	return ok;
}

static bool fence_streams(struct cuda *cuda, struct cuda_gpu *g, const uint64_t *streams, size_t n,
			  struct cuda_fault *f)
{
	bool ok;
	int mode;

	if (!cuda_enter(g, &mode, f))
		return false;
	ok = CUDA_TRY(f, EventRecord, g->fence, g->stream);
	cuda_leave(mode);
	for (size_t i = 0; i < n && ok; i++) {
		if (streams[i] == CUDA_COMPLETE)
			continue;
		if (!is_special(streams[i])) {
			ok = hold_back(g, streams[i], g->fence, f);
			continue;
		}
		for (int o = 0; o < CUDA_GPUS_MAX && ok; o++) {
			const struct cuda_gpu *other = atomic_load(&cuda->gpus[o]);

			ok = !other || hold_back(other, streams[i], g->fence, f);
		}
	}
	return ok;
}

static int cuda_fence(void *state, const uint64_t *streams, size_t n)
{
	struct cuda *cuda = state;
	int err = 0;

	for (int i = 0; i < CUDA_GPUS_MAX; i++) {
		struct cuda_gpu *g = atomic_load(&cuda->gpus[i]);
		struct cuda_fault f;
		uint64_t target;

		if (!g || !cuda_copy_enqueued(g, &target) || fence_streams(cuda, g, streams, n, &f))
			continue;
		cuda_copy_ended(g, target);
		err = cuda_fault_error(cuda->session, &f, "the update barrier", i);
	}
	return err;
}

/* --- copies at once --- */

static bool write_in_context(struct cuda_gpu *g, struct ckpt_capture *c, int fd, int *err,
			     struct cuda_fault *f)
{
	CUstream stream = stream_of(g, c->source.stream);
	struct cuda_bound *b = NULL;
	char *block = malloc(BLOCK);
	bool ok = block;

	*f = (struct cuda_fault){CUDA_ERROR_OUT_OF_MEMORY, "malloc"};
	ok = ok && refuse_captured(stream, f) && (b = cuda_bound_get(g, f));
	for (uint64_t at = 0; at < c->len && ok && !*err; at += BLOCK) {
		size_t len = c->len - at < BLOCK ? c->len - at : BLOCK;

		ok = cuda_source_copy(&c->source, c->src_off + at, len, block, CUDA_FROM_DEVICE,
				      stream, f) &&
		     wait_for(b, stream, f);
		if (ok)
			*err = ckpt_write_all(fd, block, len, c->file_off + at);
	}
	if (!ok)
		cuda_driver()->StreamSynchronize(stream);
	if (b) {
		pthread_mutex_lock(&g->cuda->session->lock);
		cuda_bound_put_locked(b);
		pthread_mutex_unlock(&g->cuda->session->lock);
	}
	free(block);
	return ok;
}

static int cuda_write(void *state, struct ckpt_capture *c, int fd)
{
	struct cuda *cuda = state;
	struct cuda_fault f;
	struct cuda_gpu *g;
	bool ok;
	int mode, err = cuda_gpu_find(cuda, &c->source, c->src_off, c->len, c->tensor->name, &g);

	if (err)
		return err;
	ok = cuda_enter(g, &mode, &f);
	if (ok) {
		ok = write_in_context(g, c, fd, &err, &f);
		cuda_leave(mode);
	}
	return ok ? err : cuda_fault_error(cuda->session, &f, c->tensor->name, g->ordinal);
}

static bool put_in_context(struct cuda_gpu *g, const struct ckpt_source *to, uint64_t off,
			   size_t len, const void *from, struct cuda_fault *f)
{
	CUstream stream = stream_of(g, to->stream);
	struct cuda_bound *b = NULL;
	bool ok = refuse_captured(stream, f) && (b = cuda_bound_get(g, f));

	ok = ok && cuda_source_copy(to, off, len, (void *)from, CUDA_TO_DEVICE, stream, f) &&
	     wait_for(b, stream, f);
	if (!ok && b)
		cuda_driver()->StreamSynchronize(stream); /* @from is the caller's again */
	if (b) {
		pthread_mutex_lock(&g->cuda->session->lock);
		cuda_bound_put_locked(b);
		pthread_mutex_unlock(&g->cuda->session->lock);
	}
	return ok;
}

static int cuda_put(void *state, const struct ckpt_source *to, uint64_t off, size_t len,
		    const void *from)
{
	static const char what[] = "a tensor that is read";
	struct cuda *cuda = state;
	struct cuda_fault f;
	struct cuda_gpu *g;
	bool ok;
	int mode, err = len ? cuda_gpu_find(cuda, to, off, len, what, &g) : 0;

	if (err || !len)
		return err;
	ok = cuda_enter(g, &mode, &f);
	if (ok) {
		ok = put_in_context(g, to, off, len, from, &f);
		cuda_leave(mode);
	}
	return ok ? 0 : cuda_fault_error(cuda->session, &f, what, g->ordinal);
}

const struct ckpt_device ckpt_device_cuda = {
	.name = "cuda",
	.ordered = true,
	.open = cuda_open,
	.close = cuda_close,
	.bind = cuda_bind,
	.unbind = cuda_unbind,
	.submit = cuda_submit,
	.fence = cuda_fence,
	.write = cuda_write,
	.put = cuda_put,
};
