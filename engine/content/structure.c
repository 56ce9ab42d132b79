/* SPDX-License-Identifier: MIT */
#include "engine/content/structure.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/ckptfs_abi.h"
#include "engine/base/cleanup.h"

#define CUT_OFF "the file was cut off or is still being written"

/* A file under check. The functions that check return what is wrong with it, or NULL. */
struct check {
	const struct source *src;
	uint64_t size;
	int err; /* -errno of reading: counts instead of what is returned */
};

static const char unreadable[] = "it cannot be read";

static bool get(struct check *c, uint64_t off, void *buf, size_t len)
{
	ssize_t n = c->src->read(c->src->arg, buf, len, off);

	if (n < 0)
		c->err = (int)n;
	else if ((size_t)n != len)
		c->err = -EIO; /* it became shorter meanwhile */
	return !c->err;
}

static uint64_t le(const unsigned char *p, size_t len)
{
	uint64_t n = 0;

	while (len)
		n = n << 8 | p[--len];
	return n;
}

/* --- reading on from a place, in large parts --- */

struct reader {
	struct check *c;
	uint64_t off, end; /* what is not in buf yet */
	size_t at, len;	   /* what is left of it there */
	unsigned char buf[65536];
};

static struct reader *reader_create(struct check *c, uint64_t off, uint64_t len)
{
	struct reader *r = malloc(sizeof(*r));

	if (!r) {
		c->err = -ENOMEM;
		return NULL;
	}
	r->c = c;
	r->off = off;
	r->end = off + len;
	r->at = r->len = 0;
	return r;
}

static uint64_t left(const struct reader *r)
{
	return r->end - r->off + r->len - r->at;
}

static bool fill(struct reader *r)
{
	uint64_t rest = r->end - r->off;
	size_t len = rest < sizeof(r->buf) ? (size_t)rest : sizeof(r->buf);

	if (!len || !get(r->c, r->off, r->buf, len))
		return false;
	r->off += len;
	r->at = 0;
	r->len = len;
	return true;
}

static int next(struct reader *r)
{
	if (r->at == r->len && !fill(r))
		return -1;
	return r->buf[r->at++];
}

static bool take(struct reader *r, unsigned char *out, size_t len)
{
	while (len) {
		int c = next(r);

		if (c < 0)
			return false;
		*out++ = (unsigned char)c;
		len--;
	}
	return true;
}

static bool skip(struct reader *r, size_t len)
{
	size_t here = r->len - r->at;

	if (len > left(r))
		return false;
	if (len <= here) {
		r->at += len;
	} else {
		r->off += len - here;
		r->at = r->len = 0;
	}
	return true;
}

/* --- zip (PKWARE's APPNOTE, 4.3) --- */

#define ZIP_END	      22 /* end of central directory record */
#define ZIP_END64     56
#define ZIP_LOCATOR64 20
#define ZIP_ENTRY     46 /* of the central directory */
#define ZIP_LOCAL     30
#define ZIP_COMMENT   65535
#define ZIP_LOOKED_AT 16384 /* local headers: each is a read somewhere in the file */

static const char zip_no_end[] = "zip: no end-of-central-directory record: " CUT_OFF;
static const char zip_no_end64[] = "zip: the zip64 record at its end is missing or damaged";
static const char zip_no_directory[] = "zip: its central directory is not where its end says";
static const char zip_directory[] =
	"zip: its central directory is damaged, or has not the entries that its end says";
static const char zip_outside[] =
	"zip: its central directory lists an entry beyond what is there of the file";
static const char zip_local[] =
	"zip: an entry is not where its central directory says: a part of the file is missing";

struct zip {
	uint64_t nr_entries;
	uint64_t off, len; /* of the central directory */
};

struct zip_entry {
	uint64_t off; /* of its local header */
	uint64_t packed, unpacked;
};

/* @p is a candidate for the end record, at @off. */
static const char *zip_read_end(struct check *c, const unsigned char *p, uint64_t off,
				struct zip *z)
{
	unsigned char end64[ZIP_END64], locator[ZIP_LOCATOR64] = "";
	uint64_t limit = off;

