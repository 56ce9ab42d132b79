/* SPDX-License-Identifier: MIT */
#include "client/probe.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL /* so that who links with the library needs no other */
#include <xxhash.h>

#include "client/session.h"

#define SAMPLE_BYTES 512
#define ALL_BYTES    4096

static uint64_t min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Of bytes [off, off + len) of the tensor, which are also put into @to. */
static uint64_t digest_of(const struct ckpt_capture *c, uint64_t off, size_t len, char *to)
{
	ckpt_source_copy(&c->source, off, len, to);
	return XXH3_64bits(to, len);
}

static size_t block_len(const struct ckpt_capture *c, uint64_t off)
{
	return min(c->probes.bytes, c->src_off + c->len - off);
}

static int take_all(struct ckpt_capture *c)
{
	struct ckpt_probes *ps = &c->probes;
	uint64_t nr = (c->len + ALL_BYTES - 1) / ALL_BYTES;
	char block[ALL_BYTES];

	ps->bytes = ALL_BYTES;
	ps->all = malloc(nr * sizeof(*ps->all));
	if (!ps->all)
		return -ENOMEM;
	for (uint64_t i = 0; i < nr; i++) {
		uint64_t off = c->src_off + i * ALL_BYTES;

		ps->all[i] = digest_of(c, off, block_len(c, off), block);
	}
	return 0;
}

/* A number that a program that changes tensors cannot know of: where it looks is no secret, only not regular. */
static uint64_t scattered(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static void take_few(struct ckpt_capture *c)
{
	struct ckpt_probes *ps = &c->probes;
	uint64_t seed = scattered(ckpt_now_ns() + (uintptr_t)c);
	char block[SAMPLE_BYTES];

	ps->bytes = SAMPLE_BYTES;
	ps->nr = min(CKPT_PROBES, (c->len + SAMPLE_BYTES - 1) / SAMPLE_BYTES);
	for (uint32_t i = 0; i < ps->nr; i++) {
		uint64_t off = (uint64_t)i * SAMPLE_BYTES;

		if (c->len > CKPT_PROBES * SAMPLE_BYTES && i > 0) {
			seed = scattered(seed + i);
			off = i == 1 ? c->len - SAMPLE_BYTES : seed % (c->len - SAMPLE_BYTES);
		}
		ps->few[i].off = c->src_off + off;
		ps->few[i].digest =
			digest_of(c, ps->few[i].off, block_len(c, ps->few[i].off), block);
	}
}

int ckpt_probes_take(struct ckptfs_session *s, struct ckpt_capture *c)
{
	if (s->check == CKPTFS_CHECK_ALL)
		return take_all(c);
	if (s->check == CKPTFS_CHECK_SAMPLE)
		take_few(c);
	return 0;
}

void ckpt_probes_free(struct ckpt_probes *ps)
{
	free(ps->all);
}

/* Of a block only a part may lie in this piece; the source tells of all of it. */
static bool holds(const struct ckpt_capture *c, const struct ckpt_piece *p, uint64_t off,
		  uint64_t digest)
{
	size_t len = block_len(c, off);
	uint64_t from = off > p->src_off ? off : p->src_off;
	uint64_t to = min(off + len, p->src_off + p->len);
	char block[ALL_BYTES];

	if (from >= to)
		return true;
	return digest_of(c, off, len, block) == digest &&
	       !memcmp(block + (from - off), p->to + (from - p->src_off), to - from);
}

bool ckpt_probes_hold(const struct ckpt_capture *c, const struct ckpt_piece *p)
{
	const struct ckpt_probes *ps = &c->probes;

	for (uint32_t i = 0; i < ps->nr; i++)
		if (!holds(c, p, ps->few[i].off, ps->few[i].digest))
			return false;
	if (!ps->all)
		return true;
	for (uint64_t i = (p->src_off - c->src_off) / ALL_BYTES, off;
	     off = c->src_off + i * ALL_BYTES, off < p->src_off + p->len; i++)
		if (!holds(c, p, off, ps->all[i]))
			return false;
	return true;
}
