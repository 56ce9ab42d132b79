/* SPDX-License-Identifier: MIT */
/*
 * What is known of the durable files of a checkpoint: an entry for each time that a file became
 * durable, found by its inode. With many nodes there may be 10^5. Entries are not removed before
 * the checkpoint is forgotten; one that finds no memory is left out, and its file is read again.
 */
#ifndef ENGINE_UNIT_FILED_H
#define ENGINE_UNIT_FILED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/table.h"
#include "engine/content/content.h"

struct checkpoint;

/* Holds as long as the file has this size and time. */
struct filed {
	struct inode_id id;
	uint64_t size, mtime_ns;
	uint32_t order; /* the last entry of an inode counts */
	int rank;	/* of the writer; -1: unknown */
	bool by_handle; /* tensors were written to it by handle */
	char xxh3[DIGEST_HEX];
	/* label of the node that wrote it, which the checkpoint owns; NULL: this one */
	const char *node;
	struct tensor_map *tensors; /* referenced, or NULL */
};

/* Guarded by the units' lock. */
struct filed_files {
	struct filed *list; /* in order of arrival */
	size_t nr, room;
	/* by inode: 1 + the index of its last entry, or 0; twice as many as there is room for */
	uint32_t *last;
	struct table labels;
};

/*
 * Lock not held. Adds @f: takes over its reference to tensors, and copies the label. The second
 * copies all entries; the references in *@out are the caller's.
 */
void checkpoint_add_filed(struct checkpoint *cp, const struct filed *f);
int checkpoint_take_filed(struct checkpoint *cp, struct filed **out, size_t *nr);
void filed_free(struct filed *f, size_t nr);

/* The last entry of the inode @id, or NULL. */
const struct filed *checkpoint_filed_locked(const struct checkpoint *cp, const struct inode_id *id);

/*
 * Lock not held. True if tensors were written by handle to the file @id when it last became
 * durable. *@tensors: where they are; referenced, or NULL.
 */
bool checkpoint_by_handle(struct checkpoint *cp, const struct inode_id *id,
			  struct tensor_map **tensors);

/* Forgets all entries; no other thread uses them. */
void checkpoint_forget_filed(struct checkpoint *cp);

#endif
