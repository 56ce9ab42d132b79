/* SPDX-License-Identifier: MIT */
#include "engine/tensors/zip.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"

#define ZIP_END	      22 /* end of central directory record */
#define ZIP_END64     56
#define ZIP_LOCATOR64 20
#define ZIP_ENTRY     46 /* of the central directory */
#define ZIP_LOCAL     30
#define ZIP_COMMENT   65535

static const char no_end[] = "it is no whole zip file: its end is missing";
static const char damaged[] = "its zip directory is damaged";

static uint64_t le(const char *at, size_t len)
{
	uint64_t n = 0;

	while (len-- > 0)
		n = n << 8 | (unsigned char)at[len];
	return n;
}

static int bad(const char **why, const char *text)
{
	*why = text;
	return -EBADMSG;
}

struct place {
	uint64_t at, len, nr; /* the central directory */
};

/* The end record is at @off of the file, and its bytes are at @end. */
static int read_end(const struct tree_part *p, const char *end, uint64_t off, struct place *d,
		    const char **why)
{
	char locator[ZIP_LOCATOR64], end64[ZIP_END64];
	uint64_t limit = off;
	int err;

	*d = (struct place){.nr = le(end + 10, 2), .len = le(end + 12, 4), .at = le(end + 16, 4)};
	if (off >= ZIP_LOCATOR64) {
		err = tree_read(p, locator, sizeof(locator), off - ZIP_LOCATOR64);
		if (err)
			return err;
		if (!memcmp(locator, "PK\6\7", 4)) {
			limit = le(locator + 8, 8);
			err = limit < off ? tree_read(p, end64, sizeof(end64), limit) : -EBADMSG;
			if (err)
				return err == -EBADMSG ? bad(why, damaged) : err;
			if (memcmp(end64, "PK\6\6", 4))
				return bad(why, damaged);
			d->nr = le(end64 + 32, 8);
			d->len = le(end64 + 40, 8);
			d->at = le(end64 + 48, 8);
		}
	}
	if (d->at > limit || d->len > limit - d->at || d->nr > d->len / ZIP_ENTRY)
		return bad(why, damaged);
	return 0;
}

static int find_end(const struct tree_part *p, struct place *d, const char **why)
{
	/* Nearly all files have no comment: then the record is the last thing. */
	for (uint64_t room = ZIP_END;; room = ZIP_END + ZIP_COMMENT) {
		uint64_t len = p->size < room ? p->size : room;
		__cleanup_free char *tail = NULL;
		int err = tree_load(p, p->size - len, len, (size_t)len, &tail);

		if (err)
			return err;
		for (uint64_t i = len < ZIP_END ? 0 : len - ZIP_END + 1; i-- > 0;)
			if (!memcmp(tail + i, "PK\5\6", 4))
				return read_end(p, tail + i, p->size - len + i, d, why);
		if (room > ZIP_END)
			return bad(why, no_end);
	}
}

/* A zip64 field holds, in this order, the numbers that are all ones in the entry itself. */
static void read_extra(const char *at, size_t len, struct zip_member *m, uint64_t *packed)
{
	while (len >= 4) {
		size_t n = (size_t)le(at + 2, 2), i = 4;
		uint64_t *const numbers[] = {&m->size, packed, &m->header};

		if (n > len - 4)
			return;
		for (size_t k = 0; le(at, 2) == 1 && k < ARRAY_SIZE(numbers); k++) {
			if (*numbers[k] != UINT32_MAX || i + 8 > n + 4)
				continue;
			*numbers[k] = le(at + i, 8);
			i += 8;
		}
		at += 4 + n;
		len -= 4 + n;
	}
}

/* Reads the entry at *@at, with @left bytes from there on. False: damaged. */
static bool read_entry(char **at, size_t *left, struct zip_member *m)
{
	char *e = *at;
	size_t name, extra, comment;
	uint64_t packed;

	if (*left < ZIP_ENTRY || memcmp(e, "PK\1\2", 4))
		return false;
	name = (size_t)le(e + 28, 2);
	extra = (size_t)le(e + 30, 2);
	comment = (size_t)le(e + 32, 2);
	if (name + extra + comment > *left - ZIP_ENTRY)
		return false;
	*m = (struct zip_member){.name = e + ZIP_ENTRY,
				 .header = le(e + 42, 4),
				 .size = le(e + 24, 4),
				 .stored = !le(e + 10, 2) && !(le(e + 8, 2) & 1)};
	packed = le(e + 20, 4);
	read_extra(e + ZIP_ENTRY + name, extra, m, &packed);
	m->stored = m->stored && packed == m->size;
	/* The name ends where the extra field begins; what is there has been read. */
	*at += ZIP_ENTRY + name + extra + comment;
	*left -= ZIP_ENTRY + name + extra + comment;
	memmove(e + ZIP_ENTRY - 1, e + ZIP_ENTRY, name);
	e[ZIP_ENTRY - 1 + name] = '\0';
	m->name = e + ZIP_ENTRY - 1;
	return strlen(m->name) == name;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct zip_member *)a)->name, ((const struct zip_member *)b)->name);
}

int zip_open(struct zip *z, const struct tree_part *p, const char **why)
{
	struct place d;
	size_t left;
	char *at;
	int err = find_end(p, &d, why);

	*z = (struct zip){0};
	if (!err)
		err = tree_load(p, d.at, d.len, ZIP_DIRECTORY_MAX, &z->directory);
	if (err)
		return err == -EFBIG ? bad(why, "its zip directory is too large") : err;
	z->list = calloc((size_t)d.nr + 1, sizeof(*z->list));
	err = z->list ? 0 : -ENOMEM;
	at = z->directory;
	left = (size_t)d.len;
	while (!err && z->nr < d.nr) {
		if (!read_entry(&at, &left, &z->list[z->nr]))
			err = bad(why, damaged);
		z->nr += !err;
	}
	if (!err && z->nr)
		qsort(z->list, z->nr, sizeof(*z->list), by_name);
	if (err)
		zip_close(z);
	return err;
}

void zip_close(struct zip *z)
{
	free(z->list);
	free(z->directory);
	*z = (struct zip){0};
}

const struct zip_member *zip_find(const struct zip *z, const char *name)
{
	struct zip_member key = {.name = name};

	return z->nr ? bsearch(&key, z->list, z->nr, sizeof(key), by_name) : NULL;
}

int zip_data(const struct tree_part *p, const struct zip_member *m, uint64_t *at, const char **why)
{
	char local[ZIP_LOCAL];
	uint64_t head;
	int err = tree_read(p, local, sizeof(local), m->header);

	if (err)
		return err == -EBADMSG ? bad(why, "a part of it is missing") : err;
	head = ZIP_LOCAL + le(local + 26, 2) + le(local + 28, 2);
	if (memcmp(local, "PK\3\4", 4) || m->header > p->size || head > p->size - m->header ||
	    m->size > p->size - m->header - head)
		return bad(why, "a part of it is missing");
	*at = m->header + head;
	return 0;
}
