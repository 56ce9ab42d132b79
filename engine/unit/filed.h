/* SPDX-License-Identifier: MIT */
/*
 * What is known of the files of a checkpoint that are durable: of each time that one became so, by
 * its inode. Of many nodes there may be 10^5.
 */
#ifndef ENGINE_UNIT_FILED_H
#define ENGINE_UNIT_FILED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/table.h"
#include "engine/content/content.h"

struct checkpoint;

/* True as long as size and time are so. */
struct filed {
	struct inode_id id;
	uint64_t size, mtime_ns;
	uint32_t order; /* the last of an inode counts */
	int rank;	/* of who wrote it; -1: unknown */
	bool by_handle; /* tensors were written to it so */
	char xxh3[DIGEST_HEX];
	/* the label of the one that wrote it; NULL: this one. The checkpoint has it */
	const char *node;
	struct tensor_map *tensors; /* referenced, or NULL */
};

/* Guarded by the units' lock. */
struct filed_files {
	struct filed *list; /* in the order in which they came */
	size_t nr, room;
	/* by inode: 1 + the index of the last one, or 0; twice as many as there is room for */
	uint32_t *last;
	struct table labels;
};

/*
 * Lock not held. The reference to tensors in @f is taken over, the label is copied; those in *@out
 * are the caller's.
 */
void checkpoint_add_filed(struct checkpoint *cp, const struct filed *f);
int checkpoint_take_filed(struct checkpoint *cp, struct filed **out, size_t *nr);
void filed_free(struct filed *f, size_t nr);

/* The last of the inode @id, or NULL. */
const struct filed *checkpoint_filed_locked(const struct checkpoint *cp, const struct inode_id *id);

/*
 * Lock not held. Were tensors written to the file @id of it by handle when it was made durable
 * last? *@tensors: where they are; referenced, or NULL.
 */
bool checkpoint_by_handle(struct checkpoint *cp, const struct inode_id *id,
			  struct tensor_map **tensors);

/* All of it; nobody else uses it. */
void checkpoint_forget_filed(struct checkpoint *cp);

#endif
