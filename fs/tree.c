/* SPDX-License-Identifier: MIT */
#include "fs/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/wait.h"

#define MAX_CLOSING 64

struct tree {
	struct engine *engine;
	struct node *root;    /* const; NODE_ROOT to the kernel */
	uint64_t root_number; /* const; its slot's */
	unsigned pin_budget;
	struct lock lock;
	struct waitq late;
	struct slots nodes, handles;
	struct node **hash; /* by identity; a power of two of buckets */
	uint32_t nr_buckets, nr_nodes;
	struct list lru_files, lru_dirs;
	unsigned nr_pins;
};

struct lock *tree_lock(struct tree *t)
{
	return &t->lock;
}

struct waitq *tree_late(struct tree *t)
{
	return &t->late;
}

static struct node *find_id_locked(struct tree *t, uint64_t id)
{
	return id == NODE_ROOT ? t->root : slots_find(&t->nodes, id);
}

/* --- the hash by identity --- */

static uint32_t bucket_of(const struct tree *t, dev_t dev, uint64_t ino)
{
	uint64_t h = (ino ^ (uint64_t)dev << 40) * 0x9E3779B97F4A7C15ull;

	return (uint32_t)(h >> 32) & (t->nr_buckets - 1);
}

static void hash_insert(struct tree *t, struct node *n)
{
	struct node **b = &t->hash[bucket_of(t, n->dev, n->ino)];

	n->next_in_hash = *b;
	*b = n;
}

/* Harmless for a node that was taken out already. */
static void hash_remove(struct tree *t, struct node *n)
{
	struct node **p = &t->hash[bucket_of(t, n->dev, n->ino)];

	while (*p && *p != n)
		p = &(*p)->next_in_hash;
	if (*p)
		*p = n->next_in_hash;
}

static void grow_hash(struct tree *t)
{
	uint32_t old_nr = t->nr_buckets, i;
	struct node **old = t->hash, **new = calloc(old_nr * 2ul, sizeof(*new));

	if (!new)
		return; /* longer chains, nothing worse */
	t->hash = new;
	t->nr_buckets = old_nr * 2;
	for (i = 0; i < old_nr; i++) {
		while (old[i]) {
			struct node *n = old[i];

			old[i] = n->next_in_hash;
			hash_insert(t, n);
		}
	}
	free(old);
}

static uint64_t btime_of(const struct statx *stx)
{
	if (!(stx->stx_mask & STATX_BTIME))
		return 0;
	return (uint64_t)stx->stx_btime.tv_sec * NSEC_PER_SEC + stx->stx_btime.tv_nsec;
}

static struct node *find_identity_locked(struct tree *t, const struct statx *stx)
{
	dev_t dev = makedev(stx->stx_dev_major, stx->stx_dev_minor);
	struct node *n;

	for (n = t->hash[bucket_of(t, dev, stx->stx_ino)]; n; n = n->next_in_hash)
		if (n->ino == stx->stx_ino && n->dev == dev && n->btime_ns == btime_of(stx) &&
		    n->type == (stx->stx_mode & S_IFMT))
			return n;
	return NULL;
}

static struct node *find_inode_locked(struct tree *t, const struct inode_id *id)
{
	struct node *n = t->hash[bucket_of(t, id->dev, id->ino)];

	while (n && (n->ino != id->ino || n->dev != id->dev || n->btime_ns != id->btime_ns))
		n = n->next_in_hash;
	return n;
}

static bool is_same(const struct node *n, const struct statx *stx)
{
	return n->ino == stx->stx_ino && n->btime_ns == btime_of(stx) &&
	       n->dev == makedev(stx->stx_dev_major, stx->stx_dev_minor);
}

/* --- descriptors to close, gathered under the lock and closed after it --- */

struct closing {
	int fds[MAX_CLOSING];
	unsigned nr;
	struct node *rest; /* referenced: a parent that did not fit in any more */
};

static void drop_unused_locked(struct tree *t, struct node *n, struct closing *c);

