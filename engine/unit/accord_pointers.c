/* SPDX-License-Identifier: MIT */
/*
 * What follows the commit (journal_following.h), as a root leaves it to its heir (accord_heir.c).
 * Beside the removals in its decision, the vote of the root has
 *
 * 	"pointers": [{"name": "latest", "text": "step-1\n", "link": false, "mode": 420,
 * 		      "written_ns": NS}]
 *
 * A pointer goes with its content, since what the root has staged stays the root's: a program may
 * write to it again while the root is only cut off. A pointer that comes to wait for the commit
 * after the root's vote is lost with the root.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/base/lock.h"
#include "engine/unit/accord_impl.h"
#include "engine/unit/decision.h"
#include "engine/unit/journal.h"
#include "engine/unit/journal_held.h"
#include "engine/unit/journal_removal.h"
#include "engine/unit/live.h"
#include "engine/unit/reserved_names.h"

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
static void add_pointer(struct checkpoint *cp, json_t *list, const struct pending *p)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	struct generation *g = p->written;
	uint64_t written_ns = g ? publish_written_ns(g) : p->held->since_wall_ns, closed_ns;
	char text[LEFT_POINTER_TEXT + 1], name[NAME_MAX + 1];
	struct statx stx;
	ssize_t len;
	json_t *o;
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
	o = json_pack("{s:b, s:i, s:I}", "link", S_ISLNK(stx.stx_mode), "mode", stx.stx_mode & 0777,
		      "written_ns", (json_int_t)written_ns);
	if (!json_set_path(o, "name", "name_hex", name) &&
	    !json_set_path(o, "text", "text_hex", text))
		json_array_append(list, o);
	json_decref(o);
}

json_t *accord_waiting_pointers(struct checkpoint *cp, struct order *order)
{
	struct pending waiting[LEFT_POINTERS_MAX], p = {0};
	json_t *list = json_array(), *o;
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
		add_pointer(cp, list, &waiting[i]);
		pending_put(&waiting[i]);
	}
	/* Once these are applied, what they name now does not count. */
	json_array_foreach (list, i, o)
		if (json_get_path(o, "name", "name_hex", order->pointers[i].name, NAME_MAX + 1))
			order->nr_pointers = i + 1;
	removals_list(cp, order);
	return list;
}

/* --- the heir --- */

/* Reads what another node has told. True if it names the checkpoint, as a pointer does. */
static bool parse(struct checkpoint *cp, const json_t *o, struct left_pointer *q)
{
	const struct rules *rules = cp->units->rules;
	char named[NAME_MAX + 1];

	q->link = json_is_true(json_object_get(o, "link"));
	q->mode = (mode_t)json_get_int(o, "mode", 0600) & 0777;
	q->written_ns = (uint64_t)json_get_int(o, "written_ns", 0);
	return json_get_path(o, "name", "name_hex", q->name, sizeof(q->name)) &&
	       json_get_path(o, "text", "text_hex", q->text, sizeof(q->text)) &&
	       backing_name_ok(q->name) && !name_is_reserved(q->name) &&
	       (q->link ? rules_link_names(q->text, named)
			: rules_pointer_names(rules, q->name, q->text, strlen(q->text), named)) &&
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
	__cleanup_free struct left_pointer *q = malloc(sizeof(*q));
	__cleanup_free struct decision *d = malloc(sizeof(*d));
	__cleanup_free char *text = NULL;
	size_t nr = 0, i;
	json_t *o;

	removals->nr_removals = 0;
	LOCK_SCOPE(&cp->units->lock);
	if (!q || !d || !cp->accord || !cp->accord->a.heir)
		return 0;
	json_array_foreach (json_object_get(cp->accord->for_heir, "pointers"), i, o)
		if (parse(cp, o, q))
			nr = add(pointers, nr, q);
	text = json_dumps(json_object_get(cp->accord->for_heir, "decision"), JSON_COMPACT);
	if (text && !decision_parse(text, strlen(text), d))
		*removals = d->order;
	return nr;
}
