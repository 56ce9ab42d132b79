/* SPDX-License-Identifier: MIT */
/*
 * Files that look like checkpoints and that no rule claims: they are ordinary, so nothing protects
 * them. The writer is not refused; the log and `ckptfs status` say so once for each directory.
 */
#ifndef FS_UNCLAIMED_H
#define FS_UNCLAIMED_H

#include <sys/types.h>

struct caller;
struct fs;
struct handle;
struct entry_name;

/*
 * Judges a write by its bytes: what torch.save, safetensors, HDF5, NumPy and pickle begin a file
 * with. Does nothing for a write that does not begin a file, for the file of a checkpoint, and for
 * a name that looks temporary.
 */
void unclaimed_notice(struct fs *fs, const struct caller *c, const struct handle *h,
		      const char *data, size_t size, off_t off);

/*
 * Judges the file that a rename from the name @from has given the name @to, by its first bytes on
 * the backing, if @from looks temporary: such a program writes no byte under the name that counts.
 * Does nothing if a rule claims @from or @to.
 */
void unclaimed_renamed(struct fs *fs, const struct caller *c, const char *from,
		       const struct entry_name *to);

#endif
