/* SPDX-License-Identifier: MIT */
/*
 * Device memory: for each device a window of addresses that nothing can be read from, whose
 * pointers the driver gives out, and a file of FAKE_CUDA_DIR, mapped elsewhere, where the device
 * keeps what lies there. Freed addresses are given out again as late as possible, so that their use
 * is noticed.
 *
 * And host memory: what is registered, which is what copies may run to behind the program's back.
 */
#include "tests/fakecuda/fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/cleanup.h"

#define ALIGNMENT	512
#define PAGE		4096
#define DEFAULT_MEMORY	(4ull << 30)
#define REGISTER_MAX	(512ull << 30)
#define ROUND_UP(n, to) (((n) + (to)-1) / (to) * (to))

/* Addresses [start, end) that belong together. */
struct range {
	struct range *next; /* higher addresses */
	uintptr_t start, end;
	uint64_t id;
	bool ours; /* host memory: of cuMemHostAlloc; of a device: of its pool */
};

static struct device_memory {
	char *window, *view;
	size_t size;
	struct range *allocations;
	uintptr_t next; /* where to look for room */
	char path[256];
	int fd;
} memories[MAX_DEVICES];

static struct range *registrations;
static uint64_t last_id;

/* The first that ends behind @start, and where it hangs. */
static struct range **range_from(struct range **list, uintptr_t start)
{
	while (*list && (*list)->end <= start)
		list = &(*list)->next;
	return list;
}

static void range_insert(struct range **list, uintptr_t start, size_t bytes, bool ours)
{
	struct range **where = range_from(list, start), *range = malloc(sizeof(*range));

	*range = (struct range){*where, start, start + bytes, ++last_id, ours};
	*where = range;
}

static void range_drop(struct range **where)
{
	struct range *range = *where;

	*where = range->next;
	free(range);
}

