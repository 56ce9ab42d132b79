/* SPDX-License-Identifier: MIT */
/*
 * The digests of stretches of a file, taken as their bytes pass: a stretch is what one call has
 * written of a tensor. A stretch whose bytes do not pass in order has none, and neither has one of
 * which a part was written again. That is no error: who wants its digest reads it.
 *
 * No lock: it is part of struct digest (digest.h).
 */
#ifndef ENGINE_CONTENT_SPANS_H
#define ENGINE_CONTENT_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>

#define SPANS_MAX (1u << 20) /* further ones have no digest */

struct span;

/* Ascending, without overlap. All zeros: none. */
struct spans {
	struct span *list;
	size_t nr, room;
	unsigned open; /* of which a part has passed */
};

/* From here on these bytes are one stretch. It takes the place of those that it overlaps. */
void spans_expect(struct spans *s, uint64_t at, uint64_t bytes);

/* These bytes pass: they were written. */
void spans_feed(struct spans *s, uint64_t off, const void *data, size_t len);

/* The bytes [off, end) have changed in another way. */
void spans_spoil(struct spans *s, uint64_t off, uint64_t end);

/* True if the digest of exactly that stretch is known. */
bool spans_known(const struct spans *s, uint64_t at, uint64_t bytes, XXH128_canonical_t *digest);

void spans_free(struct spans *s);

#endif
