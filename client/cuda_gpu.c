/* SPDX-License-Identifier: MIT */
/* One GPU of a session: its context, its streams, and the pinned memory and events of captures. */
#include <stdlib.h>

#include "client/cuda.h"

/* --- what is bound to captures --- */

static bool slab_create(struct cuda_gpu *g, struct cuda_fault *f)
{
	struct ckptfs_session *s = g->cuda->session;
	struct cuda_slab *slab = calloc(1, sizeof(*slab));
	unsigned nr = 0;

	*f = (struct cuda_fault){CUDA_ERROR_OUT_OF_MEMORY, "calloc"};
	if (slab)
		slab->memory = cuda_pinned_alloc(CUDA_SLAB_BOUNDS * CKPT_PROBES_BYTES, f);
	while (slab && slab->memory && nr < CUDA_SLAB_BOUNDS) {
		slab->bounds[nr].gpu = g;
		slab->bounds[nr].before = slab->memory + (size_t)nr * CKPT_PROBES_BYTES;
		/* A thread that waits for the event sleeps meanwhile. */
		if (!CUDA_TRY(f, EventCreate, &slab->bounds[nr].produced,
			      CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC))
			break;
		nr++;
	}
	if (nr < CUDA_SLAB_BOUNDS) {
		while (nr-- > 0)
			cuda_driver()->EventDestroy(slab->bounds[nr].produced);
		if (slab)
			cuda_pinned_free(slab->memory, CUDA_SLAB_BOUNDS * CKPT_PROBES_BYTES);
		free(slab);
		return false;
	}
	pthread_mutex_lock(&s->lock);
	slab->next = g->slabs;
	g->slabs = slab;
	for (unsigned i = 0; i < CUDA_SLAB_BOUNDS; i++)
		cuda_bound_put_locked(&slab->bounds[i]);
	pthread_mutex_unlock(&s->lock);
	return true;
}

/* Waits for the probes of captures that were cancelled: they may still write to this memory. */
static void slabs_free(struct cuda_gpu *g, bool entered)
{
	while (g->slabs) {
		struct cuda_slab *slab = g->slabs;

		g->slabs = slab->next;
		for (unsigned i = 0; entered && i < CUDA_SLAB_BOUNDS; i++) {
			cuda_driver()->EventSynchronize(slab->bounds[i].produced);
			cuda_driver()->EventDestroy(slab->bounds[i].produced);
		}
		cuda_pinned_free(slab->memory, CUDA_SLAB_BOUNDS * CKPT_PROBES_BYTES);
		free(slab);
	}
}

void cuda_bound_put_locked(struct cuda_bound *b)
{
	struct cuda_gpu *g = b->gpu;

	b->next = NULL;
	*g->unused_end = b;
	g->unused_end = &b->next;
}

static struct cuda_bound *take_unused(struct cuda_gpu *g)
{
	struct ckptfs_session *s = g->cuda->session;
	struct cuda_bound *b;

	pthread_mutex_lock(&s->lock);
	b = g->unused;
	if (b) {
		g->unused = b->next;
		if (!g->unused)
			g->unused_end = &g->unused;
	}
	pthread_mutex_unlock(&s->lock);
	return b;
}

static void give_back(struct cuda_gpu *g, struct cuda_bound *b)
{
	pthread_mutex_lock(&g->cuda->session->lock);
	cuda_bound_put_locked(b);
	pthread_mutex_unlock(&g->cuda->session->lock);
}

struct cuda_bound *cuda_bound_get(struct cuda_gpu *g, struct cuda_fault *f)
{
	struct cuda_bound *b;

	for (;;) {
		b = take_unused(g);
		if (b && CUDA_TRY(f, EventQuery, b->produced))
			return b;
		if (b)
			give_back(g, b);
		if (b && f->code != CUDA_ERROR_NOT_READY)
			return NULL;
		if (!slab_create(g, f))
			return NULL;
		/* The new ones are behind those that are not ready. */
		for (b = take_unused(g); b; b = take_unused(g)) {
			if (CUDA_TRY(f, EventQuery, b->produced))
				return b;
			give_back(g, b);
			if (f->code != CUDA_ERROR_NOT_READY)
				return NULL;
		}
	}
}

/* --- opening and closing --- */

