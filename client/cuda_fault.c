/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "client/cuda.h"

int cuda_fault_errno(const struct cuda_fault *f)
{
	switch (f->code) {
	case CUDA_SUCCESS:
		return 0;
	case CUDA_ERROR_OUT_OF_MEMORY:
		return -ENOMEM;
	case CUDA_ERROR_NOT_INITIALIZED:
	case CUDA_ERROR_DEINITIALIZED:
	case CUDA_ERROR_NO_DEVICE:
	case CUDA_ERROR_INVALID_DEVICE:
	case CUDA_ERROR_INVALID_CONTEXT:
	case CUDA_ERROR_CONTEXT_IS_DESTROYED:
		return -ENODEV;
	case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
	case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
	case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
	case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
	case CUDA_ERROR_CAPTURED_EVENT:
		return -EBUSY;
	case CUDA_ERROR_INVALID_VALUE:
		return -EINVAL;
	}
	return -EIO;
}

/*
 * What follows from an error. After some of them the whole context is of no use, to the trainer
 * neither.
 */
static const char *consequence(CUresult code)
{
	switch (code) {
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_LAUNCH_FAILED:
		return "; nothing works in this CUDA context any more, start the trainer anew";
	case CUDA_ERROR_NOT_INITIALIZED:
		return "; CUDA is not initialised in this process";
	case CUDA_ERROR_DEINITIALIZED:
		return "; the process is ending";
	}
	return "";
}

void cuda_fault_text(const struct ckptfs_session *s, const struct cuda_fault *f, const char *tensor,
		     int gpu, char *text)
{
	const struct cuda_driver *cu = cuda_driver();
	const char *meaning = NULL;
	char name[80], where[32] = "";

	if (gpu >= 0)
		snprintf(where, sizeof(where), " on GPU %d", gpu);
	if (!cu->GetErrorString || cu->GetErrorString(f->code, &meaning) || !meaning)
		meaning = "no more is known";
	snprintf(text, CKPTFS_TEXT_MAX, "%.200s: %s%s: %s: %.100s%s%s", tensor, f->call, where,
		 cuda_error_text(cu, f->code, name, sizeof(name)), meaning, consequence(f->code),
		 s->rank_text);
}

int cuda_fault_error(struct ckptfs_session *s, const struct cuda_fault *f, const char *tensor,
		     int gpu)
{
	char text[CKPTFS_TEXT_MAX];

	cuda_fault_text(s, f, tensor, gpu, text);
	return ckpt_error(s, cuda_fault_errno(f), "%s", text);
}

bool cuda_enter(const struct cuda_gpu *g, int *mode, struct cuda_fault *f)
{
	*mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	if (!CUDA_TRY(f, ThreadExchangeStreamCaptureMode, mode))
		return false;
	if (CUDA_TRY(f, CtxPushCurrent, g->context))
		return true;
	cuda_driver()->ThreadExchangeStreamCaptureMode(mode);
	return false;
}

void cuda_leave(int mode)
{
	CUcontext context;

	cuda_driver()->CtxPopCurrent(&context);
	cuda_driver()->ThreadExchangeStreamCaptureMode(&mode);
}