CUresult memory_open(int device)
{
	struct device_memory *memory = &memories[device];

	if (memory->window)
		return CUDA_SUCCESS;
	memory->size = (size_t)setting("MEMORY", DEFAULT_MEMORY);
	snprintf(memory->path, sizeof(memory->path), "%s/memory.%d.%d", fake.dir, getpid(), device);
	memory->fd = open(memory->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (memory->fd < 0 || ftruncate(memory->fd, memory->size) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memory->view = mmap(NULL, memory->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			    memory->fd, 0);
	memory->window = mmap(NULL, memory->size, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory->view == MAP_FAILED || memory->window == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	madvise(memory->view, memory->size, MADV_DONTFORK);
	memory->next = (uintptr_t)memory->window;
	return CUDA_SUCCESS;
}

void memory_close(void)
{
	for (int i = 0; i < MAX_DEVICES; i++)
		if (memories[i].window)
			unlink(memories[i].path);
}

static struct device_memory *memory_of(uintptr_t address)
{
	for (int i = 0; i < MAX_DEVICES; i++) {
		struct device_memory *memory = &memories[i];
		uintptr_t start = (uintptr_t)memory->window;

		if (memory->window && address >= start && address < start + memory->size)
			return memory;
	}
	return NULL;
}

bool is_device_address(CUdeviceptr pointer)
{
	return memory_of(pointer) != NULL;
}

void *device_view(CUdeviceptr pointer)
{
	struct device_memory *memory = memory_of(pointer);

	return memory ? memory->view + (pointer - (uintptr_t)memory->window) : NULL;
}

bool is_allocated(CUdeviceptr pointer, size_t bytes, bool *fits)
{
	struct device_memory *memory = memory_of(pointer);
	struct range *range = memory ? *range_from(&memory->allocations, pointer) : NULL;

	if (!range || range->start > pointer)
		return false;
	*fits = bytes <= range->end - pointer;
	return true;
}

/* The first room for @bytes in [@from, @to); 0 if there is none. */
static uintptr_t find_room(struct device_memory *memory, uintptr_t from, uintptr_t to, size_t bytes)
{
	struct range *range = *range_from(&memory->allocations, from);

	for (; range && from + bytes > range->start; range = range->next)
		from = ROUND_UP(range->end, ALIGNMENT);
	return from + bytes <= to ? from : 0;
}

static void release(struct device_memory *memory, struct range **where)
{
	off_t base = (off_t)(uintptr_t)memory->window, start = (off_t)(*where)->start - base,
	      end = (off_t)(*where)->end - base;

	start = ROUND_UP(start, PAGE);
	end = end / PAGE * PAGE;
	if (start < end)
		fallocate(memory->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, start,
			  end - start);
	range_drop(where);
}

void memory_free_all(int device)
{
	while (memories[device].allocations)
		release(&memories[device], &memories[device].allocations);
}

static CUresult allocate_locked(size_t bytes, bool of_pool, CUdeviceptr *pointer)
{
	struct device_memory *memory = &memories[current_context()->device];
	uintptr_t start = (uintptr_t)memory->window, end = start + memory->size, at;

	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytes > memory->size)
		return CUDA_ERROR_OUT_OF_MEMORY;
	at = find_room(memory, memory->next, end, bytes);
	if (!at)
		at = find_room(memory, start, end, bytes);
	if (!at)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range_insert(&memory->allocations, at, bytes, of_pool);
	memory->next = ROUND_UP(at + bytes, ALIGNMENT);
	*pointer = at;
	return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
	CALL(CONTEXT | UNSAFE, "bytes=%zu", bytes);
	MUTEX_SCOPE(&fake.lock);
	return allocate_locked(bytes, false, pointer);
}

/* The memory may be used by what is enqueued on @handle from now on; here, by all. */
CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream handle)
{
	struct CUstream_st *stream;
	CUresult error;

	CALL(CONTEXT | UNSAFE, "bytes=%zu stream=%p", bytes, (void *)handle);
	MUTEX_SCOPE(&fake.lock);
	error = stream_of(handle, &stream);
	return error ? error : allocate_locked(bytes, true, pointer);
}

static struct range **allocation_at(CUdeviceptr pointer, struct device_memory **memory)
{
	struct range **where;

	*memory = memory_of(pointer);
	where = *memory ? range_from(&(*memory)->allocations, pointer) : NULL;
	return where && *where && (*where)->start == pointer ? where : NULL;
}

static CUresult free_behind(void *pointer)
{
	struct device_memory *memory;
	struct range **where;

	MUTEX_SCOPE(&fake.lock);
	where = allocation_at(*(CUdeviceptr *)pointer, &memory);
	if (where)
		release(memory, where);
	return CUDA_SUCCESS;
}

/* When what was enqueued on @handle before has run. */
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream handle)
{
	CUdeviceptr *what;
	struct device_memory *memory;
	struct CUstream_st *stream;
	CUresult error;

	CALL(CONTEXT | UNSAFE, "pointer=%llx stream=%p", pointer, (void *)handle);
	MUTEX_SCOPE(&fake.lock);
	error = stream_of(handle, &stream);
	if (!error && !allocation_at(pointer, &memory))
		error = CUDA_ERROR_INVALID_VALUE;
	if (error)
		return error;
	what = malloc(sizeof(*what));
	*what = pointer;
	return stream_add(stream, free_behind, what, NULL, NULL);
}

/* Waits for all work of the context, as the driver does. */
CUresult cuMemFree_v2(CUdeviceptr pointer)
{
	struct device_memory *memory;
	struct range **where;
	CUresult error;

	CALL(CONTEXT | UNSAFE, "pointer=%llx", pointer);
	if (!pointer)
		return CUDA_SUCCESS;
	MUTEX_SCOPE(&fake.lock);
	error = context_wait(current_context());
	where = allocation_at(pointer, &memory);
	if (!where)
		return CUDA_ERROR_INVALID_VALUE;
	release(memory, where);
	return error;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
	struct device_memory *memory;

	CALL(CONTEXT, "%s", "");
	MUTEX_SCOPE(&fake.lock);
	memory = &memories[current_context()->device];
	*free = *total = memory->size;
	for (struct range *range = memory->allocations; range; range = range->next)
		*free -= range->end - range->start;
	return CUDA_SUCCESS;
}

