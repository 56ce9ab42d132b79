/* SPDX-License-Identifier: MIT */
/*
 * What follows the commit (journal_following.h) of a checkpoint of several nodes. Each node does
 * what waited there, and tells it with its vote (left.h). If that node is lost, the node that
 * decided does it, as long as it keeps the records: twice lease_s.
 *
 * Only one node does a thing, unless one is taken for dead that lives. So the pointers of a job,
 * which one node writes, keep their order, and no pointer of a live node meets a removal that
 * another node does. Lost is what came to wait after the vote; and all of a lost node if the node
 * that decided is lost or unmounts, too.
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
#include "engine/record/left.h"
#include "engine/redo/order.h"
#include "engine/save/publish_checkpoint.h"
#include "engine/save/trash_queue.h"

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
	snprintf(left.node, sizeof(left.node), "%s", nodes_id(cp->units->nodes));
	memcpy(left.name, name, sizeof(left.name));
	memcpy(left.text, text, sizeof(left.text));
	left_add_pointer(l, &left);
}

/* Adds the pointers and removals that wait here for the commit of @cp. */
static void list_left(struct checkpoint *cp, struct left *l)
{
	__cleanup_free struct order *order = calloc(1, sizeof(*order));
	struct pending waiting[LEFT_MAX], p = {0};
	size_t i, nr = 0;
	{
		LOCK_SCOPE(&cp->units->lock);
		while (nr < LEFT_MAX && pending_next_locked(cp->units, &p)) {
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
	/* Pointers may leave what they name now; that is asked again at the removal. */
	removals_list(cp, order, true);
	for (i = 0; i < order->nr_removals; i++) {
		struct left_removal r = {.what = order->removals[i]};

		snprintf(r.node, sizeof(r.node), "%s", nodes_id(cp->units->nodes));
		left_add_removal(l, &r);
	}
}

int accord_write_list(struct checkpoint *cp, uint32_t slot, const struct vote_list *lists,
		      unsigned nr, json_t **own)
{
	__cleanup_free struct left *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	list_left(cp, l);
	return vote_list_write(cp, slot, l, lists, nr, own);
}

/* --- the node that decided --- */

/* True if the pointer names the checkpoint. */
static bool names_it(const struct checkpoint *cp, const struct left_pointer *q)
{
	char named[NAME_MAX + 1];

	return (q->link ? rules_link_names(q->text, named)
			: rules_pointer_names(cp->units->rules, q->name, q->text, strlen(q->text),
					      named)) &&
	       !strcmp(named, cp->target.name);
}

/* Stages a file or link of this node's that says what @q does, durable except for its name. */
static int stage(struct checkpoint *cp, const struct left_pointer *q, char staging[STAGING_MAX])
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	struct backing as = backing_as(&b, &cp->owner);
	const struct timespec at = {.tv_sec = (time_t)(q->written_ns / NSEC_PER_SEC),
				    .tv_nsec = (long)(q->written_ns % NSEC_PER_SEC)};
	const struct timespec times[2] = {at, at}; /* order_is_newer compares it with others */
	int dir = cp->target.dir, err = staging_new(staging);
	__cleanup_fd int fd = -1;
	bool created;
	ssize_t n = 0;

	if (!err && q->link)
		err = backing_symlink(&as, q->text, dir, staging);
	if (err)
		return err;
	fd = q->link ? backing_pin(&as, dir, staging)
		     : backing_create(&as, dir, staging, O_WRONLY | O_EXCL, q->mode, &created);
	if (fd < 0)
		return fd;
	if (!q->link)
		n = backing_write(&b, fd, q->text, strlen(q->text), 0, 0);
	err = n < 0 ? (int)n : backing_utimens(&as, fd, times); /* whatever it is by now */
	return err || q->link ? err : backing_sync(&b, fd, false);
}

/* 0 if @q is done, or not needed any more; or -errno. */
static int point(const struct order_place *place, struct checkpoint *cp,
		 const struct left_pointer *q)
{
	struct order_pointer p = {.staging = ""};
	int err;

	if (!names_it(cp, q) || order_is_newer(place->backing, place->dir, q->name, q->written_ns))
		return 0;
	memcpy(p.name, q->name, sizeof(p.name));
	err = order_look(place->backing, place->dir, p.name, p.was);
	if (!err)
		err = stage(cp, q, p.staging);
	if (!err)
		err = order_point(place, &p);
	if (err == 1)
		return backing_sync_dir(place->backing, place->dir);
	if (*p.staging)
		backing_unlink(place->backing, place->dir, p.staging, false);
	return err;
}

/* Removes it unless something else has its name by now. Tried again while a pointer names it. */
static void remove_it(const struct order_place *place, struct checkpoint *cp,
		      struct left_removal *r)
{
	char trash[STAGING_MAX];

	r->done = order_remove(place, &r->what, trash) == 1;
	if (r->done)
		trash_empty_later(cp->units, &cp->owner, place->dir, trash);
}

/* True if @node is to do what waits there itself. */
static bool does_itself(const struct units *us, const char *node)
{
	return !strcmp(node, nodes_id(us->nodes)) || nodes_alive(us->nodes, node);
}

static bool is_any_due(const struct units *us, const struct left *l)
{
	size_t i;

	for (i = 0; i < l->nr_pointers; i++)
		if (!l->pointers[i].done && !does_itself(us, l->pointers[i].node))
			return true;
	for (i = 0; i < l->nr_removals; i++)
		if (!l->removals[i].done && !does_itself(us, l->removals[i].node))
			return true;
	return false;
}

/* Does of @l what is due: first the pointers. */
static void do_due(struct checkpoint *cp, struct left *l)
{
	struct units *us = cp->units;
	struct backing b = backing_owner(us->contents->backing, &cp->owner);
	const struct order_place place = {.backing = &b,
					  .owner = &cp->owner,
					  .rules = us->rules,
					  .dir = cp->target.dir,
					  .unit = cp->target.name,
					  .id = staging_id(cp->staging)};
	size_t i;

	for (i = 0; i < l->nr_pointers; i++) {
		struct left_pointer *q = &l->pointers[i];

		if (!q->done && !does_itself(us, q->node))
			q->done = !point(&place, cp, q);
	}
	for (i = 0; i < l->nr_removals; i++) {
		struct left_removal *r = &l->removals[i];

		if (!r->done && !does_itself(us, r->node))
			remove_it(&place, cp, r);
	}
}

void accord_do_left(struct accord *a)
{
	struct checkpoint *cp = a->cp;
	struct units *us = cp->units;

	if (!cp->left || a->a.state != AGREE_COMMIT || !agreement_is_decider(&a->a) ||
	    cp->state != GENERATION_COMMITTED || us->ending)
		return;
	lock_drop(&us->lock);
	/* Only this thread uses it by now. What was renamed or removed since is left alone. */
	if (is_any_due(us, cp->left) && checkpoint_has_name(cp, cp->target.name) > 0)
		do_due(cp, cp->left);
	lock_take(&us->lock);
}
