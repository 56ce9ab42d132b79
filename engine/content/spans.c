/* SPDX-License-Identifier: MIT */
#include "engine/content/spans.h"

#include <stdlib.h>
#include <string.h>

#include "engine/content/hash.h"

#define FIRST_ROOM 16
#define OPEN_MAX   16 /* each takes 640 bytes */

struct span {
	uint64_t at, bytes;
	uint64_t done; /* have passed, in order; all: the digest is known */
	XXH3_state_t *state;
	XXH128_canonical_t digest;
};

/* The first one that ends behind @off. */
static size_t find(const struct spans *s, uint64_t off)
{
	size_t lo = 0, hi = s->nr;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->list[mid].at + s->list[mid].bytes <= off)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* None of its bytes have passed. */
static void restart(struct spans *s, struct span *p)
{
	if (p->state)
		s->open--;
	XXH3_freeState(p->state);
	p->state = NULL;
	p->done = 0;
}

static bool make_room(struct spans *s)
{
	size_t room = s->room ? 2 * s->room : FIRST_ROOM;
	struct span *more;

	if (s->nr < s->room)
		return true;
	more = s->nr < SPANS_MAX ? reallocarray(s->list, room, sizeof(*more)) : NULL;
	if (!more)
		return false;
	s->list = more;
	s->room = room;
	return true;
}

void spans_expect(struct spans *s, uint64_t at, uint64_t bytes)
{
	size_t from = find(s, at), to = from;

	for (; to < s->nr && s->list[to].at < at + bytes; to++)
		restart(s, &s->list[to]);
	if (to > from)
		memmove(&s->list[from], &s->list[to], (s->nr - to) * sizeof(*s->list));
	s->nr -= to - from;
	if (!bytes || !make_room(s))
		return;
	memmove(&s->list[from + 1], &s->list[from], (s->nr - from) * sizeof(*s->list));
	s->list[from] = (struct span){.at = at, .bytes = bytes};
	s->nr++;
}

/* Its bytes from @from on pass. */
static void feed_one(struct spans *s, struct span *p, uint64_t from, const void *data, size_t len)
{
	if (from != p->done)
		restart(s, p);
	if (from != p->done)
		return;
	if (!from && len == p->bytes) {
		XXH128_canonicalFromHash(&p->digest, XXH3_128bits(data, len));
		p->done = len;
		return;
	}
	if (!from) {
		p->state = s->open < OPEN_MAX ? XXH3_createState() : NULL;
		if (!p->state)
			return;
		s->open++;
		XXH3_128bits_reset(p->state);
	}
	hash_update(p->state, data, len);
	p->done += len;
	if (p->done == p->bytes) {
		XXH128_canonicalFromHash(&p->digest, XXH3_128bits_digest(p->state));
		restart(s, p);
		p->done = p->bytes;
	}
}

void spans_feed(struct spans *s, uint64_t off, const void *data, size_t len)
{
	uint64_t end = off + len;

	for (size_t i = find(s, off); i < s->nr && s->list[i].at < end; i++) {
		struct span *p = &s->list[i];
		uint64_t lo = p->at > off ? p->at : off;
		uint64_t hi = p->at + p->bytes < end ? p->at + p->bytes : end;

		feed_one(s, p, lo - p->at, (const char *)data + (lo - off), (size_t)(hi - lo));
	}
}

void spans_spoil(struct spans *s, uint64_t off, uint64_t end)
{
	for (size_t i = find(s, off); i < s->nr && s->list[i].at < end; i++)
		restart(s, &s->list[i]);
}

bool spans_known(const struct spans *s, uint64_t at, uint64_t bytes, XXH128_canonical_t *digest)
{
	size_t i = find(s, at);

	if (i == s->nr || s->list[i].at != at || s->list[i].bytes != bytes ||
	    s->list[i].done != bytes)
		return false;
	*digest = s->list[i].digest;
	return true;
}

void spans_free(struct spans *s)
{
	for (size_t i = 0; i < s->nr; i++)
		XXH3_freeState(s->list[i].state);
	free(s->list);
	*s = (struct spans){0};
}
