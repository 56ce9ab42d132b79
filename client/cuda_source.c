/* SPDX-License-Identifier: MIT */
/* A tensor's bytes, contiguous or in rows, in the fewest copies. */
#include "client/cuda.h"

const char *cuda_source_at(const struct ckpt_source *s, uint64_t off)
{
	return s->rows ? s->addr + off / s->row_bytes * s->pitch + off % s->row_bytes
		       : s->addr + off;
}

static CUdeviceptr address(const struct ckpt_source *s, uint64_t row, uint64_t column)
{
	return (CUdeviceptr)(uintptr_t)s->addr + row * s->pitch + column;
}

static bool copy_line(CUdeviceptr device, char *host, size_t len, enum cuda_way way,
		      CUstream stream, struct cuda_fault *f)
{
	return way == CUDA_FROM_DEVICE ? CUDA_TRY(f, MemcpyDtoHAsync, host, device, len, stream)
				       : CUDA_TRY(f, MemcpyHtoDAsync, device, host, len, stream);
}

static bool copy_rows(const struct ckpt_source *s, uint64_t row, uint64_t nr, char *host,
		      enum cuda_way way, CUstream stream, struct cuda_fault *f)
{
	CUDA_MEMCPY2D from = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = address(s, row, 0),
		.srcPitch = s->pitch,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = host,
		.dstPitch = s->row_bytes,
		.WidthInBytes = s->row_bytes,
		.Height = nr,
	};
	CUDA_MEMCPY2D to = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = host,
		.srcPitch = s->row_bytes,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = from.srcDevice,
		.dstPitch = s->pitch,
		.WidthInBytes = s->row_bytes,
		.Height = nr,
	};

	return CUDA_TRY(f, Memcpy2DAsync, way == CUDA_FROM_DEVICE ? &from : &to, stream);
}

bool cuda_source_copy(const struct ckpt_source *s, uint64_t off, size_t len, void *host,
		      enum cuda_way way, CUstream stream, struct cuda_fault *f)
{
	char *at = host;
	bool ok = true;

	if (!s->rows)
		return copy_line(address(s, 0, 0) + off, at, len, way, stream, f);
	while (len && ok) {
		uint64_t row = off / s->row_bytes, column = off % s->row_bytes;
		uint64_t whole = column ? 0 : len / s->row_bytes;
		size_t part;

		if (whole && s->pitch <= CU_MAX_PITCH) {
			part = whole * s->row_bytes;
			ok = copy_rows(s, row, whole, at, way, stream, f);
		} else {
			part = s->row_bytes - column < len ? s->row_bytes - column : len;
			ok = copy_line(address(s, row, column), at, part, way, stream, f);
		}
		at += part;
		off += part;
		len -= part;
	}
	return ok;
}
