/* SPDX-License-Identifier: MIT */
#include "tests/trainer/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cuda_driver.h"
#include "tests/fakecuda/api.h"

static const struct cuda_driver *cu;
static struct cuda_trainer tr;
static CUstream stream;

static void must(CUresult error, const char *what)
{
	char text[80];

	if (!error)
		return;
	fprintf(stderr, "trainer: %s: %s\n", what, cuda_error_text(cu, error, text, sizeof(text)));
	exit(1);
}

#define MUST(call) must(call, #call)

static CUdeviceptr pointer(const void *device)
{
	return (uintptr_t)device;
}

const char *gpu_begin(void)
{
	CUcontext context;
	const char *lacks;
	int n = 0;

	cu = cuda_driver();
	if (!cu)
		return cuda_driver_missing();
	lacks = cuda_trainer_load(&tr);
	if (lacks)
		return lacks;
	if (cu->Init(0) || cu->DeviceGetCount(&n) || !n)
		return "no CUDA device";
	MUST(cu->DevicePrimaryCtxRetain(&context, 0));
	MUST(cu->CtxPushCurrent(context));
	MUST(cu->StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return NULL;
}

uint64_t gpu_stream(void)
{
	return (uintptr_t)stream;
}

void *gpu_alloc(size_t bytes)
{
	CUdeviceptr device;
	void *address;

	MUST(tr.MemAlloc(&device, bytes));
	memcpy(&address, &device, sizeof(address));
	return address;
}

void *gpu_alloc_host(size_t bytes)
{
	void *host;

	MUST(cu->MemHostAlloc(&host, bytes, CU_MEMHOSTREGISTER_PORTABLE));
	memset(host, 0, bytes);
	return host;
}

void gpu_fetch(void *host, const void *device, size_t bytes)
{
	MUST(cu->MemcpyDtoHAsync(host, pointer(device), bytes, stream));
}

void gpu_store(void *device, const void *host, size_t bytes)
{
	MUST(cu->MemcpyHtoDAsync(pointer(device), host, bytes, stream));
}

void gpu_call(void (*fn)(void *arg), void *arg)
{
	MUST(tr.LaunchHostFunc(stream, fn, arg));
}

void gpu_wait(void)
{
	MUST(tr.StreamSynchronize(stream));
}
