/* SPDX-License-Identifier: MIT */
#include "client/probe.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL /* so that a program needs no other library than ours */
#include <xxhash.h>

#include "client/session.h"

#define ALL_BYTES CKPT_PROBES_ALL_BYTES

static uint64_t min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The digest of bytes [off, off + len) of the tensor, which are also copied to @to. */
static uint64_t digest_of(const struct ckpt_capture *c, uint64_t off, size_t len, char *to)
{
	ckpt_source_copy(&c->source, off, len, to);
	return XXH3_64bits(to, len);
}

size_t ckpt_probe_len(const struct ckpt_capture *c, uint64_t off)
{
	return min(c->probes.bytes, c->src_off + c->len - off);
}

bool ckpt_probe_part(const struct ckpt_capture *c, const struct ckpt_piece *p, uint64_t off,
		     uint64_t *from, uint64_t *to)
{
	*from = off > p->src_off ? off : p->src_off;
	*to = min(off + ckpt_probe_len(c, off), p->src_off + p->len);
	return *from < *to;
}

/* --- a few --- */

/*
 * A number that a program cannot expect. Where the probes are is no secret; it must only not be
 * regular.
 */
static uint64_t scattered(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

void ckpt_probes_choose(struct ckpt_capture *c)
{
	struct ckpt_probes *ps = &c->probes;
	uint64_t seed = scattered(ckpt_now_ns() + (uintptr_t)c);

	ps->bytes = CKPT_PROBE_BYTES;
	ps->nr = min(CKPT_PROBES, (c->len + CKPT_PROBE_BYTES - 1) / CKPT_PROBE_BYTES);
	for (uint32_t i = 0; i < ps->nr; i++) {
		uint64_t off = (uint64_t)i * CKPT_PROBE_BYTES;

		if (c->len > CKPT_PROBES_BYTES && i > 0) {
			seed = scattered(seed + i);
			off = i == 1 ? c->len - CKPT_PROBE_BYTES
				     : seed % (c->len - CKPT_PROBE_BYTES);
		}
		ps->few[i].off = c->src_off + off;
	}
}

static void take_few(struct ckpt_capture *c)
{
	struct ckpt_probes *ps = &c->probes;
	char block[CKPT_PROBE_BYTES];

	ckpt_probes_choose(c);
	for (uint32_t i = 0; i < ps->nr; i++)
		ps->few[i].digest =
			digest_of(c, ps->few[i].off, ckpt_probe_len(c, ps->few[i].off), block);
}

/* --- all --- */

int ckpt_probes_all_create(struct ckpt_capture *c)
{
	struct ckpt_probes *ps = &c->probes;

	ps->bytes = ALL_BYTES;
	ps->all = malloc((c->len + ALL_BYTES - 1) / ALL_BYTES * sizeof(*ps->all));
	return ps->all ? 0 : -ENOMEM;
}

void ckpt_probes_all_set(struct ckpt_capture *c, uint64_t nr, const char *bytes, size_t len)
{
	for (size_t at = 0; at < len; at += ALL_BYTES)
		c->probes.all[nr++] = XXH3_64bits(bytes + at, min(ALL_BYTES, len - at));
}

void ckpt_probes_all_part(const struct ckpt_capture *c, const struct ckpt_piece *p, uint64_t *from,
			  uint64_t *to)
{
	uint64_t end = p->src_off - c->src_off + p->len;

	*from = c->src_off + (p->src_off - c->src_off) / ALL_BYTES * ALL_BYTES;
	*to = c->src_off + min((end + ALL_BYTES - 1) / ALL_BYTES * ALL_BYTES, c->len);
}

bool ckpt_probes_all_hold(const struct ckpt_capture *c, const struct ckpt_piece *p, const char *now)
{
	uint64_t from, to;

	ckpt_probes_all_part(c, p, &from, &to);
	for (uint64_t off = from; off < to; off += ALL_BYTES)
		if (XXH3_64bits(now + (off - from), min(ALL_BYTES, to - off)) !=
		    c->probes.all[(off - c->src_off) / ALL_BYTES])
			return false;
	return !memcmp(now + (p->src_off - from), p->to, p->len);
}

static int take_all(struct ckpt_capture *c)
{
	int err = ckpt_probes_all_create(c);
	char block[ALL_BYTES];

	for (uint64_t at = 0; at < c->len && !err; at += ALL_BYTES) {
		size_t len = ckpt_probe_len(c, c->src_off + at);

		ckpt_source_copy(&c->source, c->src_off + at, len, block);
		ckpt_probes_all_set(c, at / ALL_BYTES, block, len);
	}
	return err;
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

/* Only a part of a block may lie in this piece; the digest is of all of it. */
static bool holds(const struct ckpt_capture *c, const struct ckpt_piece *p, uint64_t off,
		  uint64_t digest)
{
	char block[ALL_BYTES];
	uint64_t from, to;

	if (!ckpt_probe_part(c, p, off, &from, &to))
		return true;
	return digest_of(c, off, ckpt_probe_len(c, off), block) == digest &&
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