	z->nr_entries = le(p + 10, 2);
	z->len = le(p + 12, 4);
	z->off = le(p + 16, 4);
	if (off >= ZIP_LOCATOR64 && !get(c, off - ZIP_LOCATOR64, locator, sizeof(locator)))
		return unreadable;
	if (!memcmp(locator, "PK\6\7", 4)) {
		limit = le(locator + 8, 8);
		if (limit > off || off - limit < ZIP_END64 + ZIP_LOCATOR64)
			return zip_no_end64;
		if (!get(c, limit, end64, sizeof(end64)))
			return unreadable;
		if (memcmp(end64, "PK\6\6", 4))
			return zip_no_end64;
		z->nr_entries = le(end64 + 32, 8);
		z->len = le(end64 + 40, 8);
		z->off = le(end64 + 48, 8);
	} else if (z->len == UINT32_MAX || z->off == UINT32_MAX) {
		return zip_no_end64;
	}
	if (z->off > limit || z->len > limit - z->off)
		return zip_no_directory;
	return NULL;
}

/*
 * The end record, which is found from the file's end backwards. Bytes behind it and its comment are
 * let pass, as readers do.
 */
static const char *zip_find_end(struct check *c, struct zip *z)
{
	uint64_t room = ZIP_END + ZIP_COMMENT;
	size_t len = c->size < room ? (size_t)c->size : (size_t)room, at;
	__cleanup_free unsigned char *tail = malloc(len);
	const char *problem = zip_no_end;

	if (!tail) {
		c->err = -ENOMEM;
		return unreadable;
	}
	if (!get(c, c->size - len, tail, len))
		return unreadable;
	for (at = len < ZIP_END ? 0 : len - ZIP_END + 1; at > 0; at--) {
		const unsigned char *p = tail + at - 1;

		if (memcmp(p, "PK\5\6", 4) || at - 1 + ZIP_END + le(p + 20, 2) > len)
			continue;
		problem = zip_read_end(c, p, c->size - len + at - 1, z);
		if (!problem || c->err)
			return problem;
	}
	return problem;
}

/* The zip64 field holds, in this order, those numbers that are all ones in the entry itself. */
static void zip_read_field64(struct zip_entry *en, const unsigned char *field, size_t len)
{
	uint64_t *const numbers[] = {&en->unpacked, &en->packed, &en->off};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(numbers) && len >= 8; i++) {
		if (*numbers[i] != UINT32_MAX)
			continue;
		*numbers[i] = le(field, 8);
		field += 8;
		len -= 8;
	}
}

/* Extra fields: numbers of 2 bytes, what it is and its length, and so much. */
static bool zip_read_extra(struct reader *r, size_t len, struct zip_entry *en)
{
	while (len >= 4) {
		unsigned char head[4], field[24];
		size_t n, part;

		if (!take(r, head, sizeof(head)))
			return false;
		n = (size_t)le(head + 2, 2);
		len -= sizeof(head);
		if (n > len)
			return false;
		len -= n;
		part = le(head, 2) != 1 ? 0 : n < sizeof(field) ? n : sizeof(field);
		if (!take(r, field, part) || !skip(r, n - part))
			return false;
		zip_read_field64(en, field, part);
	}
	return skip(r, len); /* too short for a field: padding */
}

static bool zip_read_entry(struct reader *r, struct zip_entry *en)
{
	unsigned char p[ZIP_ENTRY];

	if (!take(r, p, sizeof(p)) || memcmp(p, "PK\1\2", 4))
		return false;
	en->packed = le(p + 20, 4);
	en->unpacked = le(p + 24, 4);
	en->off = le(p + 42, 4);
	return skip(r, le(p + 28, 2)) && zip_read_extra(r, le(p + 30, 2), en) &&
	       skip(r, le(p + 32, 2));
}

