/* SPDX-License-Identifier: MIT */
/* Of a CUDA driver: device memory, host memory that is registered, and copies. */
#include "tests/gpu/conformance.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HOST_PAGES 64
#define BEYOND	   (4ul << 20) /* more than what a driver makes small allocations of */

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

/* Where cudaMallocAsync takes it from. */
static void pools(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	int attribute = CU_POINTER_ATTRIBUTE_CONTEXT;
	CUcontext of = context;
	void *value = &of;
	CUdeviceptr memory;
	struct about a;
	struct gate gate;
	char *host;

	if (!tr.MemAllocAsync || !tr.MemFreeAsync)
		return skip("memory of a pool can be allocated", "the driver cannot");
	host = new_pinned(PAGE);
	is("memory of a pool can be allocated", tr.MemAllocAsync(&memory, PAGE, stream),
	   CUDA_SUCCESS);
	MUST(cu->PointerGetAttributes(1, &attribute, &value, memory));
	ok("it belongs to no context" UNSURE, !of);
	about(memory, &a);
	ok("and is device memory of this device", a.type == CU_MEMORYTYPE_DEVICE && !a.ordinal);
	gate_close(&gate, stream);
	MUST(tr.MemsetD8Async(memory, 4, PAGE, stream));
	MUST(cu->MemcpyDtoHAsync(host, memory, PAGE, stream));
	is("it is freed behind the stream's work", tr.MemFreeAsync(memory, stream), CUDA_SUCCESS);
	gate_open(&gate);
	MUST(tr.StreamSynchronize(stream));
	ok("which finds it", all_are(host, PAGE, 4));
	free_pinned(host, PAGE);
	MUST(cu->StreamDestroy(stream));
}

void memory_cases(void)
{
	group = "device memory";
	device_memory();
	group = "memory of a pool";
	pools();
	group = "registered memory";
	registration();
	group = "allocated host memory";
	allocated_host_memory();
	group = "copies";
	copies();
}
