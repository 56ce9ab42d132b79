/* SPDX-License-Identifier: MIT */
/* Numbers rounded to BF16 as they are read: to the nearest, ties to even. No state. */
#ifndef ENGINE_VIEWS_ROUND_H
#define ENGINE_VIEWS_ROUND_H

#include "engine/views/array.h"

/* True for F64, F32 and F16. */
bool round_can(const char *dtype);

/* The bytes that @bytes of such elements have when they are rounded. */
uint64_t round_bytes(uint64_t bytes, const char *dtype);

/* The nearest BF16. A NaN stays one. */
uint16_t round_to_bf16(double value);

/* Reads [off, off + len) of the rounded array, whose elements are of @dtype. 0 or -errno. */
int round_read(const struct array *array, const char *dtype, void *buf, size_t len, uint64_t off,
	       const struct view_source *src);

#endif
