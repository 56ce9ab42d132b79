/* SPDX-License-Identifier: MIT */
/*
 * The CUDA driver API as the client uses it: declarations of our own, so that no CUDA toolkit is
 * needed to build, and functions found at run time, so that no driver is needed to run.
 *
 * Names, types and values are those of the driver's documentation ("CUDA Driver API"). Where a
 * function has versions the table names the symbol that today's headers mean: under the bare name
 * the library keeps an older ABI.
 *
 * Nothing here calls into the driver, except cuda_error_text(), which asks for a name; so nothing
 * here makes a context. Any thread may call the driver's functions.
 */
#ifndef CLIENT_CUDA_DRIVER_H
#define CLIENT_CUDA_DRIVER_H

#include <stddef.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct {
	char bytes[16];
} CUuuid;

/* Some of CUresult's values. */
enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3, /* also: in a child that was forked after cuInit */
	CUDA_ERROR_DEINITIALIZED = 4,	/* the process is ending */
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_INVALID_HANDLE = 400,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
	/* Sticky: once one of these is returned, every later call in the context returns it. */
	CUDA_ERROR_ILLEGAL_ADDRESS = 700,
	CUDA_ERROR_LAUNCH_TIMEOUT = 702,
	CUDA_ERROR_LAUNCH_FAILED = 719,
	CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
	CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
	CUDA_ERROR_NOT_SUPPORTED = 801,
	CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900, /* not allowed while a stream is captured */
	CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
	CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905, /* would depend on work outside the capture */
	CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,  /* of the legacy stream, beside a capture */
	CUDA_ERROR_CAPTURED_EVENT = 907,
};

/* Streams that always exist. A stream without CU_STREAM_NON_BLOCKING waits for the legacy one. */
#define CU_STREAM_LEGACY     ((CUstream)1) /* NULL means this one, too */
#define CU_STREAM_PER_THREAD ((CUstream)2)

/*
 * The largest distance between rows of a strided copy (CU_DEVICE_ATTRIBUTE_MAX_PITCH of all
 * devices).
 */
#define CU_MAX_PITCH 2147483647u

enum {
	CU_STREAM_NON_BLOCKING = 1,

	CU_EVENT_BLOCKING_SYNC = 1,
	CU_EVENT_DISABLE_TIMING = 2,

	CU_MEMHOSTREGISTER_PORTABLE = 1,

	CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
	CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
	CU_STREAM_CAPTURE_MODE_RELAXED = 2,

	CU_STREAM_CAPTURE_STATUS_NONE = 0,
	CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
	CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,

	CU_MEMORYTYPE_HOST = 1,
	CU_MEMORYTYPE_DEVICE = 2,

	CU_POINTER_ATTRIBUTE_CONTEXT = 1,	    /* CUcontext */
	CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,	    /* unsigned int; 0: unknown to CUDA */
	CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,	    /* unsigned long long */
	CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,	    /* unsigned int */
	CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,    /* int */
	CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11, /* CUdeviceptr */
	CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,	    /* size_t */

	CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
	CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT = 40,
	CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
	CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS = 88,
	CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID = 134, /* -1: unknown; since CUDA 12.2 */
};

