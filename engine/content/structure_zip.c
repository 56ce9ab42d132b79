/* SPDX-License-Identifier: MIT */
/*
 * Checks that a zip file (PKWARE's APPNOTE, 4.3) is whole: its end, its central directory, and that
 * entries are where the directory says. It unpacks nothing and checks no CRC.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/content/structure_inside.h"

#define ZIP_END	      22 /* end of central directory record */
#define ZIP_END64     56
#define ZIP_LOCATOR64 20
#define ZIP_ENTRY     46 /* of the central directory */
#define ZIP_LOCAL     30
#define ZIP_COMMENT   65535
#define ZIP_LOOKED_AT 16384 /* local headers: each needs a read somewhere in the file */

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

/* Reads the end record candidate @p, at offset @off. */
static const char *zip_read_end(struct check *c, const unsigned char *p, uint64_t off,
				struct zip *z)
{
	unsigned char end64[ZIP_END64], locator[ZIP_LOCATOR64] = "";
	uint64_t limit = off;

	z->nr_entries = structure_le(p + 10, 2);
	z->len = structure_le(p + 12, 4);
	z->off = structure_le(p + 16, 4);
	if (off >= ZIP_LOCATOR64 &&
	    !structure_get(c, off - ZIP_LOCATOR64, locator, sizeof(locator)))
		return structure_unreadable;
	if (!memcmp(locator, "PK\6\7", 4)) {
		limit = structure_le(locator + 8, 8);
		if (limit > off || off - limit < ZIP_END64 + ZIP_LOCATOR64)
			return zip_no_end64;
		if (!structure_get(c, limit, end64, sizeof(end64)))
			return structure_unreadable;
		if (memcmp(end64, "PK\6\6", 4))
			return zip_no_end64;
		z->nr_entries = structure_le(end64 + 32, 8);
		z->len = structure_le(end64 + 40, 8);
		z->off = structure_le(end64 + 48, 8);
	} else if (z->len == UINT32_MAX || z->off == UINT32_MAX) {
		return zip_no_end64;
	}
	if (z->off > limit || z->len > limit - z->off)
		return zip_no_directory;
	return NULL;
}

/*
 * Finds the end record, searching backwards from the file's end. Accepts bytes behind the record
 * and its comment, as readers do.
 */
static const char *zip_find_end(struct check *c, struct zip *z)
{
	uint64_t room = ZIP_END + ZIP_COMMENT;
	size_t len = c->size < room ? (size_t)c->size : (size_t)room, at;
	__cleanup_free unsigned char *tail = malloc(len);
	const char *problem = zip_no_end;

	if (!tail) {
		c->err = -ENOMEM;
		return structure_unreadable;
	}
	if (!structure_get(c, c->size - len, tail, len))
		return structure_unreadable;
	for (at = len < ZIP_END ? 0 : len - ZIP_END + 1; at > 0; at--) {
		const unsigned char *p = tail + at - 1;

		if (memcmp(p, "PK\5\6", 4) || at - 1 + ZIP_END + structure_le(p + 20, 2) > len)
			continue;
		problem = zip_read_end(c, p, c->size - len + at - 1, z);
		if (!problem || c->err)
			return problem;
	}
	return problem;
}

/* The zip64 field holds, in this order, the numbers that are all ones in the entry itself. */
static void zip_read_field64(struct zip_entry *en, const unsigned char *field, size_t len)
{
	uint64_t *const numbers[] = {&en->unpacked, &en->packed, &en->off};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(numbers) && len >= 8; i++) {
		if (*numbers[i] != UINT32_MAX)
			continue;
		*numbers[i] = structure_le(field, 8);
		field += 8;
		len -= 8;
	}
}

/* Extra fields: 2 bytes of type, 2 bytes of length, and the data. */
static bool zip_read_extra(struct reader *r, size_t len, struct zip_entry *en)
{
	while (len >= 4) {
		unsigned char head[4], field[24];
		size_t n, part;

		if (!structure_take(r, head, sizeof(head)))
			return false;
		n = (size_t)structure_le(head + 2, 2);
		len -= sizeof(head);
		if (n > len)
			return false;
		len -= n;
		part = structure_le(head, 2) != 1 ? 0 : n < sizeof(field) ? n : sizeof(field);
		if (!structure_take(r, field, part) || !structure_skip(r, n - part))
			return false;
		zip_read_field64(en, field, part);
	}
	return structure_skip(r, len); /* too short for a field: padding */
}

static bool zip_read_entry(struct reader *r, struct zip_entry *en)
{
	unsigned char p[ZIP_ENTRY];

	if (!structure_take(r, p, sizeof(p)) || memcmp(p, "PK\1\2", 4))
		return false;
	en->packed = structure_le(p + 20, 4);
	en->unpacked = structure_le(p + 24, 4);
	en->off = structure_le(p + 42, 4);
	return structure_skip(r, structure_le(p + 28, 2)) &&
	       zip_read_extra(r, structure_le(p + 30, 2), en) &&
	       structure_skip(r, structure_le(p + 32, 2));
}

/* Checks that the whole entry lies before the central directory, at @limit. */
static const char *zip_check_local(struct check *c, const struct zip_entry *en, uint64_t limit,
				   bool look)
{
	unsigned char p[ZIP_LOCAL];
	uint64_t room = en->off <= limit ? limit - en->off : 0;

	if (room < ZIP_LOCAL || room - ZIP_LOCAL < en->packed)
		return zip_outside;
	if (!look)
		return NULL;
	if (!structure_get(c, en->off, p, sizeof(p)))
		return structure_unreadable;
	if (memcmp(p, "PK\3\4", 4))
		return zip_local;
	if (room - ZIP_LOCAL - en->packed < structure_le(p + 26, 2) + structure_le(p + 28, 2))
		return zip_outside;
	return NULL;
}

const char *structure_check_zip(struct check *c)
{
	struct zip z = {0};
	const char *problem = zip_find_end(c, &z);
	__cleanup_free struct reader *r = NULL;
	uint64_t i, step;

	if (problem)
		return problem;
	r = structure_reader_create(c, z.off, z.len);
	if (!r)
		return structure_unreadable;
	step = 1 + z.nr_entries / ZIP_LOOKED_AT;
	for (i = 0; i < z.nr_entries; i++) {
		struct zip_entry en;

		if (!zip_read_entry(r, &en))
			return zip_directory;
		problem = zip_check_local(c, &en, z.off, i % step == 0);
		if (problem)
			return problem;
	}
	return structure_left(r) ? zip_directory : NULL;
}
