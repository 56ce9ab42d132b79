/* SPDX-License-Identifier: MIT */
#include "engine/content/hash.h"

void hash_update(XXH3_state_t *state, const void *data, size_t len)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2")) {
		hash_update_avx2(state, data, len);
		return;
	}
#endif
	XXH3_128bits_update(state, data, len);
}
