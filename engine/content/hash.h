/* SPDX-License-Identifier: MIT */
/*
 * The XXH3 function that all bytes pass through, for the CPU at hand. Distributions build libxxhash
 * for the oldest CPU, which costs half the speed. The code comes from xxhash.h either way.
 */
#ifndef ENGINE_CONTENT_HASH_H
#define ENGINE_CONTENT_HASH_H

#include <stddef.h>
#include <xxhash.h>

/* XXH3_128bits_update. */
void hash_update(XXH3_state_t *state, const void *data, size_t len);

/* The same, compiled for AVX2. Call it only if the CPU has AVX2. */
void hash_update_avx2(XXH3_state_t *state, const void *data, size_t len);

#endif