static void close_all(struct tree *t, struct closing *c)
{
	for (;;) {
		struct node *n = take_ptr(c->rest);

		while (c->nr)
			close(c->fds[--c->nr]);
		if (!n)
			return;
		LOCK_SCOPE(&t->lock);
		n->refs--;
		drop_unused_locked(t, n, c);
	}
}

static void unpin_locked(struct tree *t, struct node *n, struct closing *c)
{
	if (n->pin < 0)
		return;
	c->fds[c->nr++] = n->pin;
	n->pin = -1;
	list_del(&n->lru);
	t->nr_pins--;
}

/* Takes one pin that nobody uses right now off the cold end of @lru. */
static bool evict_one_locked(struct tree *t, struct list *lru, struct closing *c)
{
	struct list *l;

	for (l = lru->prev; l != lru; l = l->prev) {
		struct node *n = container_of(l, struct node, lru);

		if (n->pin_users || !n->name)
			continue;
		unpin_locked(t, n, c);
		return true;
	}
	return false;
}

/* Gives @n the pin @fd, or leaves it to be closed if there is one already. */
static void pin_locked(struct tree *t, struct node *n, int fd, struct closing *c)
{
	struct list *lru = S_ISDIR(n->type) ? &t->lru_dirs : &t->lru_files;

	if (n->pin >= 0) {
		if (fd >= 0)
			c->fds[c->nr++] = fd;
		if (n->id == NODE_ROOT)
			return;
		list_del(&n->lru);
	} else if (fd >= 0) {
		n->pin = fd;
		t->nr_pins++;
	} else {
		return;
	}
	list_push(lru, &n->lru);
	/* Files first: a directory may be somebody's working directory. */
	while (t->nr_pins > t->pin_budget && c->nr < MAX_CLOSING - 1)
		if (!evict_one_locked(t, &t->lru_files, c) && !evict_one_locked(t, &t->lru_dirs, c))
			break;
	t->engine->metrics.pinned_fds = t->nr_pins;
}

/* --- nodes --- */

/* Frees @n, and its parents, if nobody refers to them any more. */
static void drop_unused_locked(struct tree *t, struct node *n, struct closing *c)
{
	while (n && !n->refs && !n->nlookup && n->id != NODE_ROOT) {
		struct node *parent = n->parent;

		hash_remove(t, n);
		unpin_locked(t, n, c);
		slots_give_back(&t->nodes, n->id);
		t->engine->metrics.nodes = --t->nr_nodes;
		free(n->name);
		free(n);
		n = parent;
		if (n && c->nr == MAX_CLOSING) {
			c->rest = n;
			return;
		}
		if (n)
			n->refs--;
	}
}

/* Remembers where @n is. */
static void set_place_locked(struct tree *t, struct node *n, struct node *dir, const char *name,
			     struct closing *c)
{
	struct node *old = n->parent;
	char *copy;

	if (n->id == NODE_ROOT || n == dir || (old == dir && n->name && !strcmp(n->name, name)))
		return;
	copy = strdup(name);
	if (!copy)
		return;
	free(n->name);
	n->name = copy;
	n->parent = dir;
	dir->refs++;
	if (old) {
		old->refs--;
		drop_unused_locked(t, old, c);
	}
}

static struct node *node_new(struct tree *t, const struct statx *stx)
{
	struct node *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->dev = makedev(stx->stx_dev_major, stx->stx_dev_minor);
	n->ino = stx->stx_ino;
	n->btime_ns = btime_of(stx);
	n->type = stx->stx_mode & S_IFMT;
	n->pin = -1;
	list_init(&n->lru);
	list_init(&n->handles);
	if (!slots_take(&t->nodes, n, &n->id)) {
		free(n);
		return NULL;
	}
	if (t->nr_nodes >= t->nr_buckets)
		grow_hash(t);
	hash_insert(t, n);
	t->engine->metrics.nodes = ++t->nr_nodes;
	return n;
}

struct node *node_get(struct tree *t, uint64_t id)
{
	LOCK_SCOPE(&t->lock);
	struct node *n = find_id_locked(t, id);

