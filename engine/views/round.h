/* SPDX-License-Identifier: MIT */
/* Numbers rounded to BF16: to the nearest, ties to even. No state. */
#ifndef ENGINE_VIEWS_ROUND_H
#define ENGINE_VIEWS_ROUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BF16_BYTES 2

/* True for F64, F32 and F16. */
bool round_can(const char *dtype);

/* The bytes that @bytes of such elements have when they are rounded. */
uint64_t round_bytes(uint64_t bytes, const char *dtype);

/* The nearest BF16. A NaN stays one. */
uint16_t round_to_bf16(double value);

/* Rounds the @nr elements of @bits bits at @from. */
void round_numbers(uint16_t *to, const char *from, size_t nr, unsigned bits);

#endif
