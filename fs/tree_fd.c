/* SPDX-License-Identifier: MIT */
/*
 * Descriptors of nodes: a pin, an open handle, the directory of a checkpoint, or a new pin, found
 * one step at a time by the names under which the node and the directories above it were last seen.
 * The lock of the tree is held across no call on the backing. Looks for no name that the kernel has
 * not looked up before.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/base/list.h"
#include "engine/base/lock.h"
#include "engine/content/content.h"
#include "engine/engine.h"
#include "engine/names/names.h"
#include "engine/save/checkpoint.h"
#include "fs/tree_inside.h"

static bool fd_at_hand_locked(struct node *n, struct node_fd *out)
{
	*out = (struct node_fd){.node = n, .fd = n->pin};
	if (n->pin >= 0) {
		n->pin_users++;
		n->refs++;
		return true;
	}
	if (!list_empty(&n->handles)) {
		out->handle = container_of(n->handles.next, struct handle, link);
		atomic_fetch_add(&out->handle->refs, 1);
		out->fd = out->handle->fd;
		return true;
	}
	return false;
}

/* A descriptor of what is not published yet, and has no name of its own. False: @n is published. */
static bool fd_of_unpublished(struct tree *t, struct node *n, struct node_fd *out)
{
	struct inode_id id = node_inode(n);
	struct checkpoint *cp = NULL;
	struct content *ct = NULL;

	if (S_ISREG(n->type) && t->engine->contents)
		ct = content_find(t->engine->contents, &id);
	else if (S_ISDIR(n->type) && t->engine->units)
		cp = checkpoints_find_inode(t->engine->units, &id);
	if (!ct && !cp)
		return false;
	*out = (struct node_fd){.node = n,
				.content = ct,
				.checkpoint = cp,
				.fd = ct ? content_fd(ct) : checkpoint_fd(cp)};
	if (out->fd < 0) { /* it has failed, and its directory is gone */
		checkpoint_put(cp);
		return false;
	}
	LOCK_SCOPE(&t->lock);
	n->refs++;
	return true;
}

/*
 * The directory at or above @n that a checkpoint has replaced under its name, referenced, or NULL.
 * @rel: the path from there to @n.
 */
static struct node *replaced_above(struct tree *t, struct node *n, char rel[PATH_MAX])
{
	size_t at = PATH_MAX - 1;
	LOCK_SCOPE(&t->lock);

	rel[at] = '\0';
	for (; n && n->id != NODE_ROOT && n->parent && n->name; n = n->parent) {
		struct inode_id id = node_inode(n);

		if (checkpoints_replaced(t->engine->units, &id)) {
			at += rel[at] == '/';
			memmove(rel, rel + at, PATH_MAX - at);
			n->refs++;
			return n;
		}
		if (!tree_prepend(rel, &at, n->name))
			break;
	}
	return NULL;
}

/* A descriptor of what has the name of @n now. @out: without a node. */
static int fd_by_name(struct tree *t, struct backing *b, struct node *n, struct node_fd *out)
{
	struct checkpoint *cp;
	char name[NAME_MAX + 1];
	struct inode_id id;
	struct node *dir;
	struct node_fd at;
	int err;

	if (!tree_place(t, n, &dir, name))
		return -ESTALE;
	id = node_inode(dir);
	cp = names_checkpoint(t->engine->units, &id, name);
	*out = (struct node_fd){.checkpoint = cp, .fd = cp ? checkpoint_fd(cp) : -1, .own = !cp};
	err = !cp ? tree_fd(t, b, dir, &at) : out->fd < 0 ? out->fd : 0;
	if (!cp && !err) {
		out->fd = backing_pin(b, at.fd, name);
		err = out->fd < 0 ? out->fd : 0;
		tree_fd_put(t, &at);
	}
	node_put(t, dir);
	return err;
}

/* @n, or a directory above it, was replaced: a descriptor of what is at its path now. */
static int fd_of_successor(struct tree *t, struct backing *b, struct node *n, struct node *replaced,
			   const char *rel, struct node_fd *out)
{
	int err = fd_by_name(t, b, replaced, out);

	while (!err && *rel) {
		size_t len = strcspn(rel, "/");
		char name[NAME_MAX + 1];
		int fd;

		snprintf(name, sizeof(name), "%.*s", (int)len, rel);
		fd = backing_pin(b, out->fd, name);
		if (out->own)
			close(out->fd);
		checkpoint_put(out->checkpoint);
		*out = (struct node_fd){.fd = fd, .own = true};
		err = fd < 0 ? fd : 0;
		rel += len + (rel[len] == '/');
	}
	if (!err) {
		LOCK_SCOPE(&t->lock);
		out->node = n;
		n->refs++;
	}
	return err == -ENOENT || err == -ENOTDIR ? -ESTALE : err;
}

/* A pin of the directory @n, if it is a checkpoint's in staging, where no name finds it. */
static int pin_staged(struct tree *t, struct backing *b, struct node *n)
{
	struct inode_id id = node_inode(n);
	struct checkpoint *cp = S_ISDIR(n->type) && t->engine->units
					? checkpoints_find_inode(t->engine->units, &id)
					: NULL;
	int fd = cp ? checkpoint_fd(cp) : -ENOENT;

	if (fd >= 0)
		fd = backing_reopen(b, fd, O_PATH | O_DIRECTORY);

	checkpoint_put(cp);
	return fd;
}

