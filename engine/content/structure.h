/* SPDX-License-Identifier: MIT */
/*
 * Checks that a file is structurally whole, so that a file that was cut off, or whose writer died
 * before the end, does not pass for a checkpoint. It looks only at the skeleton of
 *
 *	zip		files of torch.save, numpy.savez and Keras: the end record, the central
 *			directory, and that each entry is where the directory says (of more than
 *			16384 entries, as many local headers, evenly spread)
 *	HDF5		the superblock: that the file is complete, has a root group, and was
 *			closed (which only superblocks of version 3 tell)
 *	safetensors	the header, and that its tensors cover the file, without hole or overlap
 *
 * and not at the data, which has the digest. Memory: a few 64 KiB whatever the file says, and 16
 * bytes per tensor. Time: at most in proportion to the directory or header.
 */
#ifndef ENGINE_CONTENT_STRUCTURE_H
#define ENGINE_CONTENT_STRUCTURE_H

#include "engine/base/message.h"
#include "engine/base/source.h"

/*
 * Checks a file of @size bytes that begins as zip or HDF5, or with CKPTFS_UNFINISHED, or whose
 * @name (a path, also for the message) ends in .safetensors. Any other file is whole. Returns 0,
 * -EILSEQ: the file is not whole, or -errno: it cannot be read; @e filled.
 */
int structure_check(const struct source *src, const char *name, uint64_t size, struct error *e);

#endif
