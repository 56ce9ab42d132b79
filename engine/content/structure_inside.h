/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of structure.h: a file under check, and how to read it (structure_read.c).
 * structure_zip.c, structure_hdf5.c and structure_safetensors.c have the formats. One thread uses
 * all of it.
 */
#ifndef ENGINE_CONTENT_STRUCTURE_INSIDE_H
#define ENGINE_CONTENT_STRUCTURE_INSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/source.h"

#define CUT_OFF	       "the file was cut off or is still being written"
#define HDF5_SIGNATURE "\x89HDF\r\n\x1a\n"

/* A file under check. The checking functions return what is wrong with it, or NULL. */
struct check {
	const struct source *src;
	uint64_t size;
	int err; /* -errno of a read: overrides the returned text */
};

/* Returned when c->err is set. */
extern const char structure_unreadable[];

/* Reads @len bytes at @off. False: c->err is set. */
bool structure_get(struct check *c, uint64_t off, void *buf, size_t len);
/* The little-endian number in the @len bytes at @p. */
uint64_t structure_le(const unsigned char *p, size_t len);

/* --- sequential reading, in large parts --- */

struct reader {
	struct check *c;
	uint64_t off, end; /* the part that is not in buf yet */
	size_t at, len;	   /* the part of buf that is not read yet */
	unsigned char buf[65536];
};

/* A reader of the @len bytes at @off, for free(). NULL: no memory, and c->err is set. */
struct reader *structure_reader_create(struct check *c, uint64_t off, uint64_t len);
/* The number of bytes not read yet. */
uint64_t structure_left(const struct reader *r);
/* The next byte; -1: at the end, or c->err is set. */
int structure_next(struct reader *r);
/* False: too few bytes are left, or c->err is set. */
bool structure_take(struct reader *r, unsigned char *out, size_t len);
bool structure_skip(struct reader *r, size_t len);

/* Return what is wrong with the file, or NULL. */
const char *structure_check_zip(struct check *c);
const char *structure_check_hdf5(struct check *c);
const char *structure_check_safetensors(struct check *c);

#endif
