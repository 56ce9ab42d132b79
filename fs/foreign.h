/* SPDX-License-Identifier: MIT */
/*
 * Checkpoints of many files that no ckptfs wrote. They have no commit file, so the built-in rules
 * recognise them. The content of some proves that they are whole:
 *
 *   torch-dcp, torchtitan   .metadata, which is written last, and each file that it names
 *   megatron                the same, and metadata.json or common.pt
 *   sharded-export          each file that a *.index.json names
 *
 * Of the others only their maker can tell. In all of them each zip, HDF5 and safetensors file must
 * be whole by itself, and no file may have been written lately. Has no lock: a write that is seen
 * meanwhile is an error.
 */
#ifndef FS_FOREIGN_H
#define FS_FOREIGN_H

#include <stdbool.h>
#include <stdint.h>

struct error;
struct rule;
struct rules;

/*
 * The rule that claims the directory @dir, at @path below the backing, by a file in it; NULL: none.
 */
const struct rule *foreign_rule(const struct rules *rs, const char *path, int dir);

/* True if nothing is in the directory @dir. */
bool foreign_is_empty(int dir);

struct foreign {
	const struct rule *rule;
	const char *path, *shown; /* below the backing; the same for people */
	int dir;
	bool named; /* a person vouches for it */
	bool only_look;
	uint64_t now_ns;
	uint64_t bytes; /* result: of all files in it */
	void (*digesting)(void *arg, const char *path, uint64_t bytes);
	void *arg;
};

/*
 * Judges the directory, digests its files and gives it a commit file, of sequence 0: it is older
 * than all that ckptfs saved. 0, or -errno with @e filled and nothing changed. -ENODATA: nothing
 * tells whether it is whole.
 */
int foreign_adopt(struct foreign *f, struct error *e);

#endif