	if (n)
		n->refs++;
	return n;
}

void node_put(struct tree *t, struct node *n)
{
	struct closing c = {.nr = 0};

	if (!n)
		return;
	{
		LOCK_SCOPE(&t->lock);
		n->refs--;
		drop_unused_locked(t, n, &c);
	}
	close_all(t, &c);
}

void tree_forget(struct tree *t, uint64_t id, uint64_t count)
{
	struct closing c = {.nr = 0};
	{
		LOCK_SCOPE(&t->lock);
		struct node *n = find_id_locked(t, id);

		if (!n)
			return;
		n->nlookup -= count < n->nlookup ? count : n->nlookup;
		drop_unused_locked(t, n, &c);
	}
	close_all(t, &c);
}

/*
 * The common end of lookup and create: the node that @stx describes, new or known, gets @pin_fd
 * (taken over; -1: it has one, or an open handle serves), its place, a lookup and a reference.
 */
static int enter(struct tree *t, struct node *dir, const char *name, const struct statx *stx,
		 int pin_fd, bool fresh, struct node **out)
{
	struct closing c = {.nr = 0};
	struct node *n;
	{
		LOCK_SCOPE(&t->lock);
		n = find_identity_locked(t, stx);
		if (n && fresh) {
			hash_remove(t, n); /* the same number, but an inode of the past */
			n = NULL;
		}
		if (!n)
			n = node_new(t, stx);
		if (n) {
			n->refs++;
			n->nlookup++;
			pin_locked(t, n, pin_fd, &c);
			set_place_locked(t, n, dir, name, &c);
		} else if (pin_fd >= 0) {
			c.fds[c.nr++] = pin_fd;
		}
	}
	close_all(t, &c);
	*out = n;
	return n ? 0 : -ENOMEM;
}

/* A node that is known and pinned already needs no new descriptor. */
static bool enter_known(struct tree *t, struct node *dir, const char *name, const struct statx *stx,
			struct node **out)
{
	struct closing c = {.nr = 0};
	struct node *n;
	{
		LOCK_SCOPE(&t->lock);
		n = find_identity_locked(t, stx);
		if (!n || n->pin < 0)
			return false;
		n->refs++;
		n->nlookup++;
		pin_locked(t, n, -1, &c);
		set_place_locked(t, n, dir, name, &c);
	}
	close_all(t, &c);
	*out = n;
	return true;
}

int tree_lookup_fd(struct tree *t, struct node *dir, const char *name, int given, struct node **out,
		   struct statx *stx)
{
	struct backing *b = &t->engine->backing;
	int fd, err = backing_stat(b, given, stx);

	if (err || enter_known(t, dir, name, stx, out))
		return err;
	fd = backing_reopen(b, given, O_PATH);
	return fd < 0 ? fd : enter(t, dir, name, stx, fd, false, out);
}

/* What a name shows that it does not have on the backing. 0, -errno, or -ENODATA: nothing. */
static int lookup_unpublished(struct tree *t, struct node *dir, const char *name, pid_t pid,
			      struct node **out, struct statx *stx)
{
	struct units *us = t->engine->units;
	struct inode_id dir_id = node_inode(dir);
	struct generation *g = us ? units_find_for(us, &dir_id, name, pid) : NULL;
	struct checkpoint *cp = us && !g ? checkpoints_find(us, &dir_id, name) : NULL;
	int err = -ENODATA;

	if (g)
		err = tree_lookup_fd(t, dir, name, g->content->fd, out, stx);
	else if (cp)
		err = tree_lookup_fd(t, dir, name, cp->fd, out, stx);
	generation_put(g);
	checkpoint_put(cp);
	return err;
}

/* A pointer that waits for a commit, where nothing was applied before. */
static int lookup_held(struct tree *t, struct node *dir, const char *name, struct node **out,
		       struct statx *stx)
{
	struct inode_id dir_id = node_inode(dir);
	int pin = t->engine->units ? held_pin(t->engine->units, &dir_id, name) : -ENOENT, err;

