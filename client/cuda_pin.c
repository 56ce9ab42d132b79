/* SPDX-License-Identifier: MIT */
/*
 * Host memory that is registered with the driver (pinned), so that a copy to it runs while no
 * thread waits.
 *
 * Registering holds locks of the driver that stop all of its users on the node, and one call for
 * all of a large arena failed on some kernels and drivers. Hence it is done in steps, when the
 * first GPU is opened, mostly by the thread that opens the session.
 */
#include <limits.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/cuda.h"

#define STEP	  (1ull << 30)
#define NODES_MAX 1024
#define WORD_BITS (CHAR_BIT * sizeof(unsigned long))

char *cuda_pinned_alloc(size_t bytes, struct cuda_fault *f)
{
	char *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		*f = (struct cuda_fault){CUDA_ERROR_OUT_OF_MEMORY, "mmap"};
		return NULL;
	}
	/*
	 * A fork shares the pages, and a write could then give this process one that the GPU does
	 * not know.
	 */
	madvise(memory, bytes, MADV_DONTFORK);
	if (CUDA_TRY(f, MemHostRegister, memory, bytes, CU_MEMHOSTREGISTER_PORTABLE))
		return memory;
	munmap(memory, bytes);
	return NULL;
}

void cuda_pinned_free(char *memory, size_t bytes)
{
	if (!memory)
		return;
	cuda_driver()->MemHostUnregister(memory);
	munmap(memory, bytes);
}

/* No step ends within a slot: a copy must not run from one registration into the next. */
static uint64_t step_at(const struct ckptfs_session *s, uint64_t at)
{
	uint64_t step = STEP / s->slot_bytes * s->slot_bytes;

	if (!step)
		step = s->slot_bytes;
	return s->arena_bytes - at < step ? s->arena_bytes - at : step;
}

/*
 * Memory of the arena that nobody has touched yet is to come from the node of the host that @device
 * is attached to: a copy to another crosses the link between processors. Where no node is known, or
 * the kernel refuses, it comes from where the kernel likes.
 */
static void place(struct ckptfs_session *s, CUdevice device)
{
	unsigned long nodes[NODES_MAX / WORD_BITS] = {0};
	struct cuda_fault f;
	int node = -1;

	if (!CUDA_TRY(&f, DeviceGetAttribute, &node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device) ||
	    node < 0 || node >= NODES_MAX)
		return;
	nodes[node / WORD_BITS] = 1ul << node % WORD_BITS;
	syscall(SYS_mbind, s->arena, s->arena_bytes, MPOL_PREFERRED, nodes, NODES_MAX + 1, 0);
}

void cuda_arena_pin(struct cuda *cuda, CUdevice device)
{
	struct ckptfs_session *s = cuda->session;
	struct cuda_fault f;

	if (!cuda->pinned)
		place(s, device);
	while (cuda->pinned < s->arena_bytes) {
		uint64_t bytes = step_at(s, cuda->pinned);

		if (!CUDA_TRY(&f, MemHostRegister, s->arena + cuda->pinned, bytes,
			      CU_MEMHOSTREGISTER_PORTABLE))
			break;
		cuda->pinned += bytes;
	}
	pthread_mutex_lock(&s->lock);
	s->stats.pinned_bytes = cuda->pinned;
	pthread_mutex_unlock(&s->lock);
}

void cuda_arena_unpin(struct cuda *cuda)
{
	for (uint64_t at = 0; at < cuda->pinned; at += step_at(cuda->session, at))
		cuda_driver()->MemHostUnregister(cuda->session->arena + at);
	cuda->pinned = 0;
}
