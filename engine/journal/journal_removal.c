/* SPDX-License-Identifier: MIT */
#include "engine/journal/journal_removal_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/backing/dirwalk.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/wait.h"

#define LOOK_AGAIN_NS (200 * NSEC_PER_MSEC)

/* A name that was removed. */
struct hidden {
	struct table_node node; /* units->removed */
	struct list link;	/* part.hidden */
	const struct removal *removal;
	struct inode_id dir;
	char name[];
};

struct removal *removal_find_locked(struct units *us, const struct inode_id *dir, const char *name)
{
	struct list *l;

	list_for_each (l, &us->removals) {
		struct removal *r = container_of(l, struct removal, link);

		if (!r->replaced && same_inode(&r->dir_id, dir) && !strcmp(r->name, name))
			return r;
	}
	return NULL;
}

struct unit_place removal_place_of(const struct removal *r)
{
	return (struct unit_place){r->dir, r->dir_id, r->id, r->name, r->file};
}

struct part *removal_last_part(const struct removal *r)
{
	return container_of(r->parts.prev, struct part, link);
}

void removal_destroy_part(struct part *part)
{
	if (part->watched)
		jobs_unwatch(part->process);
	process_put(part->process);
	free(part);
}

void removal_destroy(struct removal *r)
{
	while (!list_empty(&r->parts)) {
		struct part *part = removal_last_part(r);

		list_del(&part->link);
		removal_destroy_part(part);
	}
	if (r->dir >= 0)
		close(r->dir);
	free(r);
}

static void unhide_locked(struct units *us, struct part *part)
{
	while (!list_empty(&part->hidden)) {
		struct hidden *h = container_of(part->hidden.next, struct hidden, link);

		/* First: a thread that misses it in the table sees the new number. */
		atomic_fetch_add(&us->unhidden, 1);
		table_del(&us->removed, &h->node);
		list_del(&h->link);
		free(h);
	}
}

void removal_list_remove_locked(struct units *us, struct removal *r)
{
	struct list *l;

	list_for_each (l, &r->parts)
		unhide_locked(us, container_of(l, struct part, link));
	list_del(&r->link);
	atomic_fetch_sub(&us->nr_removals, 1);
}

void removal_undo_locked(struct units *us, struct removal *r, struct part *part)
{
	unhide_locked(us, part);
	list_del(&part->link);
	r->whole = r->emptied = r->left = r->named = false;
}

void removal_let_go_locked(struct units *us, struct removal *r, bool done)
{
	busy_end(us, &r->busy, BUSY_APPLY);
	r->looked = false;
	r->again_ns = clock_mono_ns() + LOOK_AGAIN_NS;
	if (done)
		removal_list_remove_locked(us, r);
	waitq_wake(&us->commits);
}

bool removal_waits(struct units *us, const struct process *p, const struct inode_id *dir,
		   const char *name)
{
	struct list *l;

	if (p->world > 1)
		return true;
	LOCK_SCOPE(&us->lock);
	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (cp->visible && same_inode(&cp->target.dir_id, dir) &&
		    strcmp(cp->target.name, name) && epoch_same(p, cp->maker))
			return true;
	}
	return p->tgid && known_find(&us->savers, p, hash_inode(dir));
}

void removal_note_saver_locked(struct units *us, struct process *p, const struct inode_id *dir)
{
	if (p->tgid)
		known_make(&us->savers, p, hash_inode(dir)); /* without memory: no saver */
}

int removal_hide_locked(struct units *us, struct removal *r, const struct inode_id *dir,
			const char *name)
{
	size_t size = strlen(name) + 1;
	struct hidden *h = malloc(sizeof(*h) + size);

	if (!h)
		return -ENOMEM;
	h->removal = r;
	h->dir = *dir;
	memcpy(h->name, name, size);
	list_append(&removal_last_part(r)->hidden, &h->link);
	table_add(&us->removed, &h->node, hash_name(dir, name));
	r->changed_ns = clock_mono_ns();
	return 0;
}

bool removals_any(struct units *us)
{
	return atomic_load(&us->nr_removals);
}

unsigned removals_unhidden(const struct units *us)
{
	return atomic_load(&us->unhidden);
}

bool removals_hide(struct units *us, const struct inode_id *dir, const char *name)
{
	struct list *l;

	if (!atomic_load(&us->nr_removals))
		return false;
	LOCK_SCOPE(&us->lock);
	table_for_each (l, &us->removed, hash_name(dir, name)) {
		const struct hidden *h = container_of(l, struct hidden, node.link);

		/* What a replaced removal hid is gone, and the names are another's. */
		if (!h->removal->replaced && same_inode(&h->dir, dir) && !strcmp(h->name, name))
			return true;
	}
	return false;
}

bool removals_next_seen(struct units *us, const struct inode_id *dir, struct dirwalk *w)
{
	while (dirwalk_next_visible(w))
		if (!removals_hide(us, dir, w->name))
			return true;
	return false;
}