	if (pin < 0)
		return -ENOENT;
	err = backing_stat(&t->engine->backing, pin, stx);
	if (!err)
		return enter(t, dir, name, stx, pin, false, out);
	close(pin);
	return err;
}

int tree_lookup(struct tree *t, struct node *dir, const char *name, pid_t pid, struct node **out,
		struct statx *stx)
{
	struct backing *b = &t->engine->backing;
	struct node_fd at;
	int fd, err = lookup_unpublished(t, dir, name, pid, out, stx);

	if (err != -ENODATA)
		return err;
	if (rules_reserved(name) && strcmp(name, COMMIT_FILE))
		return -ENOENT;
	if (t->engine->units) {
		struct inode_id id = node_inode(dir);

		if (removals_hide(t->engine->units, &id,
				  name)) /* but not what is to have its name */
			return lookup_held(t, dir, name, out, stx);
	}
	err = tree_fd(t, dir, &at);
	if (err)
		return err;
	err = backing_stat_at(b, at.fd, name, stx);
	if (err == -ENOENT)
		err = lookup_held(t, dir, name, out, stx);
	else if (!err && !enter_known(t, dir, name, stx, out)) {
		fd = backing_pin(b, at.fd, name);
		err = fd < 0 ? fd : backing_stat(b, fd, stx);
		if (!err)
			err = enter(t, dir, name, stx, take_fd(&fd), false, out);
		else if (fd >= 0)
			close(fd);
	}
	tree_fd_put(t, &at);
	return err;
}

int tree_adopt(struct tree *t, struct node *dir, const char *name, int fd, bool fresh,
	       struct node **out, struct statx *stx)
{
	int err = backing_stat(&t->engine->backing, fd, stx);

	return err ? err : enter(t, dir, name, stx, -1, fresh, out);
}

void tree_moved(struct tree *t, struct node *dir, const char *name)
{
	struct closing c = {.nr = 0};
	struct node_fd at;
	struct statx stx;
	int err = tree_fd(t, dir, &at);

	if (err)
		return;
	err = backing_stat_at(&t->engine->backing, at.fd, name, &stx);
	tree_fd_put(t, &at);
	if (err)
		return;
	{
		LOCK_SCOPE(&t->lock);
		struct node *n = find_identity_locked(t, &stx);

		if (n)
			set_place_locked(t, n, dir, name, &c);
	}
	close_all(t, &c);
}

void tree_placed(struct tree *t, const struct inode_id *id, struct node *dir, const char *name)
{
	struct closing c = {.nr = 0};
	{
		LOCK_SCOPE(&t->lock);
		struct node *n = find_inode_locked(t, id);

		if (n)
			set_place_locked(t, n, dir, name, &c);
	}
	close_all(t, &c);
}

bool tree_place(struct tree *t, struct node *n, struct node **dir, char name[NAME_MAX + 1])
{
	LOCK_SCOPE(&t->lock);
	if (!n->parent || !n->name)
		return false;
	snprintf(name, NAME_MAX + 1, "%s", n->name);
	*dir = n->parent;
	n->parent->refs++;
	return true;
}

static bool prepend(char *buf, size_t *at, const char *name)
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
	if (!t->engine->units || (name && !prepend(rel, &at, name)))
		return NULL;
	LOCK_SCOPE(&t->lock);
	while (n && n->id != NODE_ROOT) {
		struct inode_id id = node_inode(n);

		cp = checkpoints_find_inode(t->engine->units, &id);
		if (!cp && n->parent && n->name && checkpoints_replaced(t->engine->units, &id)) {
			id = node_inode(n->parent);
			cp = checkpoints_find(t->engine->units, &id, n->name);
		}
		if (cp || !n->name || !prepend(rel, &at, n->name))
			break;
		n = n->parent;
	}
	at += rel[at] == '/';
	memmove(rel, rel + at, size - at);
	return cp;
}

/* --- descriptors --- */

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