/* A strided copy: Height rows of WidthInBytes. */
typedef struct {
	size_t srcXInBytes, srcY;
	unsigned int srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	void *srcArray;
	size_t srcPitch;
	size_t dstXInBytes, dstY;
	unsigned int dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	void *dstArray;
	size_t dstPitch;
	size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;

_Static_assert(sizeof(CUDA_MEMCPY2D) == 128, "as the driver lays it out");

/* X(field of struct cuda_driver, symbol, arguments). Without one of these there is no driver. */
#define CUDA_DRIVER_REQUIRED(X) \
	X(Init, cuInit, (unsigned int flags)) \
	X(DriverGetVersion, cuDriverGetVersion, (int *version)) \
	X(DeviceGet, cuDeviceGet, (CUdevice * device, int ordinal)) \
	X(DeviceGetCount, cuDeviceGetCount, (int *count)) \
	X(DeviceGetUuid, cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device)) \
	X(DeviceGetPCIBusId, cuDeviceGetPCIBusId, (char *text, int size, CUdevice device)) \
	X(DeviceGetAttribute, cuDeviceGetAttribute, (int *value, int attribute, CUdevice device)) \
	X(DevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, \
	  (CUdevice device, unsigned int *flags, int *active)) \
	X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, \
	  (CUcontext * context, CUdevice device)) \
	X(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CUdevice device)) \
	X(CtxPushCurrent, cuCtxPushCurrent_v2, (CUcontext context)) \
	X(CtxPopCurrent, cuCtxPopCurrent_v2, (CUcontext * context)) \
	X(PointerGetAttributes, cuPointerGetAttributes, \
	  (unsigned int n, int *attributes, void **values, CUdeviceptr pointer)) \
	X(StreamCreate, cuStreamCreate, (CUstream * stream, unsigned int flags)) \
	X(StreamDestroy, cuStreamDestroy_v2, (CUstream stream)) \
	X(StreamSynchronize, cuStreamSynchronize, (CUstream stream)) \
	X(StreamIsCapturing, cuStreamIsCapturing, (CUstream stream, int *status)) \
	X(StreamWaitEvent, cuStreamWaitEvent, \
	  (CUstream stream, CUevent event, unsigned int flags)) \
	X(ThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, (int *mode)) \
	X(EventCreate, cuEventCreate, (CUevent * event, unsigned int flags)) \
	X(EventRecord, cuEventRecord, (CUevent event, CUstream stream)) \
	X(EventQuery, cuEventQuery, (CUevent event)) \
	X(EventSynchronize, cuEventSynchronize, (CUevent event)) \
	X(EventDestroy, cuEventDestroy_v2, (CUevent event)) \
	X(MemHostRegister, cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned int flags)) \
	X(MemHostUnregister, cuMemHostUnregister, (void *memory)) \
	X(MemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, \
	  (void *to, CUdeviceptr from, size_t bytes, CUstream stream)) \
	X(MemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, \
	  (CUdeviceptr to, const void *from, size_t bytes, CUstream stream)) \
	X(Memcpy2DAsync, cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream))

/* NULL where the driver lacks them. */
#define CUDA_DRIVER_OPTIONAL(X) \
	X(GetErrorName, cuGetErrorName, (CUresult error, const char **name)) \
	X(GetErrorString, cuGetErrorString, (CUresult error, const char **text)) \
	X(MemHostAlloc, cuMemHostAlloc, (void **memory, size_t bytes, unsigned int flags)) \
	X(MemFreeHost, cuMemFreeHost, (void *memory))

struct cuda_driver {
#define CUDA_DRIVER_FIELD(field, symbol, arguments) CUresult(*field) arguments;
	CUDA_DRIVER_REQUIRED(CUDA_DRIVER_FIELD)
	CUDA_DRIVER_OPTIONAL(CUDA_DRIVER_FIELD)
#undef CUDA_DRIVER_FIELD
};

#define CUDA_DRIVER_WHY_MAX 256

/*
 * The driver of this process, looked for once, by the first thread that asks; NULL: there is none,
 * then and ever after. It is never unloaded, and never freed.
 */
const struct cuda_driver *cuda_driver(void);

/* The same, but NULL as long as this process has loaded none. */
const struct cuda_driver *cuda_driver_if_loaded(void);

/* Why cuda_driver() is NULL, for people; "" if it is not. Lives as long as the process. */
const char *cuda_driver_missing(void);

/*
 * Fills @driver from @library, which stays loaded. 0; -ENOENT: there is no such library; -ENOSYS:
 * it lacks a required function. Then @why (CUDA_DRIVER_WHY_MAX bytes) tells which, and @driver is
 * not to be used. cuda_driver() does this with "libcuda.so.1"; by itself it is for tests.
 */
int cuda_driver_load(struct cuda_driver *driver, const char *library, char *why);

/*
 * "CUDA_ERROR_ILLEGAL_ADDRESS (700)" in @text of @size bytes, which is returned; "CUDA error 700"
 * if the driver has no name for it, or is NULL. For any CUresult, at any time, also after exit().
 */
const char *cuda_error_text(const struct cuda_driver *driver, CUresult error, char *text,
			    size_t size);

#endif
