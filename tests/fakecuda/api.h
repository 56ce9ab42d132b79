/* SPDX-License-Identifier: MIT */
/*
 * Beyond client/cuda_driver.h: functions of the driver that a trainer calls and the client does
 * not, and what only the fake driver has. Programs find both at run time, in the driver that
 * cuda_driver() has loaded; the fake is built from the same lists.
 */
#ifndef TESTS_FAKECUDA_API_H
#define TESTS_FAKECUDA_API_H

#include <dlfcn.h>
#include <stdint.h>

#include "client/cuda_driver.h"

typedef struct CUgraph_st *CUgraph;

/* Which copy engine; each device has one of each. */
enum { ENGINE_DTOH, ENGINE_HTOD, ENGINE_DTOD, ENGINES };

typedef void fake_step_fn(void *arg, int engine, size_t done, size_t total);

#define CUDA_TRAINER_FUNCTIONS(X) \
	X(CtxGetCurrent, cuCtxGetCurrent, (CUcontext * context)) \
	X(CtxSetCurrent, cuCtxSetCurrent, (CUcontext context)) \
	X(CtxSynchronize, cuCtxSynchronize, (void)) \
	X(DevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, (CUdevice device)) \
	X(MemAlloc, cuMemAlloc_v2, (CUdeviceptr * pointer, size_t bytes)) \
	X(MemFree, cuMemFree_v2, (CUdeviceptr pointer)) \
	X(MemGetInfo, cuMemGetInfo_v2, (size_t * free, size_t * total)) \
	X(MemcpyHtoD, cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes)) \
	X(MemcpyDtoH, cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes)) \
	X(MemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, \
	  (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
	X(MemsetD8, cuMemsetD8_v2, (CUdeviceptr to, unsigned char byte, size_t bytes)) \
	X(MemsetD8Async, cuMemsetD8Async, \
	  (CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream)) \
	X(LaunchHostFunc, cuLaunchHostFunc, (CUstream stream, void (*fn)(void *arg), void *arg)) \
	X(StreamQuery, cuStreamQuery, (CUstream stream)) \
	X(StreamSynchronize, cuStreamSynchronize, (CUstream stream)) \
	X(StreamBeginCapture, cuStreamBeginCapture_v2, (CUstream stream, int mode)) \
	X(StreamEndCapture, cuStreamEndCapture, (CUstream stream, CUgraph * graph)) \
	X(GraphDestroy, cuGraphDestroy, (CUgraph graph))

/*
 * Launch: a kernel on @stream that takes @ns (0: no time), at the end of which @fn runs, on the
 * 	stream's thread; it reaches device memory by fakeMemory and calls nothing of the driver.
 * Memory: where the device itself sees what @pointer points to; only kernels may use that. Rate:
 * the engine's speed, for copies of this process from now on; 0 GB/s: as fast as it goes. OnStep:
 * @fn is called by the copying thread before each 4 KiB of copies that begin from now on; NULL:
 * 	no more.
 * Count: how many there were so far in this process: "copies" that began; "pageable": of these,
 * with
 * 	host memory that was not registered; "streams" that were made and not destroyed.
 */
#define CUDA_FAKE_FUNCTIONS(X) \
	X(Launch, fakeLaunch, (CUstream stream, uint64_t ns, void (*fn)(void *arg), void *arg)) \
	X(Memory, fakeMemory, (CUdeviceptr pointer, void **memory)) \
	X(Rate, fakeRate, (int engine, double gb_per_s, unsigned int us_per_copy)) \
	X(OnStep, fakeOnStep, (fake_step_fn * fn, void *arg)) \
	X(Count, fakeCount, (const char *what, uint64_t *count))

/* Older drivers have no pools. */
#define CUDA_POOL_FUNCTIONS(X) \
	X(MemAllocAsync, cuMemAllocAsync, (CUdeviceptr * pointer, size_t bytes, CUstream stream)) \
	X(MemFreeAsync, cuMemFreeAsync, (CUdeviceptr pointer, CUstream stream))

struct cuda_trainer {
#define FIELD(field, symbol, arguments) CUresult(*field) arguments;
	CUDA_TRAINER_FUNCTIONS(FIELD)
	CUDA_POOL_FUNCTIONS(FIELD) /* NULL in an older driver */
	CUDA_FAKE_FUNCTIONS(FIELD) /* NULL in a real driver */
#undef FIELD
};

/* The symbol that is missing, or NULL. Only after cuda_driver() found a driver. */
static inline const char *cuda_trainer_load(struct cuda_trainer *trainer)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);

	if (!library)
		return "libcuda.so.1";
#define FIND(field, symbol, arguments) *(void **)&trainer->field = dlsym(library, #symbol);
	CUDA_TRAINER_FUNCTIONS(FIND)
	CUDA_POOL_FUNCTIONS(FIND)
	CUDA_FAKE_FUNCTIONS(FIND)
#undef FIND
#define MISSING(field, symbol, arguments) \
	if (!trainer->field) \
		return #symbol;
	CUDA_TRAINER_FUNCTIONS(MISSING)
#undef MISSING
	return NULL;
}

#endif
