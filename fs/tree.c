/* SPDX-License-Identifier: MIT */
#include "fs/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
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

struct lock *tree_lock(struct tree *t)
{
	return &t->lock;
}

struct waitq *tree_late(struct tree *t)
{
	return &t->late;
}

/*
 * Ends a lookup or a create: the node that @stx describes, new or known, gets @pin_fd (taken over;
 * -1: it has one, or an open handle serves), its place, a lookup and a reference. 0 or -ENOMEM.
 */
static int enter(struct tree *t, struct node *dir, const char *name, const struct statx *stx,
		 int pin_fd, bool fresh, struct node **out)
{
	struct closing c = {.nr = 0};
	struct node *n;
	{
		LOCK_SCOPE(&t->lock);
		n = tree_find_identity_locked(t, stx);
		if (n && fresh) {
			tree_hash_remove_locked(t,
						n); /* the same number, but an inode of the past */
			n = NULL;
		}
		if (!n)
			n = tree_node_new_locked(t, stx);
		if (n) {
			n->refs++;
			n->nlookup++;
			tree_pin_locked(t, n, pin_fd, &c);
			tree_set_place_locked(t, n, dir, name, &c);
		} else if (pin_fd >= 0) {
			c.fds[c.nr++] = pin_fd;
		}
	}
	tree_close_all(t, &c);
	*out = n;
	return n ? 0 : -ENOMEM;
}

/* As enter, for a known node with a pin, which needs no descriptor. False: there is none. */
static bool enter_known(struct tree *t, struct node *dir, const char *name, const struct statx *stx,
			struct node **out)
{
	struct closing c = {.nr = 0};
	struct node *n;
	{
		LOCK_SCOPE(&t->lock);
		n = tree_find_identity_locked(t, stx);
		if (!n || n->pin < 0)
			return false;
		n->refs++;
		n->nlookup++;
		tree_pin_locked(t, n, -1, &c);
		tree_set_place_locked(t, n, dir, name, &c);
	}
	tree_close_all(t, &c);
	*out = n;
	return true;
}

int tree_lookup_fd(struct tree *t, struct backing *b, struct node *dir, const char *name, int given,
		   struct node **out, struct statx *stx)
{
	int fd, err = backing_stat(b, given, stx);

	if (err || enter_known(t, dir, name, stx, out))
		return err;
	fd = backing_reopen(b, given, O_PATH);
	return fd < 0 ? fd : enter(t, dir, name, stx, fd, false, out);
}

/* Ends a lookup of @at in @dir, which shows @s. */
static int enter_shown(struct tree *t, struct backing *b, struct node *dir, const struct place *at,
		       struct name_shown *s, struct node **out, struct statx *stx)
{
	int fd, err;

	if (s->as == SHOWN_FILE || s->as == SHOWN_CHECKPOINT) {
		fd = s->file ? generation_content(s->file)->fd : checkpoint_fd(s->checkpoint);
		return fd < 0 ? fd : tree_lookup_fd(t, b, dir, at->name, fd, out, stx);
	}
	*stx = s->stx;
	if (s->as == SHOWN_ON_BACKING && enter_known(t, dir, at->name, stx, out))
		return 0;
	if (s->as == SHOWN_ON_BACKING)
		s->pin = backing_pin(b, at->dir, at->name);
	else if (s->as != SHOWN_POINTER)
		return -ENOENT;
	err = s->pin < 0 ? s->pin : backing_stat(b, s->pin, stx);
	return err ? err : enter(t, dir, at->name, stx, take_fd(&s->pin), false, out);
}

int tree_lookup(struct tree *t, struct backing *b, struct node *dir, const char *name, pid_t pid,
		struct node **out, struct statx *stx)
{
	struct node_fd nf;
	struct name_shown s;
	int lost = tree_fd(t, b, dir, &nf); /* a save in @dir needs no descriptor of it */
	struct place at = {lost ? lost : nf.fd, node_inode(dir), name};
	int err = names_look(t->engine->units, b, &at, pid, &s);

	if (!err)
		err = enter_shown(t, b, dir, &at, &s, out, stx);
	names_put(&s);
	if (!lost)
		tree_fd_put(t, &nf);
	return err;
}

int tree_adopt(struct tree *t, struct backing *b, struct node *dir, const char *name, int fd,
	       bool fresh, struct node **out, struct statx *stx)
{
	int err = backing_stat(b, fd, stx);

	return err ? err : enter(t, dir, name, stx, -1, fresh, out);
}

void tree_moved(struct tree *t, struct backing *b, struct node *dir, const char *name)
{
	struct closing c = {.nr = 0};
	struct node_fd at;
	struct statx stx;
	int err = tree_fd(t, b, dir, &at);

	if (err)
		return;
	err = backing_stat_at(b, at.fd, name, &stx);
	tree_fd_put(t, &at);
	if (err)
		return;
	{
		LOCK_SCOPE(&t->lock);
		struct node *n = tree_find_identity_locked(t, &stx);

		if (n)
			tree_set_place_locked(t, n, dir, name, &c);
	}
	tree_close_all(t, &c);
}

void tree_placed(struct tree *t, const struct inode_id *id, struct node *dir, const char *name)
{
	struct closing c = {.nr = 0};
	{
		LOCK_SCOPE(&t->lock);
		struct node *n = tree_find_inode_locked(t, id);

		if (n)
			tree_set_place_locked(t, n, dir, name, &c);
	}
	tree_close_all(t, &c);
}

static bool make_root(struct tree *t)
{
	struct statx stx;
	struct node *root;

	if (backing_stat(&t->engine->backing, t->engine->backing.root_fd, &stx))
		return false;
	root = tree_node_new_locked(t, &stx);
	if (!root)
		return false;
	t->root_number = root->id;
	root->id = NODE_ROOT;
	t->root = root;
	root->nlookup = 1;
	root->pin = t->engine->backing.root_fd; /* on no list: never evicted, never closed here */
	return true;
}

struct tree *tree_create(struct engine *engine, unsigned pin_budget)
{
	struct tree *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->engine = engine;
	t->pin_budget = pin_budget;
	slots_init(&t->nodes);
	slots_init(&t->handles);
	t->nr_buckets = 1024;
	t->hash = calloc(t->nr_buckets, sizeof(*t->hash));
	lock_init(&t->lock, LOCK_TREE);
	waitq_init(&t->late, &t->lock);
	list_init(&t->lru_files);
	list_init(&t->lru_dirs);
	if (!t->hash || !make_root(t)) {
		tree_destroy(t);
		return NULL;
	}
	return t;
}

void tree_destroy(struct tree *t)
{
	uint32_t i;

	if (!t)
		return;
	for (i = 0; i < t->nodes.nr; i++) {
		struct node *n = t->nodes.v[i].what;

		if (!n)
			continue;
		if (n->pin >= 0 && n->id != NODE_ROOT)
			close(n->pin);
		while (!list_empty(&n->handles)) {
			struct handle *h = container_of(n->handles.next, struct handle, link);

			list_del(&h->link);
			content_put(h->content);
			generation_put(h->generation);
			close(h->fd);
			free(h->dents);
			names_list_end(&h->listed);
			free(h);
		}
		free(n->name);
		free(n);
	}
	slots_finish(&t->nodes);
	slots_finish(&t->handles);
	free(t->hash);
	lock_finish(&t->lock);
	free(t);
}
