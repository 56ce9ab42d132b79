/* SPDX-License-Identifier: MIT */
/*
 * The inodes that the kernel knows, and the files that it has open.
 *
 * A node is an inode of the backing, recognised by device, inode number and time of birth. A lookup
 * pins it with an O_PATH descriptor, so that the node means the same inode whatever happens to its
 * name: a reader that races with a rename gets the old file or the new one, never ESTALE. Pins are
 * bounded (pin_budget): the node least recently looked up loses its pin. It is found again by the
 * name under which it was last seen; if that name means something else by then, the call gets
 * ESTALE and the kernel looks the path up again.
 *
 * Node ids are indices with a generation, so that an id from the past is recognised and never taken
 * for another node. A handle is one open of a node.
 *
 * One mutex guards the tables; it is never held across a system call on the backing.
 */
#ifndef FS_TREE_H
#define FS_TREE_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "engine/base/list.h"
#include "engine/base/lock.h"
#include "engine/base/wait.h"
#include "engine/content/content.h"
#include "engine/names/names.h"
#include "fs/slots.h"

struct content;
struct engine;
struct generation;

#define NODE_ROOT 1 /* FUSE_ROOT_ID */

/*
 * How an inode is open. The first open decides, until the last RELEASE, because Linux refuses (EIO)
 * or confuses mixtures:
 *   IO_PASSTHROUGH  readers go straight to the backing; writers reach the daemon, which writes to
 *                   the same page cache of the backing, so both see the same bytes
 *   IO_CACHED       all opens go through the page cache of the mount
 *   IO_DIRECT       all opens reach the daemon
 */
enum io_mode { IO_NONE, IO_PASSTHROUGH, IO_CACHED, IO_DIRECT };

struct node {
	uint64_t id;	   /* const */
	dev_t dev;	   /* const; its identity, with ino and btime_ns */
	uint64_t ino;	   /* const */
	uint64_t btime_ns; /* const; 0: the backing does not tell */
	mode_t type;	   /* const; S_IFMT bits */
	/* tree lock: the rest */
	struct node *parent; /* where it was last seen, referenced; NULL: root, or unknown */
	char *name;
	uint64_t nlookup; /* the kernel's references */
	unsigned refs;	  /* the daemon's: calls in progress, children, handles */
	int pin;	  /* O_PATH descriptor; -1: none */
	unsigned pin_users;
	struct list lru; /* nodes with a pin, most recently looked up first */
	struct node *next_in_hash;
	struct list handles;
	enum io_mode io_mode;
	unsigned nr_opens; /* in this io_mode */
	int backing_id;	   /* IO_PASSTHROUGH: the kernel's number of the backing file */
	uint64_t seen_mtime_ns, seen_ctime_ns, seen_size; /* at the last cached open */
	atomic_uint_fast64_t no_commit_file_until_ns;	  /* has_commit_file.h */
	atomic_uint no_commit_file_as_of;
	atomic_uint late;      /* late_call.h: calls that were answered before they ended */
	atomic_int late_error; /* late_call.h: -errno of one that no program was told */
};

struct handle {
	uint64_t id;	   /* const; by which the kernel knows it */
	struct list link;  /* tree lock; on node->handles */
	struct node *node; /* const; holds a reference */
	int fd;		   /* const */
	int flags;	   /* const; as opened */
	atomic_uint refs;
	atomic_bool written; /* since the last write back */
	struct content
		*content; /* referenced; set before the open is answered or, once, by a write */
	struct generation *generation; /* const after open; of a unit's file opened for writing */
	/* directories: their entries; dir_lock, one reader at a time */
	struct lock dir_lock;
	char *dents;
	size_t dents_len, dents_pos;
	off_t next_off;
	struct names_listed
		listed; /* names that are not on the backing yet, as of the last rewind */
};

struct tree;

/* @engine must outlive it. NULL: no memory. */
struct tree *tree_create(struct engine *engine, unsigned pin_budget);
void tree_destroy(struct tree *t);

/* The node with this id, referenced. NULL: forgotten; the kernel never asks for such a node. */
struct node *node_get(struct tree *t, uint64_t id);
void node_put(struct tree *t, struct node *n);

