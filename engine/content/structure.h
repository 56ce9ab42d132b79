/* SPDX-License-Identifier: MIT */
/*
 * Is a file structurally whole? So that a file which was cut off, or whose writer died before its
 * end, does not pass for a checkpoint (DESIGN 2). It looks at the skeleton only, of
 *
 *	zip		what torch.save, numpy.savez and Keras write: the end record, the central
 *			directory, and that each entry lies where it says (of more than 16384
 *			entries, so many of their local headers, evenly spread)
 *	HDF5		the superblock: that all of the file is there, that there is a root group,
 *			and that it was closed (which only superblocks of version 3 tell)
 *	safetensors	the header, and that its tensors cover the file, without hole or overlap
 *
 * and not at what is in it: that is the digest's business. A few 64 KiB of memory whatever the file
 * says, and 16 bytes a tensor; time at most in proportion to the directory or header.
 */
#ifndef ENGINE_CONTENT_STRUCTURE_H
#define ENGINE_CONTENT_STRUCTURE_H

#include "engine/base/message.h"
#include "engine/base/source.h"

/*
 * Checks a file of @size bytes that begins as zip or HDF5, or with CKPTFS_UNFINISHED, or whose
 * @name (a path, also for the message) ends in .safetensors; any other is whole. Returns 0,
 * -EILSEQ: it is not whole, or -errno: it cannot be read; @e filled.
 */
int structure_check(const struct source *src, const char *name, uint64_t size, struct error *e);

#endif