static bool flights_create(struct cuda_gpu *g, struct cuda_fault *f)
{
	const struct ckptfs_session *s = g->cuda->session;
	bool all = s->check == CKPTFS_CHECK_ALL;

	g->max_flights = all ? 2 : CUDA_FLIGHTS;
	g->after_bytes = all ? s->slot_bytes + 2 * CKPT_PROBES_ALL_BYTES : CKPT_PROBES_BYTES;
	g->after = cuda_pinned_alloc(g->max_flights * g->after_bytes, f);
	if (!g->after)
		return false;
	for (unsigned i = 0; i < g->max_flights; i++) {
		g->flights[i].after = g->after + i * g->after_bytes;
		if (!CUDA_TRY(f, EventCreate, &g->flights[i].landed,
			      CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC))
			return false;
	}
	return true;
}

/* In the context. Releases all that was made of it. */
static void release_what_is_there(struct cuda_gpu *g)
{
	const struct cuda_driver *cu = cuda_driver();

	if (g->stream) {
		cu->StreamSynchronize(g->stream);
		cu->StreamDestroy(g->stream);
	}
	if (g->fence)
		cu->EventDestroy(g->fence);
	for (unsigned i = 0; i < CUDA_FLIGHTS; i++)
		if (g->flights[i].landed)
			cu->EventDestroy(g->flights[i].landed);
	cuda_pinned_free(g->after, g->max_flights * g->after_bytes);
}

/* Tries twice: memory that is not taken back from the driver must not be unmapped. */
static bool enter_to_close(struct cuda_gpu *g, int *mode)
{
	struct cuda_fault f;

	return cuda_enter(g, mode, &f) || cuda_enter(g, mode, &f);
}