/*
 * Finds or makes the node of @name in @dir, for thread @pid, and pins it. Adds one to its lookup
 * count; returns it referenced, with its attributes, or the backing's -errno. @b says who acts,
 * here and below. engine/names/names.h says what a name shows. Before this call fs_look_up lets
 * this node join the saves of other nodes.
 */
int tree_lookup(struct tree *t, struct backing *b, struct node *dir, const char *name, pid_t pid,
		struct node **out, struct statx *stx);

/* As tree_lookup, for the inode of @given, whatever has that name on the backing. */
int tree_lookup_fd(struct tree *t, struct backing *b, struct node *dir, const char *name, int given,
		   struct node **out, struct statx *stx);

/*
 * The node of a file that was just opened as @fd under @name. @fresh: that open created it, so any
 * node that looks the same is of an inode that is gone. Lookup count and reference as in
 * tree_lookup.
 */
int tree_adopt(struct tree *t, struct backing *b, struct node *dir, const char *name, int fd,
	       bool fresh, struct node **out, struct statx *stx);

/* The kernel dropped @count lookups. */
void tree_forget(struct tree *t, uint64_t id, uint64_t count);

/* After a rename: what is at @name in @dir now was elsewhere before. */
void tree_moved(struct tree *t, struct backing *b, struct node *dir, const char *name);

/* As tree_moved, for inode @id. */
void tree_placed(struct tree *t, const struct inode_id *id, struct node *dir, const char *name);

/* Where @n was last seen: its directory, referenced, and a copy of its name. False: nowhere. */
bool tree_place(struct tree *t, struct node *n, struct node **dir, char name[NAME_MAX + 1]);

/*
 * The checkpoint that contains @n, or whose top @n is, referenced; NULL: none. @rel: the path of @n
 * in it, followed by "/@name" if @name is not NULL.
 */
struct checkpoint *tree_checkpoint(struct tree *t, struct node *n, const char *name, char *rel,
				   size_t size);

static inline struct inode_id node_inode(const struct node *n)
{
	return (struct inode_id){.dev = n->dev, .ino = n->ino, .btime_ns = n->btime_ns};
}

/*
 * A descriptor of the node for *at calls and /proc/self/fd: its pin, or that of an open handle, or
 * a new pin found by name (as @b says). The caller gives it back with tree_fd_put.
 */
struct node_fd {
	struct node *node;
	struct handle *handle;
	struct content *content;
	struct checkpoint *checkpoint;
	bool own; /* @fd is for this use alone */
	int fd;
};
int tree_fd(struct tree *t, struct backing *b, struct node *n, struct node_fd *out);
void tree_fd_put(struct tree *t, struct node_fd *nf);

/* True if another inode has the name under which @n was last seen. */
bool tree_replaced(struct tree *t, struct backing *b, struct node *n);

/*
 * The path of node @id below the mount point, followed by "/@name" if that is given. False: it has
 * none any more. tree_path: the same for people.
 */
bool tree_true_path(struct tree *t, uint64_t id, const char *name, char *buf, size_t size);
void tree_path(struct tree *t, uint64_t id, const char *name, char *buf, size_t size);

/* True if the kernel knows that inode, or a call uses it. For units_set_knower. */
bool tree_knows(void *tree, const struct inode_id *id);

/* Makes a handle of @fd, which it takes over, also on failure. NULL: no memory. */
struct handle *handle_create(struct tree *t, struct node *n, int fd, int flags);
/*
 * The handle with this id, referenced. NULL: it was released; the kernel does that to the handle of
 * a request that was answered in its server's place, perhaps before the server came to it.
 */
struct handle *handle_get(struct tree *t, uint64_t id);
/* Drops a reference. The last one closes; *close_err is what the backing said then, else 0. */
void handle_put(struct tree *t, struct handle *h, int *close_err);

/* The lock that "tree lock" means above. */
struct lock *tree_lock(struct tree *t);

/* Wakes when a late call has ended. For late_call.c. */
struct waitq *tree_late(struct tree *t);

#endif