/* Finds @n again as @name in the directory @at; @out: its new pin. -ESTALE: not there. */
static int pin_by_name(struct tree *t, struct backing *b, struct node *n, int at, const char *name,
		       struct node_fd *out)
{
	struct closing c = {.nr = 0};
	struct statx stx;
	int err, fd = pin_staged(t, b, n);

	if (fd < 0)
		fd = backing_pin(b, at, name);
	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR ? -ESTALE : fd;
	err = backing_stat(b, fd, &stx);
	if (!err && !node_is_same(n, &stx))
		err = -ESTALE;
	if (err) {
		close(fd);
		return err;
	}
	{
		LOCK_SCOPE(&t->lock);
		n->pin_users++;
		n->refs++;
		tree_pin_locked(t, n, fd, &c);
		*out = (struct node_fd){.node = n, .fd = n->pin};
	}
	tree_close_all(t, &c);
	return 0;
}

/*
 * The topmost of @n and the directories above it that has no descriptor, but whose parent has one,
 * in @at. NULL: its place is unknown, or seems to be inside itself.
 */
static struct node *topmost_lost_locked(struct tree *t, struct node *n, struct node_fd *at)
{
	uint32_t steps;

	for (steps = 0; n->name && n->parent && steps <= t->nr_nodes; steps++) {
		if (fd_at_hand_locked(n->parent, at))
			return n;
		n = n->parent;
	}
	return NULL;
}

/* Finds a file below a directory that was replaced in the directory that has replaced it. */
static int fd_in_successor(struct tree *t, struct backing *b, struct node *n, struct node_fd *out)
{
	char name[NAME_MAX + 1];
	struct node *dir;
	struct node_fd at;
	int err;

	if (!tree_place(t, n, &dir, name))
		return -ESTALE;
	err = tree_fd(t, b, dir, &at);
	if (!err) {
		err = pin_by_name(t, b, n, at.fd, name, out);
		tree_fd_put(t, &at);
	}
	node_put(t, dir);
	return err;
}

/* One step at a time from the first ancestor that has a descriptor; each is held until the next. */
int tree_fd(struct tree *t, struct backing *b, struct node *n, struct node_fd *out)
{
	struct node_fd held = {.node = NULL}, at, next;
	char rel[PATH_MAX];
	struct node *replaced;
	bool is_below;
	int err = 0;

	replaced = t->engine->units && checkpoints_any_replaced(t->engine->units)
			   ? replaced_above(t, n, rel)
			   : NULL;
	if (replaced && S_ISDIR(n->type)) {
		err = fd_of_successor(t, b, n, replaced, rel, out);
		node_put(t, replaced);
		return err;
	}
	is_below = replaced;
	node_put(t, replaced);
	while (!err) {
		__cleanup_free char *name = NULL;
		struct node *lost;
		{
			LOCK_SCOPE(&t->lock);
			if (fd_at_hand_locked(n, out))
				break;
		}
		if (fd_of_unpublished(t, n, out))
			break;
		if (is_below) {
			err = fd_in_successor(t, b, n, out);
			break;
		}
		{
			LOCK_SCOPE(&t->lock);
			if (fd_at_hand_locked(n, out))
				break;
			lost = topmost_lost_locked(t, n, &at);
			name = lost ? strdup(lost->name) : NULL;
			if (lost)
				lost->refs++;
		}
		if (!lost) {
			err = -ESTALE;
			break;
		}
		err = name ? pin_by_name(t, b, lost, at.fd, name, &next) : -ENOMEM;
		tree_fd_put(t, &at);
		node_put(t, lost);
		if (!err) {
			if (held.node)
				tree_fd_put(t, &held);
			held = next;
		}
	}
	if (held.node)
		tree_fd_put(t, &held);
	return err;
}

void tree_fd_put(struct tree *t, struct node_fd *nf)
{
	if (nf->content || nf->checkpoint || nf->own) {
		if (nf->own)
			close(nf->fd);
		content_put(nf->content);
		checkpoint_put(nf->checkpoint);
		node_put(t, nf->node);
		return;
	}
	if (nf->handle) {
		int ignored;

		handle_put(t, nf->handle, &ignored);
		return;
	}
	{
		LOCK_SCOPE(&t->lock);
		nf->node->pin_users--;
	}
	node_put(t, nf->node);
}

bool tree_replaced(struct tree *t, struct backing *b, struct node *n)
{
	__cleanup_free char *name = NULL;
	struct node *dir;
	struct node_fd at;
	struct statx stx;
	int err;
	{
		LOCK_SCOPE(&t->lock);
		name = n->name ? strdup(n->name) : NULL;
		dir = n->parent;
		if (!name || !dir)
			return false;
		dir->refs++;
	}
	err = tree_fd(t, b, dir, &at);
	if (!err) {
		err = backing_stat_at(b, at.fd, name, &stx);
		tree_fd_put(t, &at);
	}
	node_put(t, dir);
	return !err && !node_is_same(n, &stx);
}
