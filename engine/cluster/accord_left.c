/* SPDX-License-Identifier: MIT */
/*
 * What follows the commit (journal_following.h) of a checkpoint of several nodes: each node tells
 * with its vote what waits for the commit there (left.h), and the node that commits does that, too.
 * So it is done even if the node is lost after its vote. If the node lives, it does its part as
 * well: the same pointer twice says the same, and what is removed stays so.
 *
 * A pointer that comes to wait for the commit after the vote is lost with its node.
 */
#include "engine/cluster/accord_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/lock.h"
#include "engine/journal/held.h"
#include "engine/journal/journal_pending.h"
#include "engine/journal/journal_removal.h"

/* --- a node that votes --- */

/* True if no thread changes or applies @p, which waits for the commit of @cp. */
static bool is_whole_locked(const struct checkpoint *cp, const struct pending *p)
{
	const struct generation *g = p->written;

	return (g ? generation_rests_in(g, GENERATION_SEALED) && !g->overtaken && !g->abandoned &&
				!g->nr_changing
		  : !p->held->busy) &&
	       !strcmp(p->waits_for, cp->staging) &&
	       same_inode(&p->target->dir_id, &cp->target.dir_id);
}

static ssize_t read_written(struct generation *g, char text[LEFT_POINTER_TEXT + 1])
{
	if (content_size(g->content) > LEFT_POINTER_TEXT)
		return -EFBIG;
	return content_source_read(g->content, text, LEFT_POINTER_TEXT, 0);
}

static ssize_t read_held(struct backing *b, struct held *h, char text[LEFT_POINTER_TEXT + 1])
{
	__cleanup_fd int fd = S_ISLNK(h->type) ? -1 : backing_reopen(b, h->pin, O_RDONLY);

	if (S_ISLNK(h->type))
		return backing_readlink(b, h->pin, text, LEFT_POINTER_TEXT + 1);
	return fd < 0 ? fd : backing_read(b, fd, text, LEFT_POINTER_TEXT + 1, 0);
}

/* Adds @p, with its content. */
static void leave_pointer(struct checkpoint *cp, struct left *l, const struct pending *p)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	struct generation *g = p->written;
	uint64_t written_ns = g ? generation_written_ns(g) : p->held->since_wall_ns, closed_ns;
	char text[LEFT_POINTER_TEXT + 1] = "", name[NAME_MAX + 1];
	struct statx stx;
	ssize_t len;
	struct left_pointer left;
	bool whole;
	{
		LOCK_SCOPE(&cp->units->lock);
		closed_ns = g ? g->closed_ns : 0;
	}
	len = g ? read_written(g, text) : read_held(&b, p->held, text);
	{
		LOCK_SCOPE(&cp->units->lock);
		/* Perhaps a process wrote to it during the read. */
		whole = !g || (is_whole_locked(cp, p) && g->closed_ns == closed_ns);
		memcpy(name, p->target->name, sizeof(name));
	}
	if (!whole || len <= 0 || len > LEFT_POINTER_TEXT || memchr(text, '\0', (size_t)len) ||
	    backing_stat_at(&b, cp->target.dir, p->staging, &stx) || stx.stx_uid != cp->owner.uid)
		return;
	text[len] = '\0';
	left = (struct left_pointer){.link = S_ISLNK(stx.stx_mode),
				     .mode = stx.stx_mode & 0777,
				     .written_ns = written_ns};
	memcpy(left.name, name, sizeof(left.name));
	memcpy(left.text, text, sizeof(left.text));
	left_add_pointer(l, &left);
}

void accord_list_left(struct checkpoint *cp, struct left *l)
{
	__cleanup_free struct order *order = calloc(1, sizeof(*order));
	struct pending waiting[LEFT_POINTERS_MAX], p = {0};
	size_t i, nr = 0;
	{
		LOCK_SCOPE(&cp->units->lock);
		while (nr < LEFT_POINTERS_MAX && pending_next_locked(cp->units, &p)) {
			if (!is_whole_locked(cp, &p))
				continue;
			pending_get_locked(&p);
			waiting[nr++] = p;
		}
	}
	for (i = 0; i < nr; i++) {
		leave_pointer(cp, l, &waiting[i]);
		pending_put(&waiting[i]);
	}
	if (!order)
		return;
	/* Once these are applied, what they name now does not count. */
	for (i = 0; i < l->nr_pointers; i++)
		memcpy(order->pointers[i].name, l->pointers[i].name, NAME_MAX + 1);
	order->nr_pointers = l->nr_pointers;
	removals_list(cp, order);
	for (i = 0; i < order->nr_removals; i++)
		left_add_removal(l, &order->removals[i]);
}

/* --- the node that commits --- */

/* True if the pointer names the checkpoint. */
static bool names_it(const struct checkpoint *cp, const struct left_pointer *q)
{
	char named[NAME_MAX + 1];

	return (q->link ? rules_link_names(q->text, named)
			: rules_pointer_names(cp->units->rules, q->name, q->text, strlen(q->text),
					      named)) &&
	       !strcmp(named, cp->target.name);
}

void accord_get_left(struct checkpoint *cp, struct left *l)
{
	const struct left *all;
	size_t i;

	memset(l, 0, sizeof(*l));
	LOCK_SCOPE(&cp->units->lock);
	all = cp->left;
	for (i = 0; all && i < all->nr_pointers; i++)
		if (names_it(cp, &all->pointers[i]))
			left_add_pointer(l, &all->pointers[i]);
	for (i = 0; all && i < all->nr_removals; i++)
		left_add_removal(l, &all->removals[i]);
}