/* Everything of the entry lies before the central directory, at @limit. */
static const char *zip_check_local(struct check *c, const struct zip_entry *en, uint64_t limit,
				   bool look)
{
	unsigned char p[ZIP_LOCAL];
	uint64_t room = en->off <= limit ? limit - en->off : 0;

	if (room < ZIP_LOCAL || room - ZIP_LOCAL < en->packed)
		return zip_outside;
	if (!look)
		return NULL;
	if (!get(c, en->off, p, sizeof(p)))
		return unreadable;
	if (memcmp(p, "PK\3\4", 4))
		return zip_local;
	if (room - ZIP_LOCAL - en->packed < le(p + 26, 2) + le(p + 28, 2))
		return zip_outside;
	return NULL;
}

static const char *check_zip(struct check *c)
{
	struct zip z = {0};
	const char *problem = zip_find_end(c, &z);
	__cleanup_free struct reader *r = NULL;
	uint64_t i, step;

	if (problem)
		return problem;
	r = reader_create(c, z.off, z.len);
	if (!r)
		return unreadable;
	step = 1 + z.nr_entries / ZIP_LOOKED_AT;
	for (i = 0; i < z.nr_entries; i++) {
		struct zip_entry en;

		if (!zip_read_entry(r, &en))
			return zip_directory;
		problem = zip_check_local(c, &en, z.off, i % step == 0);
		if (problem)
			return problem;
	}
	return left(r) ? zip_directory : NULL;
}

/* --- HDF5 (File Format Specification, II.A: the superblock) --- */

static const char hdf5_superblock[] = "HDF5: its superblock is damaged, or " CUT_OFF;
static const char hdf5_cut[] = "HDF5: it ends before the end that its superblock tells: " CUT_OFF;
static const char hdf5_open[] =
	"HDF5: it is marked as open for writing: its writer did not close it";
/* What a writer leaves that dies before its first flush; older superblocks have no such mark. */
static const char hdf5_root[] = "HDF5: it has no root group: its writer did not close it";

#define HDF5_SIGNATURE "\x89HDF\r\n\x1a\n"
#define HDF5_WRITING   (1 | 4) /* flags: open for writing, open for one writer and many readers */

struct hdf5 {
	uint64_t base, end, root; /* addresses; the root group's */
	size_t width;		  /* of an address */
	unsigned flags;
};

/* @p: the first @len bytes of the file, zeros behind. False: nobody can make sense of it. */
static bool hdf5_read(const unsigned char *p, size_t len, struct hdf5 *h)
{
	bool old = p[8] < 2;
	size_t at = !old ? 12 : p[8] ? 28 : 24;

	h->width = p[old ? 13 : 9];
	h->flags = old ? 0 : p[11]; /* in the old ones nobody keeps them */
	if (h->width != 2 && h->width != 4 && h->width != 8)
		return false;
	if (len < at + 6 * h->width)
		return false;
	/* Old: base, free space, end, driver, name of the root group, root group. */
	h->base = le(p + at, h->width);
	h->end = le(p + at + 2 * h->width, h->width);
	h->root = le(p + at + (old ? 5 : 3) * h->width, h->width);
	return true;
}

static const char *check_hdf5(struct check *c)
{
	unsigned char p[128] = "", header[4];
	size_t len = c->size < sizeof(p) ? (size_t)c->size : sizeof(p);
	struct hdf5 h;

	if (!get(c, 0, p, len))
		return unreadable;
	if (p[8] > 3)
		return NULL; /* of a later library: we cannot tell */
	if (!hdf5_read(p, len, &h) || h.end < h.base)
		return hdf5_superblock;
	if (h.end - h.base > c->size)
		return hdf5_cut;
	if (h.flags & HDF5_WRITING)
		return hdf5_open;
	if (h.root > h.end - h.base || h.end - h.base - h.root < sizeof(header))
		return hdf5_superblock;
	if (!get(c, h.root, header, sizeof(header)))
		return unreadable;
	return header[0] == 1 || !memcmp(header, "OHDR", 4) ? NULL : hdf5_root;
}

/* --- safetensors: a length of 8 bytes, a header of JSON, data --- */