/* What is not published yet has no name of its own by which it could be found again. */
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
	*out = (struct node_fd){
		.node = n, .content = ct, .checkpoint = cp, .fd = ct ? ct->fd : checkpoint_fd(cp)};
	if (out->fd < 0) { /* it has failed, and is gone */
		checkpoint_put(cp);
		return false;
	}
	LOCK_SCOPE(&t->lock);
	n->refs++;
	return true;
}

/*
 * The directory at or above @n that was replaced under its name by a checkpoint, referenced, or NULL;
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
		if (!prepend(rel, &at, n->name))
			break;
	}
	return NULL;
}

/* What has the name of @n now. @out: without a node. */
static int fd_by_name(struct tree *t, struct node *n, struct node_fd *out)
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
	cp = checkpoints_find(t->engine->units, &id, name);
	*out = (struct node_fd){.checkpoint = cp, .fd = cp ? cp->fd : -1, .own = !cp};
	err = cp ? 0 : tree_fd(t, dir, &at);
	if (!cp && !err) {
		out->fd = backing_pin(&t->engine->backing, at.fd, name);
		err = out->fd < 0 ? out->fd : 0;
		tree_fd_put(t, &at);
	}
	node_put(t, dir);
	return err;
}

/* @n, or a directory that it is in, was replaced under its name: that of what is at its path now. */
static int fd_of_successor(struct tree *t, struct node *n, struct node *replaced, const char *rel,
			   struct node_fd *out)
{
	int err = fd_by_name(t, replaced, out);

	while (!err && *rel) {
		size_t len = strcspn(rel, "/");
		char name[NAME_MAX + 1];
		int fd;

		snprintf(name, sizeof(name), "%.*s", (int)len, rel);
		fd = backing_pin(&t->engine->backing, out->fd, name);
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

/* A pin of the directory @n if a checkpoint has it in staging, where it has no name to find it by. */
static int pin_staged(struct tree *t, struct node *n)
{
	struct inode_id id = node_inode(n);
	struct checkpoint *cp = S_ISDIR(n->type) && t->engine->units
					? checkpoints_find_inode(t->engine->units, &id)
					: NULL;
	int fd = cp ? checkpoint_fd(cp) : -ENOENT;

	if (fd >= 0)
		fd = backing_reopen(&t->engine->backing, fd, O_PATH | O_DIRECTORY);

	checkpoint_put(cp);
	return fd;
}

/* Finds @n again as @name in the directory @at; @out holds its new pin. */
static int pin_by_name(struct tree *t, struct node *n, int at, const char *name,
		       struct node_fd *out)
{
	struct closing c = {.nr = 0};
	struct statx stx;
	int err, fd = pin_staged(t, n);

	if (fd < 0)
		fd = backing_pin(&t->engine->backing, at, name);
	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR ? -ESTALE : fd;
	err = backing_stat(&t->engine->backing, fd, &stx);
	if (!err && !is_same(n, &stx))
		err = -ESTALE;
	if (err) {
		close(fd);
		return err;
	}
	{
		LOCK_SCOPE(&t->lock);
		n->pin_users++;
		n->refs++;
		pin_locked(t, n, fd, &c);
		*out = (struct node_fd){.node = n, .fd = n->pin};
	}
	close_all(t, &c);
	return 0;
}

/*
 * The topmost of @n and the directories above it that has no descriptor, but whose own directory,
 * @at, has one. NULL if its place is unknown, or seems to be inside itself.
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

/* A file below a directory that was replaced is found below what has replaced that. */
static int fd_in_successor(struct tree *t, struct node *n, struct node_fd *out)
{
	char name[NAME_MAX + 1];
	struct node *dir;
	struct node_fd at;
	int err;

	if (!tree_place(t, n, &dir, name))
		return -ESTALE;
	err = tree_fd(t, dir, &at);
	if (!err) {
		err = pin_by_name(t, n, at.fd, name, out);
		tree_fd_put(t, &at);
	}
	node_put(t, dir);
	return err;
}

/* One step at a time from the first ancestor at hand, which must not be lost on the way. */
int tree_fd(struct tree *t, struct node *n, struct node_fd *out)
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
		err = fd_of_successor(t, n, replaced, rel, out);
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
			err = fd_in_successor(t, n, out);
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
		err = name ? pin_by_name(t, lost, at.fd, name, &next) : -ENOMEM;
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

bool tree_replaced(struct tree *t, struct node *n)
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
	err = tree_fd(t, dir, &at);
	if (!err) {
		err = backing_stat_at(&t->engine->backing, at.fd, name, &stx);
		tree_fd_put(t, &at);
	}
	node_put(t, dir);
	return !err && !is_same(n, &stx);
}

/* --- paths for people --- */

bool tree_true_path(struct tree *t, uint64_t id, const char *name, char *buf, size_t size)
{
	size_t at = size - 1, start;
	bool whole;
	LOCK_SCOPE(&t->lock);
	struct node *n = find_id_locked(t, id);

	buf[at] = '\0';
	if (name && !prepend(buf, &at, name))
		n = NULL;
	while (n && n->id != NODE_ROOT && prepend(buf, &at, n->name ? n->name : "?"))
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
	/* It ends up on terminals. */
	for (; *buf; buf++)
		if ((unsigned char)*buf < ' ' || *buf == 0x7f)
			*buf = '?';
}

bool tree_knows(void *tree, const struct inode_id *id)
{
	struct tree *t = tree;
	LOCK_SCOPE(&t->lock);

	return find_inode_locked(t, id);
}

void tree_path_of(void *tree, const struct inode_id *inode, const char *name, char *buf,
		  size_t size)
{
	struct tree *t = tree;
	uint64_t id = 0;
	{
		LOCK_SCOPE(&t->lock);
		struct node *n = find_inode_locked(t, inode);

		id = n ? n->id : 0;
	}
	if (id)
		tree_path(t, id, name, buf, size);
	else
		snprintf(buf, size, "%s", name ? name : "?");
}

/* --- handles --- */

struct handle *handle_create(struct tree *t, struct node *n, int fd, int flags)
{
	struct handle *h = calloc(1, sizeof(*h));

