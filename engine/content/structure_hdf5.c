/* SPDX-License-Identifier: MIT */
/*
 * Checks that an HDF5 file (File Format Specification, II.A: the superblock) is whole. It reads
 * the superblock, and the first bytes of the root group.
 */
#include <string.h>

#include "engine/content/structure_inside.h"

static const char hdf5_superblock[] = "HDF5: its superblock is damaged, or " CUT_OFF;
static const char hdf5_cut[] = "HDF5: it ends before the end that its superblock tells: " CUT_OFF;
static const char hdf5_open[] =
	"HDF5: it is marked as open for writing: its writer did not close it";
/* Left by a writer that dies before its first flush; older superblocks have no such mark. */
static const char hdf5_root[] = "HDF5: it has no root group: its writer did not close it";

#define HDF5_WRITING (1 | 4) /* flags: open for writing, open for one writer and many readers */

struct hdf5 {
	uint64_t base, end, root; /* addresses; root: of the root group */
	size_t width;		  /* of an address */
	unsigned flags;
};

/* @p: the first @len bytes of the file, followed by zeros. False: the superblock is invalid. */
static bool hdf5_read(const unsigned char *p, size_t len, struct hdf5 *h)
{
	bool old = p[8] < 2;
	size_t at = !old ? 12 : p[8] ? 28 : 24;

	h->width = p[old ? 13 : 9];
	h->flags = old ? 0 : p[11]; /* old versions do not maintain them */
	if (h->width != 2 && h->width != 4 && h->width != 8)
		return false;
	if (len < at + 6 * h->width)
		return false;
	/* Old: base, free space, end, driver, name of the root group, root group. */
	h->base = structure_le(p + at, h->width);
	h->end = structure_le(p + at + 2 * h->width, h->width);
	h->root = structure_le(p + at + (old ? 5 : 3) * h->width, h->width);
	return true;
}

const char *structure_check_hdf5(struct check *c)
{
	unsigned char p[128] = "", header[4];
	size_t len = c->size < sizeof(p) ? (size_t)c->size : sizeof(p);
	struct hdf5 h;

	if (!structure_get(c, 0, p, len))
		return structure_unreadable;
	if (p[8] > 3)
		return NULL; /* of a later library: its form is unknown */
	if (!hdf5_read(p, len, &h) || h.end < h.base)
		return hdf5_superblock;
	if (h.end - h.base > c->size)
		return hdf5_cut;
	if (h.flags & HDF5_WRITING)
		return hdf5_open;
	if (h.root > h.end - h.base || h.end - h.base - h.root < sizeof(header))
		return hdf5_superblock;
	if (!structure_get(c, h.root, header, sizeof(header)))
		return structure_unreadable;
	return header[0] == 1 || !memcmp(header, "OHDR", 4) ? NULL : hdf5_root;
}
