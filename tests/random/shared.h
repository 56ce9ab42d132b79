/* SPDX-License-Identifier: MIT */
/*
 * The shared-file mode. One file is cut into regions, each owned by one
 * writer thread of one process. Every 8 bytes of a region say who wrote them,
 * in which round, and where they belong:
 *
 *   writer (8 bits) | round (24 bits) | offset / 8 (32 bits)
 *
 * A region's `started` and `done` rounds are in memory shared by all
 * processes, so whoever reads a region knows which rounds it may see: none
 * older than `done` before the read, none newer than `started` after it.
 * Lengths are multiples of 8 and not of the page size: neighbours share pages.
 */
#ifndef RANDOPS_SHARED_H
#define RANDOPS_SHARED_H

#include "randops.h"

#include <stdatomic.h>
#include <sys/types.h>

enum {
	MAX_WRITERS = 255,
	MAX_REGIONS = 4096,
	REGION_MAX = 1 << 20,
	RECORD_MAX = 65536,
	APPENDS_MAX = 400
};

struct region {
	off_t off;
	size_t len;
	unsigned int writer;
	_Atomic uint32_t started, done;
};

struct shared {
	_Atomic int stop, failed;
	_Atomic uint64_t writes, reads, renames, maps;
	_Atomic uint32_t appended[MAX_WRITERS + 1]; /* records of each writer */
	unsigned int nr_regions, nr_writers;
	off_t size;
	char root[ROOT_MAX]; /* A/randops.shared */
	struct region regions[MAX_REGIONS];
};

struct record {
	uint64_t magic, writer, seq, len; /* len: all of it, this included */
};
#define RECORD_MAGIC 0x52414e444f505331ULL

static inline uint64_t stamp(unsigned int writer, uint32_t seq, off_t off)
{
	return (uint64_t)writer << 56 | (uint64_t)(seq & 0xffffff) << 32 | off / 8;
}

void shared_fail(struct shared *sh, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int shared_open(struct shared *sh, int flags); /* by whichever name it has now */
extern const char *const shared_names[];
enum { NR_SHARED_NAMES = 3 };

/* What every word of a region must be, lo <= round <= hi; false: said why. */
bool region_check(struct shared *sh, const struct region *reg, const uint64_t *words, uint32_t lo,
		  uint32_t hi, const char *how);
bool region_read(struct shared *sh, const struct region *reg, int fd, void *buf);
bool region_map(struct shared *sh, const struct region *reg, int fd);
int shared_verify(struct shared *sh, const char *reference); /* 0, 1 */

#endif