	if (!h) {
		close(fd);
		return NULL;
	}
	h->node = n;
	h->fd = fd;
	h->flags = flags;
	atomic_init(&h->refs, 1);
	lock_init(&h->dir_lock, LOCK_HANDLE_DIR);
	LOCK_SCOPE(&t->lock);
	if (!slots_take(&t->handles, h, &h->id)) {
		lock_finish(&h->dir_lock);
		free(h);
		close(fd);
		return NULL;
	}
	n->refs++;
	list_push(&n->handles, &h->link);
	atomic_fetch_add(&t->engine->metrics.open_handles, 1);
	return h;
}

struct handle *handle_get(struct tree *t, uint64_t id)
{
	LOCK_SCOPE(&t->lock);
	struct handle *h = slots_find(&t->handles, id);

	if (h)
		atomic_fetch_add(&h->refs, 1);
	return h;
}

void handle_forget_extra(struct handle *h)
{
	while (h->nr_extra)
		free(h->extra[--h->nr_extra].name);
	free(h->extra);
	h->extra = NULL;
}

void handle_put(struct tree *t, struct handle *h, int *close_err)
{
	*close_err = 0;
	{
		LOCK_SCOPE(&t->lock);
		if (atomic_fetch_sub(&h->refs, 1) > 1)
			return;
		list_del(&h->link);
		slots_give_back(&t->handles, h->id);
	}
	atomic_fetch_sub(&t->engine->metrics.open_handles, 1);
	content_put(h->content);
	generation_put(h->generation);
	if (close(h->fd))
		*close_err = -errno;
	node_put(t, h->node);
	lock_finish(&h->dir_lock);
	free(h->dents);
	handle_forget_extra(h);
	free(h);
}

/* --- the tree --- */

static bool make_root(struct tree *t)
{
	struct statx stx;
	struct node *root;

	if (backing_stat(&t->engine->backing, t->engine->backing.root_fd, &stx))
		return false;
	root = node_new(t, &stx);
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
			handle_forget_extra(h);
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