static void gpu_free(struct cuda_gpu *g)
{
	bool entered;
	int mode;

	if (g->context) {
		entered = enter_to_close(g, &mode);
		if (entered)
			release_what_is_there(g);
		slabs_free(g, entered);
		if (entered)
			cuda_leave(mode);
		cuda_driver()->DevicePrimaryCtxRelease(g->device);
	}
	pthread_cond_destroy(&g->moved);
	pthread_cond_destroy(&g->more);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

static struct cuda_gpu *gpu_create(struct cuda *cuda, int ordinal)
{
	struct cuda_gpu *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->cuda = cuda;
	g->ordinal = ordinal;
	g->unused_end = &g->unused;
	g->end = &g->first;
	pthread_mutex_init(&g->lock, NULL);
	pthread_cond_init(&g->more, NULL);
	pthread_cond_init(&g->moved, NULL);
	return g;
}

/* Makes no context where the trainer has none. */
static bool retain(struct cuda_gpu *g, struct cuda_fault *f)
{
	unsigned int flags;
	int active = 0;

	if (!CUDA_TRY(f, DeviceGet, &g->device, g->ordinal) ||
	    !CUDA_TRY(f, DevicePrimaryCtxGetState, g->device, &flags, &active))
		return false;
	if (!active) {
		*f = (struct cuda_fault){CUDA_ERROR_INVALID_CONTEXT, "cuDevicePrimaryCtxGetState"};
		return false;
	}
	if (CUDA_TRY(f, DevicePrimaryCtxRetain, &g->context, g->device))
		return true;
	g->context = NULL;
	return false;
}

static bool set_up(struct cuda_gpu *g, struct cuda_fault *f)
{
	bool ok;
	int mode;

	if (!retain(g, f) || !cuda_enter(g, &mode, f))
		return false;
	ok = CUDA_TRY(f, StreamCreate, &g->stream, CU_STREAM_NON_BLOCKING) &&
	     CUDA_TRY(f, EventCreate, &g->fence, CU_EVENT_DISABLE_TIMING) && flights_create(g, f) &&
	     slab_create(g, f);
	if (ok && cuda_copy_start(g)) {
		*f = (struct cuda_fault){CUDA_ERROR_OUT_OF_MEMORY, "pthread_create"};
		ok = false;
	}
	if (ok)
		cuda_arena_pin(g->cuda, g->device);
	cuda_leave(mode);
	return ok;
}

/* Opens the GPU, once. NULL: @f says why. */
static struct cuda_gpu *gpu_open(struct cuda *cuda, int ordinal, struct cuda_fault *f)
{
	struct cuda_gpu *g;

	pthread_mutex_lock(&cuda->opening);
	g = atomic_load(&cuda->gpus[ordinal]);
	if (!g) {
		g = gpu_create(cuda, ordinal);
		*f = (struct cuda_fault){CUDA_ERROR_OUT_OF_MEMORY, "calloc"};
		if (g && !set_up(g, f)) {
			gpu_free(g);
			g = NULL;
		}
		atomic_store(&cuda->gpus[ordinal], g);
	}
	pthread_mutex_unlock(&cuda->opening);
	return g;
}

void cuda_gpus_open_active(struct cuda *cuda)
{
	struct cuda_fault f;
	int n = 0;

	/* This fails where CUDA is not initialised: then there is no context either. */
	if (!cuda_driver_if_loaded() || !CUDA_TRY(&f, DeviceGetCount, &n))
		return;
	for (int i = 0; i < n && i < CUDA_GPUS_MAX; i++)
		gpu_open(cuda, i, &f);
}

/* Finds the GPU of @addr. Only its primary context can be kept from going. */
static int find_ordinal(struct ckptfs_session *s, const void *addr, const char *tensor,
			int *ordinal)
{
	unsigned int type = 0;
	int attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
	void *values[] = {&type, ordinal};
	struct cuda_fault f;

	*ordinal = -1;
	if (!CUDA_TRY(&f, PointerGetAttributes, 2, attributes, values,
		      (CUdeviceptr)(uintptr_t)addr))
		return cuda_fault_error(s, &f, tensor, -1);
	if (type != CU_MEMORYTYPE_DEVICE || *ordinal < 0 || *ordinal >= CUDA_GPUS_MAX)
		return ckpt_error(s, -EFAULT,
				  "%.300s: is registered as of a GPU, and %p is no memory of one%s",
				  tensor, addr, s->rank_text);
	return 0;
}

/*
 * Memory of the driver's pools and of virtual mappings belongs to no context, and can be used in
 * any.
 */
static int check_context(const struct cuda_gpu *g, const void *addr, const char *tensor)
{
	CUcontext context = NULL;
	int attribute = CU_POINTER_ATTRIBUTE_CONTEXT;
	void *value = &context;
	struct cuda_fault f;

	if (!CUDA_TRY(&f, PointerGetAttributes, 1, &attribute, &value,
		      (CUdeviceptr)(uintptr_t)addr) ||
	    !context || context == g->context)
		return 0;
	return ckpt_error(
		g->cuda->session, -EOPNOTSUPP,
		"%.300s: lies in a CUDA context that is not the primary one of GPU %d, and "
		"those can be captured alone: write its bytes instead%s",
		tensor, g->ordinal, g->cuda->session->rank_text);
}

/*
 * A copy from memory that belongs to nobody would cost the trainer its context. A range may consist
 * of many allocations.
 */
static int check_end(struct ckptfs_session *s, const char *last, const char *tensor, int ordinal)
{
	int there, err = find_ordinal(s, last, tensor, &there);

	return err || there == ordinal
		       ? err
		       : ckpt_error(s, -EFAULT, "%.300s: begins on GPU %d and ends on GPU %d%s",
				    tensor, ordinal, there, s->rank_text);
}

int cuda_gpu_find(struct cuda *cuda, const struct ckpt_source *at, uint64_t off, uint64_t len,
		  const char *tensor, struct cuda_gpu **gpu)
{
	const char *addr = cuda_source_at(at, off), *last = cuda_source_at(at, off + len - 1);
	struct cuda_fault f;
	int ordinal, err = find_ordinal(cuda->session, addr, tensor, &ordinal);

	if (!err)
		err = check_end(cuda->session, last, tensor, ordinal);
	if (err)
		return err;
	*gpu = atomic_load(&cuda->gpus[ordinal]);
	if (!*gpu)
		*gpu = gpu_open(cuda, ordinal, &f);
	if (!*gpu)
		return cuda_fault_error(cuda->session, &f, tensor, ordinal);
	return check_context(*gpu, addr, tensor);
}

void cuda_gpus_close(struct cuda *cuda)
{
	int mode;

	for (int i = 0; i < CUDA_GPUS_MAX; i++)
		if (cuda->gpus[i])
			cuda_copy_stop(cuda->gpus[i]);
	for (int i = 0; i < CUDA_GPUS_MAX && cuda->pinned; i++)
		if (cuda->gpus[i] && enter_to_close(cuda->gpus[i], &mode)) {
			cuda_arena_unpin(cuda);
			cuda_leave(mode);
		}
	for (int i = 0; i < CUDA_GPUS_MAX; i++)
		if (cuda->gpus[i])
			gpu_free(cuda->gpus[i]);
}
