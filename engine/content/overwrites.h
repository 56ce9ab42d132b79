/* SPDX-License-Identifier: MIT */
/*
 * One path of a checkpoint that several nodes write: each writes a file of its own, and the last
 * one that was begun has the name. This module remembers which file took the name from which, so
 * that people are told if the other one had another content.
 *
 * The owner of a struct overwrites guards it.
 */
#ifndef ENGINE_CONTENT_OVERWRITES_H
#define ENGINE_CONTENT_OVERWRITES_H

#include <stddef.h>

#include "engine/backing/inode.h"

struct overwrite {
	struct inode_id own, old; /* @own has taken the name of @old, which is another node's */
};

/* All zeros: none. */
struct overwrites {
	struct overwrite *list;
	size_t nr, room;
};

/* Without memory it is not remembered. */
void overwrites_add(struct overwrites *all, const struct inode_id *own, const struct inode_id *old);

/* Copies what is remembered. 0 or -ENOMEM; then *@copy is empty. */
int overwrites_copy(const struct overwrites *all, struct overwrites *copy);

/* Sorts them; and finds, in sorted ones, the file from which @own took the name, or NULL. */
void overwrites_sort(struct overwrites *all);
const struct inode_id *overwrites_find(const struct overwrites *sorted, const struct inode_id *own);

void overwrites_finish(struct overwrites *all);

#endif
