/* SPDX-License-Identifier: MIT */
/* Devices, which of them this process sees, and their primary contexts; names of errors. */
#include "tests/fakecuda/fake.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"

#define VERSION 12040

double setting(const char *name, double otherwise)
{
	const char *dir = getenv("FAKE_CUDA_DIR"), *text;
	char key[64], line[256];

	snprintf(key, sizeof(key), "FAKE_CUDA_%s", name);
	text = getenv(key);
	if (text)
		return atof(text);
	snprintf(line, sizeof(line), "%s/config", dir ? dir : "");
	__cleanup_file FILE *file = fopen(line, "re");
	while (file && fgets(line, sizeof(line), file)) {
		size_t len = strcspn(line, "=");

		if (line[len] == '=' && len == strlen(name) && !strncasecmp(line, name, len))
			return atof(line + len + 1);
	}
	return otherwise;
}

static void uuid_text(int device, char text[48])
{
	snprintf(text, 48, "GPU-fa4e0000-0000-4000-8000-%012x", device + 1);
}

/*
 * As the driver reads CUDA_VISIBLE_DEVICES: numbers or beginnings of UUIDs; the first wrong one
 * ends it.
 */
static void read_visible(int there)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	char copy[256], *rest, *item;

	if (!list) {
		for (fake.n_devices = 0; fake.n_devices < there; fake.n_devices++)
			fake.visible[fake.n_devices] = fake.n_devices;
		return;
	}
	snprintf(copy, sizeof(copy), "%s", list);
	for (item = strtok_r(copy, ", ", &rest); item && fake.n_devices < MAX_DEVICES;
	     item = strtok_r(NULL, ", ", &rest)) {
		char *end, uuid[48];
		int device = (int)strtol(item, &end, 10);

		if (*end || end == item) {
			for (device = 0; device < there; device++) {
				uuid_text(device, uuid);
				if (!strncmp(uuid, item, strlen(item)) && strlen(item) > 4)
					break;
			}
		}
		if (device < 0 || device >= there)
			return;
		fake.visible[fake.n_devices++] = device;
	}
}

static void stop_at_exit(void)
{
	if (fake.pid != getpid())
		return;
	fake.exited = true;
	MUTEX_SCOPE(&fake.lock);
	pthread_cond_broadcast(&fake.moved);
	while (fake.copying)
		pthread_cond_wait(&fake.moved, &fake.lock);
	memory_close();
}

static CUresult start(void)
{
	int there = (int)setting("DEVICES", 1);
	CUresult error;

	fake.dir = getenv("FAKE_CUDA_DIR");
	if (!fake.dir || there < 1 || there > MAX_DEVICES)
		return CUDA_ERROR_NO_DEVICE;
	error = engines_open(fake.dir);
	read_visible(there);
	if (!error && !fake.n_devices)
		error = CUDA_ERROR_NO_DEVICE;
	if (error)
		return error;
	for (int i = 0; i < MAX_DEVICES; i++) {
		fake.contexts[i].device = i;
		stream_init(&fake.contexts[i].legacy, &fake.contexts[i], true);
		fake.contexts[i].legacy.legacy = true;
	}
	atexit(stop_at_exit);
	fake.pid = getpid();
	return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
	CALL(ANY_TIME, "flags=%u", flags);
	if (fake.pid && fake.pid != getpid())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (fake.exited)
		return CUDA_ERROR_DEINITIALIZED;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	MUTEX_SCOPE(&fake.lock);
	return fake.pid ? CUDA_SUCCESS : start();
}

CUresult cuDriverGetVersion(int *version)
{
	CALL(ANY_TIME, "%s", "");
	*version = VERSION;
	return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
#define NAMED(e) \
	{ \
		e, #e \
	}
	static const struct {
		CUresult error;
		const char *name;
	} names[] = {
		NAMED(CUDA_SUCCESS),
		NAMED(CUDA_ERROR_INVALID_VALUE),
		NAMED(CUDA_ERROR_OUT_OF_MEMORY),
		NAMED(CUDA_ERROR_NOT_INITIALIZED),
		NAMED(CUDA_ERROR_DEINITIALIZED),
		NAMED(CUDA_ERROR_NO_DEVICE),
		NAMED(CUDA_ERROR_INVALID_DEVICE),
		NAMED(CUDA_ERROR_INVALID_CONTEXT),
		NAMED(CUDA_ERROR_INVALID_HANDLE),
		NAMED(CUDA_ERROR_NOT_READY),
		NAMED(CUDA_ERROR_ILLEGAL_ADDRESS),
		NAMED(CUDA_ERROR_LAUNCH_TIMEOUT),
		NAMED(CUDA_ERROR_LAUNCH_FAILED),
		NAMED(CUDA_ERROR_CONTEXT_IS_DESTROYED),
		NAMED(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED),
		NAMED(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED),
		NAMED(CUDA_ERROR_NOT_SUPPORTED),
		NAMED(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
		NAMED(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
		NAMED(CUDA_ERROR_STREAM_CAPTURE_ISOLATION),
		NAMED(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT),
		NAMED(CUDA_ERROR_CAPTURED_EVENT),
	};
#undef NAMED

	*name = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].error == error)
			*name = names[i].name;
	return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
	const char *name;
	CUresult result = cuGetErrorName(error, &name);

	*text = result ? NULL : "what the fake driver would say of it";
	return result;
}

