/* SPDX-License-Identifier: MIT */
/*
 * Paths of nodes, by the names under which they were last seen: below the mount point, and below
 * the checkpoint that contains a node. Takes the lock of the tree. Does not check that the names
 * still exist.
 */
#include <stdio.h>
#include <string.h>

#include "engine/base/lock.h"
#include "engine/content/content.h"
#include "engine/engine.h"
#include "engine/names/names.h"
#include "engine/save/checkpoint.h"
#include "fs/tree_inside.h"

bool tree_prepend(char *buf, size_t *at, const char *name)
{
	size_t len = strlen(name);

	if (*at < len + 1)
		return false;
	*at -= len + 1;
	buf[*at] = '/';
	memcpy(buf + *at + 1, name, len);
	return true;
}

struct checkpoint *tree_checkpoint(struct tree *t, struct node *n, const char *name, char *rel,
				   size_t size)
{
	struct checkpoint *cp = NULL;
	size_t at = size - 1;

	rel[0] = rel[at] = '\0';
	if (!t->engine->units || (name && !tree_prepend(rel, &at, name)))
		return NULL;
	LOCK_SCOPE(&t->lock);
	while (n && n->id != NODE_ROOT) {
		struct inode_id id = node_inode(n);

		cp = checkpoints_find_inode(t->engine->units, &id);
		if (!cp && n->parent && n->name && checkpoints_replaced(t->engine->units, &id)) {
			id = node_inode(n->parent);
			cp = names_checkpoint(t->engine->units, &id, n->name);
		}
		if (cp || !n->name || !tree_prepend(rel, &at, n->name))
			break;
		n = n->parent;
	}
	at += rel[at] == '/';
	memmove(rel, rel + at, size - at);
	return cp;
}

/* --- paths for people --- */

bool tree_true_path(struct tree *t, uint64_t id, const char *name, char *buf, size_t size)
{
	size_t at = size - 1, start;
	bool whole;
	LOCK_SCOPE(&t->lock);
	struct node *n = tree_find_id_locked(t, id);

	buf[at] = '\0';
	if (name && !tree_prepend(buf, &at, name))
		n = NULL;
	while (n && n->id != NODE_ROOT && tree_prepend(buf, &at, n->name ? n->name : "?"))
		n = n->parent;
	whole = n && n->id == NODE_ROOT;
	start = buf[at] == '/' ? at + 1 : at;
	memmove(buf, buf + start, size - start);
	if (!*buf)
		snprintf(buf, size, ".");
	return whole;
}

void tree_path(struct tree *t, uint64_t id, const char *name, char *buf, size_t size)
{
	tree_true_path(t, id, name, buf, size);
	/* Paths end up on terminals. */
	for (; *buf; buf++)
		if ((unsigned char)*buf < ' ' || *buf == 0x7f)
			*buf = '?';
}

bool tree_knows(void *tree, const struct inode_id *id)
{
	struct tree *t = tree;
	LOCK_SCOPE(&t->lock);

	return tree_find_inode_locked(t, id);
}
