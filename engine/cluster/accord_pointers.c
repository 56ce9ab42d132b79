/* SPDX-License-Identifier: MIT */
/*
 * What follows the commit (journal_following.h), as a root leaves it to its heir (accord_heir.c).
 * Beside the removals in its decision, the vote of the root has pointers (for_heir.h). A pointer
 * goes with its content, since what the root has staged stays the root's: a program may write to it
 * again while the root is only cut off. A pointer that comes to wait for the commit after the
 * root's vote is lost with the root.
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

/* --- the root --- */

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
static void add_pointer(struct checkpoint *cp, struct for_heir *t, const struct pending *p)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	struct generation *g = p->written;
	uint64_t written_ns = g ? generation_written_ns(g) : p->held->since_wall_ns, closed_ns;
	char text[LEFT_POINTER_TEXT + 1], name[NAME_MAX + 1];
	struct statx stx;
	ssize_t len;
	struct left_pointer *left = &t->pointers[t->nr_pointers];
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
	*left = (struct left_pointer){.link = S_ISLNK(stx.stx_mode),
				      .mode = stx.stx_mode & 0777,
				      .written_ns = written_ns};
	snprintf(left->name, sizeof(left->name), "%s", name);
	snprintf(left->text, sizeof(left->text), "%s", text);
	t->nr_pointers++;
}

void accord_leave_pointers(struct checkpoint *cp, struct for_heir *t)
{
	struct pending waiting[LEFT_POINTERS_MAX], p = {0};
	struct order *order = &t->decision.order;
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
		add_pointer(cp, t, &waiting[i]);
		pending_put(&waiting[i]);
	}
	/* Once these are applied, what they name now does not count. */
	for (i = 0; i < t->nr_pointers; i++)
		memcpy(order->pointers[i].name, t->pointers[i].name, NAME_MAX + 1);
	order->nr_pointers = t->nr_pointers;
	removals_list(cp, order);
	order->nr_pointers = 0; /* the heir gets their content */
}

/* --- the heir --- */

/* True if the pointer names the checkpoint. */
static bool names_it(const struct checkpoint *cp, const struct left_pointer *q)
{
	char named[NAME_MAX + 1];

	return (q->link ? rules_link_names(q->text, named)
			: rules_pointer_names(cp->units->rules, q->name, q->text, strlen(q->text),
					      named)) &&
	       !strcmp(named, cp->target.name);
}

/* Of two of one name, the one that was written later counts. */
static size_t add(struct left_pointer *all, size_t nr, const struct left_pointer *q)
{
	size_t i = 0;

	while (i < nr && strcmp(all[i].name, q->name))
		i++;
	if (i == nr && nr < LEFT_POINTERS_MAX)
		nr++;
	else if (i == nr || all[i].written_ns > q->written_ns)
		return nr;
	all[i] = *q;
	return nr;
}

size_t accord_left_pointers(struct checkpoint *cp, struct left_pointer pointers[LEFT_POINTERS_MAX],
			    struct order *removals)
{
	const struct for_heir *t;
	size_t nr = 0, i;

	removals->nr_removals = 0;
	LOCK_SCOPE(&cp->units->lock);
	t = cp->accord && cp->accord->a.heir ? cp->accord->for_heir : NULL;
	if (!t)
		return 0;
	for (i = 0; i < t->nr_pointers; i++)
		if (names_it(cp, &t->pointers[i]))
			nr = add(pointers, nr, &t->pointers[i]);
	if (t->decides)
		*removals = t->decision.order;
	return nr;
}
