/* SPDX-License-Identifier: MIT */
/*
 * The filesystem in memory as an image (image.h): to become one, and what a power cut leaves of it.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "engine/base/cleanup.h"
#include "tests/backing/image_inside.h"
#include "tests/backing/memory_inside.h"
#include "tests/backing/record_inside.h"
#include "tests/backing/steps.h"
#include "tests/backing/util.h"

/* --- to become an image --- */

struct load {
	struct memory *m;
	const struct image *im;
	struct mem_node **nodes; /* of each inode of the image that has a name */
};

static void load_pages(struct load *l, int nr, struct mem_node *n)
{
	const struct inode *inode = &l->im->inodes[nr];
	size_t last = (size_t)((inode->size + PAGE_BYTES - 1) / PAGE_BYTES), i;

	if (last > l->im->log->inodes[nr].blocks)
		last = l->im->log->inodes[nr].blocks;
	for (i = 0; i < last; i++)
		mem_set_page(l->m, n, i, page_get(inode->pages[i]));
	n->size = inode->size;
	mem_resize(l->m, n, inode->size);
}

static void load_attr(struct load *l, int nr, struct mem_node *n)
{
	const struct inode *inode = &l->im->inodes[nr];
	const struct record_attr *a = &inode->attr;
	size_t i;

	n->mode = a->mode;
	n->uid = a->uid;
	n->gid = a->gid;
	n->rdev = a->rdev;
	n->atime = a->atime;
	n->mtime = n->ctime = a->mtime;
	n->btime = l->im->log->inodes[nr].btime;
	for (i = 0; i < inode->nr_xattrs; i++) {
		const struct xattr *x = &inode->xattrs[i];

		if (x->op)
			mem_set_xattr(n, x->name, x->op->data, x->op->len, 0);
	}
}

static struct mem_node *load_inode(struct load *l, int nr)
{
	const struct record_inode *known = &l->im->log->inodes[nr];
	const struct inode *inode = &l->im->inodes[nr];
	ino_t ino = known->dev == MEM_DEV ? known->ino : 0;
	struct mem_node *n = mem_node_make(l->m, inode->attr.mode, ino);
	size_t i;

	l->nodes[nr] = n;
	load_attr(l, nr, n);
	if (S_ISREG(n->mode))
		load_pages(l, nr, n);
	if (S_ISLNK(n->mode)) {
		n->target = must(strdup(inode->target));
		n->size = (off_t)strlen(n->target);
	}
	for (i = 0; i < inode->nr_entries; i++) {
		const struct entry *e = &inode->entries[i];

		if (e->inode >= 0)
			mem_add_entry(n, e->name,
				      l->nodes[e->inode] ? l->nodes[e->inode]
							 : load_inode(l, e->inode));
	}
	return n;
}

/* There is no inode yet. */
static void load(struct memory *m, const struct image *im)
{
	struct load l = {.m = m, .im = im};
	struct mem_node *top;

	l.nodes = must(calloc(im->log->nr_inodes, sizeof(struct mem_node *)));
	top = load_inode(&l, 0);
	top->links = 1;
	top->parent = top;
	free(l.nodes);
}

void memory_load(struct memory *m, const struct image *im)
{
	MUTEX_SCOPE(&m->lock);
	mem_clear(m);
	load(m, im);
}

/* --- power cuts --- */

/* What remains of the log's ops. */
static struct image *image_after_loss(struct record *r, uint64_t seed)
{
	static const unsigned eighths[] = {0, 1, 4, 7, 8};
	const struct taken all = {TAKE_ALL, 0, 0};
	uint64_t random = mix(seed, 0);
	unsigned much = eighths[random % ARRAY_SIZE(eighths)];
	bool times = mix(random, 2) % 4;
	struct image *im = image_create(r);
	struct image_step *steps;
	size_t nr, i;

	steps = steps_create(r, &nr);
	steps_sync_all(steps, nr, r);
	for (i = 0; i < nr; i++)
		image_apply(im, &steps[i],
			    steps[i].durable ? all : step_take_random(&steps[i], much, &random),
			    times || steps[i].times_durable);
	free(steps);
	return im;
}

/* Pages that no longer need the log. */
static void keep_pages(struct memory *m)
{
	size_t i, at;

	for (i = 0; i < m->nr_nodes; i++)
		for (at = 0; m->nodes[i] && at < m->nodes[i]->nr_pages; at++)
			if (m->nodes[i]->pages[at])
				mem_own_page(m, m->nodes[i], at);
}

void memory_power_loss(struct memory *m, uint64_t seed)
{
	struct image *im = image_after_loss(m->log, seed);

	{
		MUTEX_SCOPE(&m->lock);
		struct mem_node **before = m->nodes;
		size_t nr = m->nr_nodes;

		m->nodes = NULL;
		m->nr_nodes = m->max_nodes = 0;
		m->used = 0;
		load(m, im);
		mem_adopt(m, before, nr);
		image_destroy(im);
		keep_pages(m);
	}
	record_restart(m->log);
}

/* --- what is durable --- */

/* The log's index of @n, or -1. */
static int logged(const struct record *r, const struct mem_node *n)
{
	size_t i = r->nr_inodes;

	while (i-- > 0)
		if (r->inodes[i].ino == n->ino)
			break;
	return (int)i;
}

/* @inode with its data, attributes, and if it is a directory the names in it. */
static bool inode_is_durable(const struct image_step *steps, size_t nr, int inode)
{
	size_t i;

	for (i = 0; i < nr; i++)
		if (!steps[i].durable && !step_is_name(&steps[i]) && !step_is_point(&steps[i]) &&
		    steps[i].op->inode == inode)
			return false;
	return !steps_any_pending(steps, nr, inode, NULL);
}

static bool path_is_durable(struct memory *m, const struct image_step *steps, size_t nr,
			    const char *path)
{
	struct mem_node *n = m->nodes[1];
	char name[NAME_MAX + 1];

	while (*path) {
		size_t len = strcspn(path, "/");
		struct mem_entry *e;

		if (!S_ISDIR(n->mode) || len >= sizeof(name))
			return false;
		memcpy(name, path, len);
		name[len] = '\0';
		e = mem_find(n, name);
		if (!e || steps_any_pending(steps, nr, logged(m->log, n), name))
			return false;
		n = e->node;
		path += len + (path[len] == '/');
	}
	return inode_is_durable(steps, nr, logged(m->log, n));
}

bool memory_is_durable(struct memory *m, const char *path)
{
	struct image_step *steps;
	bool yes;
	size_t nr;

	MUTEX_SCOPE(&m->log->lock);
	steps = steps_create(m->log, &nr);
	steps_sync_all(steps, nr, m->log);
	{
		MUTEX_SCOPE(&m->lock);
		yes = path_is_durable(m, steps, nr, path);
	}
	free(steps);
	return yes;
}

void memory_track(struct memory *m)
{
	memory_open(m, &m->own);
	m->log = record_start(&m->own);
}

struct record *memory_log(struct memory *m)
{
	return m->log;
}
