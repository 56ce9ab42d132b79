/* SPDX-License-Identifier: MIT */
/*
 * What is known of the durable files of a checkpoint: an entry for each time that a file became
 * durable, found by its inode. With many nodes there may be 10^5. Entries are not removed before
 * the checkpoint is forgotten; one that finds no memory is left out, and its file is read again.
 *
 * The owner of a struct filed_files guards it.
 */
#ifndef ENGINE_CONTENT_FILED_H
#define ENGINE_CONTENT_FILED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/backing/inode.h"
#include "engine/base/table.h"
#include "engine/content/digest.h"
#include "engine/content/tensors.h"

/* Holds as long as the file has this size and time. */
struct filed {
	struct inode_id id;
	uint64_t size, mtime_ns;
	uint32_t order; /* the last entry of an inode counts */
	int rank;	/* of the writer; -1: unknown */
	bool by_handle; /* tensors were written to it by handle */
	char xxh3[DIGEST_HEX];
	/* label of the node that wrote it, which the struct filed_files owns; NULL: this one */
	const char *node;
	struct tensor_map *tensors; /* referenced, or NULL */
};

/* All zeros: no entries. */
struct filed_files {
	struct filed *list; /* in order of arrival */
	size_t nr, room;
	/* by inode: 1 + the index of its last entry, or 0; twice as many as there is room for */
	uint32_t *last;
	struct table labels;
};

/* Adds @f: takes over its reference to tensors, and copies the label. */
void filed_add(struct filed_files *files, const struct filed *f);

/* The last entry of the inode @id, or NULL. */
const struct filed *filed_find(const struct filed_files *files, const struct inode_id *id);

/* Copies all entries, for filed_free; the references in *@out are the caller's. 0 or -ENOMEM. */
int filed_copy(const struct filed_files *files, struct filed **out, size_t *nr);
void filed_free(struct filed *f, size_t nr);

/* Forgets all entries; no other thread uses them. */
void filed_finish(struct filed_files *files);

#endif
