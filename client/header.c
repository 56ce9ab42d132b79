/* SPDX-License-Identifier: MIT */
#include "client/header.h"

#include <errno.h>
#include <string.h>

#define FORMAT	     "format"
#define FORMAT_VALUE "pt" /* older readers require one */
#define BEGIN	     "{\"" CKPT_HEADER_METADATA "\":{\"" FORMAT "\":\""
#define FORMAT_END   "\""
#define SHARDS_BEGIN ",\"" CKPT_HEADER_VERSION "\":\"1.0\",\"" CKPT_HEADER_SHARDS "\":\"{"
#define SHARDS_END   "}\""
#define PAIRS_END    "}"
#define END	     "}"
#define FIXED	     (BEGIN FORMAT_END SHARDS_BEGIN SHARDS_END PAIRS_END END)
#define PARTS	     4

static void parts_of(struct ckpt_header *h, struct ckpt_text *parts[PARTS])
{
	parts[0] = &h->format;
	parts[1] = &h->pairs;
	parts[2] = &h->tensors;
	parts[3] = &h->shards;
}

void ckpt_header_init(struct ckpt_header *h)
{
	*h = (struct ckpt_header){0};
	ckpt_text_put(&h->format, FORMAT_VALUE);
}

void ckpt_header_free(struct ckpt_header *h)
{
	struct ckpt_text *parts[PARTS];

	parts_of(h, parts);
	for (int i = 0; i < PARTS; i++)
		ckpt_text_free(parts[i]);
}

uint64_t ckpt_header_len(const struct ckpt_header *h)
{
	return sizeof(FIXED) - 1 + h->format.len + h->pairs.len + h->tensors.len + h->shards.len;
}

/* --- adding --- */

static void remember(struct ckpt_header *h, size_t len[PARTS])
{
	struct ckpt_text *parts[PARTS];

	parts_of(h, parts);
	for (int i = 0; i < PARTS; i++)
		len[i] = parts[i]->len;
}

/*
 * Keeps what was added since remember() if there was memory, and is room, for it; else removes it.
 */
static int settle(struct ckpt_header *h, const size_t len[PARTS])
{
	struct ckpt_text *parts[PARTS];
	bool failed = false;

	parts_of(h, parts);
	for (int i = 0; i < PARTS; i++)
		failed |= parts[i]->failed;
	if (!failed && (!h->room || ckpt_header_len(h) <= h->room))
		return 0;
	for (int i = 0; i < PARTS; i++) {
		parts[i]->len = len[i];
		parts[i]->failed = false;
	}
	return failed ? -ENOMEM : -ENOSPC;
}

static void put_quoted(struct ckpt_text *t, const char *what)
{
	ckpt_text_put(t, "\"");
	ckpt_text_json(t, what, strlen(what));
	ckpt_text_put(t, "\"");
}

/* Appends an entry. Each begins with a comma: __metadata__ is before the first. */
static void put_tensor(struct ckpt_text *to, const struct ckpt_header_tensor *t)
{
	uint64_t offsets[] = {t->begin, t->end};

	ckpt_text_put(to, ",");
	put_quoted(to, t->name);
	ckpt_text_put(to, ":{\"dtype\":\"");
	ckpt_text_put(to, t->dtype);
	ckpt_text_put(to, "\",\"shape\":");
	ckpt_text_numbers(to, t->shape, t->ndim);
	ckpt_text_put(to, ",\"data_offsets\":");
	ckpt_text_numbers(to, offsets, 2);
	ckpt_text_put(to, "}");
}

/* JSON within a string of JSON. Later readers of it look for global_shape. */
static void put_shard(struct ckpt_text *to, const struct ckpt_header_tensor *t)
{
	struct ckpt_text one = {0};

	if (to->len)
		ckpt_text_put(&one, ",");
	put_quoted(&one, t->name);
	ckpt_text_put(&one, ":{\"saved_offsets\":");
	ckpt_text_numbers(&one, t->shard_offset, t->ndim);
	ckpt_text_put(&one, ",\"global_shape\":");
	ckpt_text_numbers(&one, t->global_shape, t->ndim);
	ckpt_text_put(&one, "}");
	ckpt_text_json(to, one.data, one.len);
	to->failed |= one.failed;
	ckpt_text_free(&one);
}

int ckpt_header_tensor(struct ckpt_header *h, const struct ckpt_header_tensor *t)
{
	size_t before[PARTS];

	remember(h, before);
	put_tensor(&h->tensors, t);
	if (h->sharded)
		put_shard(&h->shards, t);
	return settle(h, before);
}

static int replace_format(struct ckpt_header *h, const char *value)
{
	struct ckpt_text old = h->format;
	size_t before[PARTS];
	int err;

	h->format = (struct ckpt_text){0};
	remember(h, before);
	ckpt_text_json(&h->format, value, strlen(value));
	err = settle(h, before);
	ckpt_text_free(err ? &h->format : &old);
	if (err)
		h->format = old;
	return err;
}

int ckpt_header_pair(struct ckpt_header *h, const char *key, const char *value)
{
	size_t before[PARTS];

	if (!strcmp(key, FORMAT))
		return replace_format(h, value);
	remember(h, before);
	ckpt_text_put(&h->pairs, ",");
	put_quoted(&h->pairs, key);
	ckpt_text_put(&h->pairs, ":");
	put_quoted(&h->pairs, value);
	return settle(h, before);
}

/* --- the whole header --- */

static void append(struct ckpt_text *to, const struct ckpt_text *what)
{
	ckpt_text_add(to, what->data, what->len);
}

int ckpt_header_text(const struct ckpt_header *h, struct ckpt_text *t)
{
	ckpt_text_put(t, BEGIN);
	append(t, &h->format);
	ckpt_text_put(t, FORMAT_END);
	append(t, &h->pairs);
	if (h->sharded) {
		ckpt_text_put(t, SHARDS_BEGIN);
		append(t, &h->shards);
		ckpt_text_put(t, SHARDS_END);
	}
	ckpt_text_put(t, PAIRS_END);
	append(t, &h->tensors);
	ckpt_text_put(t, END);
	while (!t->failed && t->len < h->room)
		ckpt_text_add(t, "        ", h->room - t->len < 8 ? h->room - t->len : 8);
	return t->failed ? -ENOMEM : 0;
}
