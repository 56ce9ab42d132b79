/* SPDX-License-Identifier: MIT */
/*
 * Checks that a safetensors file is whole: a length of 8 bytes, a JSON header, data. It reads only
 * the header, which is untrusted.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "engine/content/structure_inside.h"

#define SAFETENSORS_HEADER_MAX 100000000 /* the limit of the safetensors library */
#define SAFETENSORS_TENSOR_MAX 65536	 /* of the header text of one tensor */

static const char safetensors_length[] =
	"safetensors: it does not begin with the length of a header: " CUT_OFF;
static const char safetensors_cut[] = "safetensors: it ends within its header: " CUT_OFF;
static const char safetensors_header[] = "safetensors: its header is damaged";
static const char safetensors_tensor[] =
	"safetensors: its header lists a tensor without dtype, shape or data_offsets";
static const char safetensors_outside[] =
	"safetensors: its header lists a tensor beyond its end: " CUT_OFF;
static const char safetensors_cover[] =
	"safetensors: its tensors overlap, or leave a part of the file out";

struct extent {
	uint64_t begin, end;
};

struct extents {
	struct extent *list;
	size_t nr, room;
};

static bool add_extent(struct extents *x, const struct extent *one)
{
	if (x->nr == x->room) {
		size_t room = x->room ? x->room * 2 : 64;
		struct extent *list = reallocarray(x->list, room, sizeof(*list));

		if (!list)
			return false;
		x->list = list;
		x->room = room;
	}
	x->list[x->nr++] = *one;
	return true;
}

static int compare_extents(const void *a, const void *b)
{
	const struct extent *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

static bool covers(struct extents *x, uint64_t len)
{
	uint64_t at = 0;
	size_t i;

	if (x->nr)
		qsort(x->list, x->nr, sizeof(*x->list), compare_extents);
	for (i = 0; i < x->nr; i++) {
		if (x->list[i].begin != at)
			return false;
		at = x->list[i].end;
	}
	return at == len;
}

static bool is_count(const json_t *n)
{
	return json_is_integer(n) && json_integer_value(n) >= 0;
}

static bool are_counts(const json_t *list)
{
	size_t i;

	for (i = 0; i < json_array_size(list); i++)
		if (!is_count(json_array_get(list, i)))
			return false;
	return json_is_array(list);
}

static bool tensor_extent(const json_t *tensor, struct extent *one)
{
	const json_t *offsets = json_object_get(tensor, "data_offsets");

	if (!json_is_string(json_object_get(tensor, "dtype")) ||
	    !are_counts(json_object_get(tensor, "shape")) || !are_counts(offsets) ||
	    json_array_size(offsets) != 2)
		return false;
	one->begin = (uint64_t)json_integer_value(json_array_get(offsets, 0));
	one->end = (uint64_t)json_integer_value(json_array_get(offsets, 1));
	return one->begin <= one->end;
}

/*
 * The header may have 100 MB, and a tree of it would take many times that. So this code splits its
 * outer object, and only gives the object of each tensor to the parser.
 */

static int next_solid(struct reader *r)
{
	int c;

	do
		c = structure_next(r);
	while (c == ' ' || c == '\t' || c == '\n' || c == '\r');
	return c;
}

/* Collects a value. Bytes beyond room are dropped, but counted in len. */
struct text {
	char *buf;
	size_t room, len;
};

static void put(struct text *t, int c)
{
	if (t->len < t->room)
		t->buf[t->len] = (char)c;
	t->len++;
}

/* Reads a string behind its first quote, up to its last one. */
static bool read_string(struct reader *r, struct text *t)
{
	int c;

	while ((c = structure_next(r)) >= 0) {
		put(t, c);
		if (c == '"')
			return true;
		if (c == '\\') {
			c = structure_next(r);
			put(t, c);
		}
	}
	return false;
}

static bool read_object(struct reader *r, struct text *t)
{
	unsigned depth = 0;
	int c = next_solid(r);

	if (c != '{')
		return false;
	for (; c >= 0; c = structure_next(r)) {
		put(t, c);
		if (c == '"' && !read_string(r, t))
			return false;
		if (c == '{')
			depth++;
		if (c == '}' && !--depth)
			return true;
	}
	return false;
}

struct header {
	struct check *c;
	struct reader *r;
	uint64_t data_len;
	struct text value;
	struct extents x;
};

static const char *read_tensor(struct header *h)
{
	json_t *tensor = NULL;
	struct extent one;
	bool ok;

	if (h->value.len <= h->value.room)
		tensor = json_loadb(h->value.buf, h->value.len, JSON_REJECT_DUPLICATES, NULL);
	if (!tensor)
		return safetensors_header;
	ok = tensor_extent(tensor, &one);
	json_decref(tensor);
	if (!ok)
		return safetensors_tensor;
	if (one.end > h->data_len)
		return safetensors_outside;
	if (!add_extent(&h->x, &one)) {
		h->c->err = -ENOMEM;
		return structure_unreadable;
	}
	return NULL;
}

/* Reads a name behind its first quote, and its object. */
static const char *read_member(struct header *h)
{
	static const char metadata[] = "__metadata__\"";
	char buf[sizeof(metadata) - 1];
	struct text name = {.buf = buf, .room = sizeof(buf)};

	h->value.len = 0;
	if (!read_string(h->r, &name) || next_solid(h->r) != ':' || !read_object(h->r, &h->value))
		return safetensors_header;
	if (name.len == name.room && !memcmp(buf, metadata, sizeof(buf)))
		return NULL; /* texts for people */
	return read_tensor(h);
}

static const char *read_header(struct header *h)
{
	int c = next_solid(h->r);
	const char *problem;

	if (c != '{')
		return safetensors_header;
	c = next_solid(h->r);
	while (c == '"') {
		problem = read_member(h);
		if (problem)
			return problem;
		c = next_solid(h->r);
		if (c != ',')
			break;
		c = next_solid(h->r);
		if (c != '"')
			return safetensors_header;
	}
	if (c != '}' || next_solid(h->r) >= 0)
		return safetensors_header;
	return covers(&h->x, h->data_len) ? NULL : safetensors_cover;
}

const char *structure_check_safetensors(struct check *c)
{
	unsigned char length[8];
	struct header h = {.c = c};
	const char *problem;
	uint64_t len;

	if (c->size < sizeof(length))
		return safetensors_length;
	if (!structure_get(c, 0, length, sizeof(length)))
		return structure_unreadable;
	len = structure_le(length, sizeof(length));
	if (!len || len > SAFETENSORS_HEADER_MAX)
		return safetensors_length;
	if (len > c->size - sizeof(length))
		return safetensors_cut;
	h.data_len = c->size - sizeof(length) - len;
	h.r = structure_reader_create(c, sizeof(length), len);
	h.value.buf = malloc(SAFETENSORS_TENSOR_MAX);
	h.value.room = SAFETENSORS_TENSOR_MAX;
	if (!h.value.buf)
		c->err = -ENOMEM;
	problem = c->err ? structure_unreadable : read_header(&h);
	free(h.value.buf);
	free(h.x.list);
	free(h.r);
	return problem;
}