CUresult fakeMemory(CUdeviceptr pointer, void **view)
{
	*view = device_view(pointer);
	return *view ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- host memory --- */

int registered(const void *memory, size_t bytes)
{
	uintptr_t start = (uintptr_t)memory;
	struct range *range = *range_from(&registrations, start);

	if (!range || range->start >= start + bytes)
		return 0;
	return range->start <= start && start + bytes <= range->end ? 1 : -1;
}

static bool is_mapped(void *memory, size_t bytes)
{
	char *start = (char *)((uintptr_t)memory / PAGE * PAGE);
	size_t length = (char *)memory + bytes - start;
	unsigned char *there = malloc(length / PAGE + 1);
	bool all = mincore(start, length, there) == 0;

	free(there);
	return all;
}

CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned int flags)
{
	CALL(CONTEXT | UNSAFE, "memory=%p bytes=%zu flags=%u", memory, bytes, flags);
	if (!memory || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	MUTEX_SCOPE(&fake.lock);
	if (registered(memory, bytes))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	if (bytes > setting("REGISTER_MAX", REGISTER_MAX))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!is_mapped(memory, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	range_insert(&registrations, (uintptr_t)memory, bytes, false);
	return CUDA_SUCCESS;
}

static struct range **registration_at(void *memory, bool ours)
{
	struct range **where = range_from(&registrations, (uintptr_t)memory);

	return *where && (*where)->start == (uintptr_t)memory && (*where)->ours == ours ? where
											: NULL;
}

CUresult cuMemHostUnregister(void *memory)
{
	struct range **where;

	CALL(CONTEXT | UNSAFE, "memory=%p", memory);
	MUTEX_SCOPE(&fake.lock);
	where = registration_at(memory, false);
	if (!where)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	range_drop(where);
	return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned int flags)
{
	CALL(CONTEXT | UNSAFE, "bytes=%zu flags=%u", bytes, flags);
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (*memory == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	MUTEX_SCOPE(&fake.lock);
	range_insert(&registrations, (uintptr_t)*memory, bytes, true);
	return CUDA_SUCCESS;
}

/* Waits for all work of the context. */
CUresult cuMemFreeHost(void *memory)
{
	struct range **where;
	CUresult error;

	CALL(CONTEXT | UNSAFE, "memory=%p", memory);
	MUTEX_SCOPE(&fake.lock);
	error = context_wait(current_context());
	where = registration_at(memory, true);
	if (!where)
		return CUDA_ERROR_INVALID_VALUE;
	munmap(memory, (*where)->end - (*where)->start);
	range_drop(where);
	return error;
}

/* Of memory that nobody knows everything is 0, and that is no error. */
CUresult cuPointerGetAttributes(unsigned int n, int *attributes, void **values, CUdeviceptr pointer)
{
	struct device_memory *memory;
	struct range *range;
	int device;

	CALL(0, "pointer=%llx", pointer);
	MUTEX_SCOPE(&fake.lock);
	memory = memory_of(pointer);
	device = memory ? (int)(memory - memories) : 0;
	range = *range_from(memory ? &memory->allocations : &registrations, pointer);
	if (range && range->start > pointer)
		range = NULL;
	for (unsigned int i = 0; i < n; i++) {
		switch (attributes[i]) {
		case CU_POINTER_ATTRIBUTE_CONTEXT:
			*(CUcontext *)values[i] =
				range && !(memory && range->ours) ? &fake.contexts[device] : NULL;
			break;
		case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
			*(unsigned int *)values[i] = !range   ? 0
						     : memory ? CU_MEMORYTYPE_DEVICE
							      : CU_MEMORYTYPE_HOST;
			break;
		case CU_POINTER_ATTRIBUTE_BUFFER_ID:
			*(unsigned long long *)values[i] = range ? range->id : 0;
			break;
		case CU_POINTER_ATTRIBUTE_IS_MANAGED:
			*(unsigned int *)values[i] = 0;
			break;
		case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
			*(int *)values[i] = range ? ordinal_of(device) : -2;
			break;
		case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
			*(CUdeviceptr *)values[i] = range ? range->start : 0;
			break;
		case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
			*(size_t *)values[i] = range ? range->end - range->start : 0;
			break;
		default:
			return CUDA_ERROR_INVALID_VALUE;
		}
	}
	return CUDA_SUCCESS;
}
