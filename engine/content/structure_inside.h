/* SPDX-License-Identifier: MIT */
/*
 * What the files of structure.h share: a file under check, and how it is read. structure_zip.c,
 * structure_hdf5.c and structure_safetensors.c have the formats. All of it is of one thread.
 */
#ifndef ENGINE_CONTENT_STRUCTURE_INSIDE_H
#define ENGINE_CONTENT_STRUCTURE_INSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/source.h"

#define CUT_OFF	       "the file was cut off or is still being written"
#define HDF5_SIGNATURE "\x89HDF\r\n\x1a\n"

/* A file under check. The functions that check return what is wrong with it, or NULL. */
struct check {
	const struct source *src;
	uint64_t size;
	int err; /* -errno of reading: counts instead of what is returned */
};

/* What is returned when c->err counts. */
extern const char structure_unreadable[];

/* Reads @len bytes at @off. False: c->err is set. */
bool structure_get(struct check *c, uint64_t off, void *buf, size_t len);
/* The number, little-endian, of @len bytes. */
uint64_t structure_le(const unsigned char *p, size_t len);

/* --- reading on from a place, in large parts --- */

struct reader {
	struct check *c;
	uint64_t off, end; /* what is not in buf yet */
	size_t at, len;	   /* what is left of it there */
	unsigned char buf[65536];
};

/* Of the @len bytes at @off. To be freed; NULL: no memory, and c->err is set. */
struct reader *structure_reader_create(struct check *c, uint64_t off, uint64_t len);
/* How many bytes are not read yet. */
uint64_t structure_left(const struct reader *r);
/* The next byte; -1: there is none, or c->err is set. */
int structure_next(struct reader *r);
/* False: there are fewer, or c->err is set. */
bool structure_take(struct reader *r, unsigned char *out, size_t len);
bool structure_skip(struct reader *r, size_t len);

/* What is wrong with the file, or NULL. */
const char *structure_check_zip(struct check *c);
const char *structure_check_hdf5(struct check *c);
const char *structure_check_safetensors(struct check *c);

#endif
