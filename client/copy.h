/* SPDX-License-Identifier: MIT */
/*
 * The copy into the arena: its lines are cold, and the daemon reads them next. Writing around the
 * CPU's caches is faster than memcpy, and leaves the caches to the trainer. (The daemon has the
 * same for its cache; the two share nothing but the ABI.)
 */
#ifndef CLIENT_COPY_H
#define CLIENT_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CKPT_COPY_STREAM_MIN ((size_t)64 << 10)

#ifdef __SSE2__
#include <emmintrin.h>

static inline void ckpt_copy_stream(char *to, const char *from, size_t len)
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
	_mm_sfence(); /* before the daemon is told of the bytes */
	memcpy(to + i, from + i, len - i);
}
#else
#define ckpt_copy_stream memcpy
#endif

static inline void ckpt_copy(char *to, const char *from, size_t len)
{
	if (len < CKPT_COPY_STREAM_MIN)
		memcpy(to, from, len);
	else
		ckpt_copy_stream(to, from, len);
}

#endif