int physical(CUdevice device)
{
	return device >= 0 && device < fake.n_devices ? fake.visible[device] : -1;
}

int ordinal_of(int physical_device)
{
	for (int i = 0; i < fake.n_devices; i++)
		if (fake.visible[i] == physical_device)
			return i;
	return -1;
}

CUresult cuDeviceGetCount(int *count)
{
	CALL(0, "%s", "");
	*count = fake.n_devices;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	CALL(0, "ordinal=%d", ordinal);
	if (physical(ordinal) < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	static const char head[] = {(char)0xfa, 0x4e, 0, 0, 0, 0, 0x40, 0, (char)0x80};

	CALL(0, "device=%d", device);
	if (physical(device) < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	memset(uuid, 0, sizeof(*uuid));
	memcpy(uuid, head, sizeof(head));
	uuid->bytes[15] = (char)(physical(device) + 1);
	return CUDA_SUCCESS;
}

/* Upper case, unlike the names in /sys. */
CUresult cuDeviceGetPCIBusId(char *text, int size, CUdevice device)
{
	CALL(0, "device=%d", device);
	if (physical(device) < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	if (size < 13)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(text, size, "0000:%02X:00.0", 0x3A + physical(device));
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
	CALL(0, "attribute=%d device=%d", attribute, device);
	if (physical(device) < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
	case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
	case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
		*value = 0;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
		*value = 1;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
		*value = 2;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
	CALL(0, "device=%d", device);
	if (physical(device) < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	MUTEX_SCOPE(&fake.lock);
	*flags = 0;
	*active = fake.contexts[physical(device)].retained > 0;
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	CUcontext made;

	CALL(0, "device=%d", device);
	if (physical(device) < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	MUTEX_SCOPE(&fake.lock);
	made = &fake.contexts[physical(device)];
	if (!made->retained) {
		CUresult error = memory_open(made->device);

		if (error)
			return error;
	}
	made->retained++;
	*context = made;
	return CUDA_SUCCESS;
}

static void destroy(CUcontext context)
{
	context_wait(context);
	memory_free_all(context->device);
	for (struct CUstream_st *stream = context->streams; stream; stream = stream->next)
		stream->gone = true;
	pthread_cond_broadcast(&fake.moved);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	CUcontext context;

	CALL(0, "device=%d", device);
	if (physical(device) < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	MUTEX_SCOPE(&fake.lock);
	context = &fake.contexts[physical(device)];
	if (!context->retained)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (context->retained == 1)
		destroy(context);
	context->retained--;
	return CUDA_SUCCESS;
}

/* Whoever has retained it. */
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	int at;

	CALL(0, "device=%d", device);
	at = physical(device);
	if (at < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	MUTEX_SCOPE(&fake.lock);
	if (fake.contexts[at].retained)
		destroy(&fake.contexts[at]);
	fake.contexts[at].retained = 0;
	return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	CALL(0, "context=%p", (void *)context);
	if (!context || fake_thread.depth == MAX_DEPTH)
		return CUDA_ERROR_INVALID_CONTEXT;
	fake_thread.stack[fake_thread.depth++] = context;
	return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
	CALL(0, "%s", "");
	if (!fake_thread.depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	fake_thread.depth--;
	if (context)
		*context = fake_thread.stack[fake_thread.depth];
	return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
	CALL(0, "%s", "");
	*context = current_context();
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	CALL(0, "context=%p", (void *)context);
	if (fake_thread.depth)
		fake_thread.depth--;
	if (context)
		fake_thread.stack[fake_thread.depth++] = context;
	return CUDA_SUCCESS;
}
