/* SPDX-License-Identifier: MIT */
/* Compiled with -mavx2 (Makefile), so this file must have no other code. */
#ifdef __x86_64__
#define XXH_INLINE_ALL
#include <xxhash.h>

void hash_update_avx2(XXH3_state_t *state, const void *data, size_t len);

void hash_update_avx2(XXH3_state_t *state, const void *data, size_t len)
{
	XXH3_128bits_update(state, data, len);
}
#endif
