/* SPDX-License-Identifier: MIT */
/*
 * What the files of tree.h share. tree.c: lookups, and the tree as a whole. tree_node.c: nodes,
 * their identity, pins and end. tree_fd.c: descriptors of nodes. tree_path.c: paths. tree_handle.c:
 * open files. The caller of a function ..._locked holds the lock of the tree.
 */
#ifndef FS_TREE_INSIDE_H
#define FS_TREE_INSIDE_H

#include "engine/base/list.h"
#include "engine/base/lock.h"
#include "engine/base/wait.h"
#include "fs/slots.h"
#include "fs/tree.h"

#define MAX_CLOSING 64

struct tree {
	struct engine *engine;
	struct node *root;    /* const; NODE_ROOT to the kernel */
	uint64_t root_number; /* const; of its slot */
	unsigned pin_budget;
	struct lock lock;
	struct waitq late;
	struct slots nodes, handles;
	struct node **hash; /* by identity; nr_buckets is a power of two */
	uint32_t nr_buckets, nr_nodes;
	struct list lru_files, lru_dirs;
	unsigned nr_pins;
};

/* --- descriptors to close, gathered under the lock and closed after it --- */

struct closing {
	int fds[MAX_CLOSING];
	unsigned nr;
	struct node *rest; /* referenced: a parent for which there was no room */
};

/* Closes what @c has gathered. The caller does not hold the lock of the tree. tree_node.c */
void tree_close_all(struct tree *t, struct closing *c);

/* The node; NULL: the kernel has forgotten it. */
struct node *tree_find_id_locked(struct tree *t, uint64_t id);
/* The node of the inode that @stx describes; NULL: none. */
struct node *tree_find_identity_locked(struct tree *t, const struct statx *stx);
struct node *tree_find_inode_locked(struct tree *t, const struct inode_id *id);
/* True if @stx describes the inode of @n. */
bool node_is_same(const struct node *n, const struct statx *stx);
/* From here on only its id finds @n. Harmless for a node that was taken out already. */
void tree_hash_remove_locked(struct tree *t, struct node *n);

/* A node without references and without a pin. NULL: no memory. */
struct node *tree_node_new_locked(struct tree *t, const struct statx *stx);
/* Frees @n, and its parents, as far as they have no reference left. */
void tree_drop_unused_locked(struct tree *t, struct node *n, struct closing *c);
/*
 * Gives @n the pin @fd, or leaves @fd to be closed if @n has one. @fd -1: only marks the pin as
 * used now.
 */
void tree_pin_locked(struct tree *t, struct node *n, int fd, struct closing *c);
/* Remembers the place of @n. */
void tree_set_place_locked(struct tree *t, struct node *n, struct node *dir, const char *name,
			   struct closing *c);

/* Puts "/@name" before buf + *at. False: @buf is full. tree_path.c */
bool tree_prepend(char *buf, size_t *at, const char *name);

#endif