#define SAFETENSORS_HEADER_MAX 100000000 /* as its own library has it */
#define SAFETENSORS_TENSOR_MAX 65536	 /* of the text of one tensor in the header */

static const char safetensors_length[] =
	"safetensors: it does not begin with the length of a header: " CUT_OFF;
static const char safetensors_unfinished[] =
	"safetensors: its header was never written: its writer did not close it";
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
 * The header may have 100 MB, and as one tree in memory would take many times that. So its outer
 * object is taken apart here, and only the object of each tensor given to the parser.
 */

static int next_solid(struct reader *r)
{
	int c;

	do
		c = next(r);
	while (c == ' ' || c == '\t' || c == '\n' || c == '\r');
	return c;
}

/* Where a value is collected; more than fits is dropped, and len tells. */
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

/* A string, whose first quote has been read, up to its last one. */
static bool read_string(struct reader *r, struct text *t)
{
	int c;

	while ((c = next(r)) >= 0) {
		put(t, c);
		if (c == '"')
			return true;
		if (c == '\\') {
			c = next(r);
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
	for (; c >= 0; c = next(r)) {
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
		return unreadable;
	}
	return NULL;
}

/* A name, whose first quote has been read, and its object. */
static const char *read_member(struct header *h)
{
	static const char metadata[] = "__metadata__\"";
	char buf[sizeof(metadata) - 1];
	struct text name = {.buf = buf, .room = sizeof(buf)};

	h->value.len = 0;
	if (!read_string(h->r, &name) || next_solid(h->r) != ':' || !read_object(h->r, &h->value))
		return safetensors_header;
	if (name.len == name.room && !memcmp(buf, metadata, sizeof(buf)))
		return NULL; /* texts, for people */
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

static const char *check_safetensors(struct check *c)
{
	unsigned char length[8];
	struct header h = {.c = c};
	const char *problem;
	uint64_t len;

	if (c->size < sizeof(length))
		return safetensors_length;
	if (!get(c, 0, length, sizeof(length)))
		return unreadable;
	len = le(length, sizeof(length));
	if (!len || len > SAFETENSORS_HEADER_MAX)
		return safetensors_length;
	if (len > c->size - sizeof(length))
		return safetensors_cut;
	h.data_len = c->size - sizeof(length) - len;
	h.r = reader_create(c, sizeof(length), len);
	h.value.buf = malloc(SAFETENSORS_TENSOR_MAX);
	h.value.room = SAFETENSORS_TENSOR_MAX;
	if (!h.value.buf)
		c->err = -ENOMEM;
	problem = c->err ? unreadable : read_header(&h);
	free(h.value.buf);
	free(h.x.list);
	free(h.r);
	return problem;
}

/* --- which of them --- */

static bool ends_in(const char *name, const char *suffix)
{
	size_t len = strlen(name), n = strlen(suffix);

	return len >= n && !strcmp(name + len - n, suffix);
}

static const char *check_by_kind(struct check *c, const char *name)
{
	unsigned char magic[8] = "";
	size_t len = c->size < sizeof(magic) ? (size_t)c->size : sizeof(magic);

	if (!get(c, 0, magic, len))
		return unreadable;
	if (!memcmp(magic, CKPTFS_UNFINISHED, sizeof(magic)))
		return safetensors_unfinished;
	if (ends_in(name, ".safetensors"))
		return check_safetensors(c);
	if (!memcmp(magic, "PK\3\4", 4))
		return check_zip(c);
	if (!memcmp(magic, HDF5_SIGNATURE, sizeof(magic)))
		return check_hdf5(c);
	return NULL;
}

int structure_check(const struct source *src, const char *name, uint64_t size, struct error *e)
{
	struct check c = {.src = src, .size = size};
	const char *problem = check_by_kind(&c, name);

	if (c.err)
		return FAIL(e, -c.err, STRUCTURE_UNREADABLE, name, strerror(-c.err));
	if (problem)
		return FAIL(e, EILSEQ, STRUCTURE_BROKEN, name, problem);
	return 0;
}
