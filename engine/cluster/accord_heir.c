/* SPDX-License-Identifier: MIT */
/*
 * A root that is lost once it has voted costs nothing: another node, the heir, commits in its place
 * (agreement.h).
 *
 * What only the root knows goes with its vote, beside the list of its files, for the heir
 * (for_heir.h). An heir takes the votes of the root and of its children into what it knows
 * of the files, and then does all that the root would have done. There may be several heirs, and
 * the root may live. So a commit file that stands is left alone (commit_file.c), lists stay until
 * all is decided, and a node that finds a decision leaves the rest to the node that made it.
 *
 * Takes the units' lock, except in functions that have an accord as argument: callers of these hold
 * it.
 */
#include "engine/cluster/accord_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/coord/nodes.h"
#include "engine/record/for_heir.h"
#include "engine/redo/publish_dir.h"
#include "engine/redo/recover.h"
#include "engine/save/commit_describe.h"

/* --- the root --- */

/* Lock not held. NULL: no memory. */
static struct for_heir *tell_heir(struct checkpoint *cp)
{
	__cleanup_free struct commit_header *h = malloc(sizeof(*h));
	struct for_heir *t = h ? calloc(1, sizeof(*t)) : NULL;
	char path[PATH_MAX];

	if (!t)
		return NULL;
	checkpoint_path(cp, path, sizeof(path));
	commit_describe(cp, path, h);
	memcpy(t->done, h->done, sizeof(t->done));
	t->ranks = h->ranks;
	t->decides = true;
	decision_propose(cp, h->unit, NULL, &t->decision);
	LOCK_SCOPE(&cp->units->lock);
	t->rule = cp->rule;
	t->judged = cp->accord->judged;
	return t;
}

bool accord_vote_early(struct accord *a)
{
	struct checkpoint *cp = a->cp;
	struct units *us = cp->units;
	struct for_heir *for_heir;
	json_t *own = NULL;
	int err;

	if (!agreement_may_vote_early(&a->a) || a->removed || cp->state != GENERATION_SEALED ||
	    !checkpoint_is_flushed_locked(cp))
		return false;
	lock_drop(&us->lock);
	for_heir = tell_heir(cp);
	err = for_heir ? accord_write_list(cp, 0, NULL, 0, &own) : -ENOMEM;
	lock_take(&us->lock);
	if (err) {
		free(for_heir);
		return false; /* no heir, then, unless a later call succeeds */
	}
	json_decref(a->list);
	free(a->for_heir);
	a->list = own;
	a->for_heir = for_heir;
	agreement_vote_early(&a->a);
	return true;
}

/* --- the heir --- */

void accord_stand_in(struct accord *a)
{
	struct units *us = a->cp->units;
	char name[256];
	unsigned i;

	if (!agreement_may_stand_in(&a->a) || a->left || us->ending)
		return;
	for (i = 0; i <= AGREE_ROOT; i++) {
		json_decref(a->children[i].open_on);
		json_decref(a->children[i].list);
		a->children[i] = (struct child){.nodes = 0};
	}
	agreement_stand_in(&a->a);
	a->judged = false;
	a->heard_ns = clock_mono_ns();
	nodes_name(us->nodes, a->a.above[0], name, sizeof(name));
	log_info("node %s, which was to commit '%s', shows no life: this node commits it if all "
		 "have voted",
		 name, a->cp->target.name);
}

void accord_disinherit(struct accord *a)
{
	char text[MESSAGE_MAX], name[256], *target = a->cp->target.name;

	accord_blames_node(a, a->a.above[0]);
	nodes_name(a->cp->units->nodes, a->a.above[0], name, sizeof(name));
	MESSAGE(text, CHECKPOINT_NODE_DEAD, target, name, target);
	accord_give_reason(a, EIO, false, false, text);
}

/* Gives @cp the name @name in @dir, and what it replaces there, as @d says. Takes over @dir. */
static int take_place(struct checkpoint *cp, int dir, const char *name, const struct decision *d)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	struct statx stx;
	int err = backing_stat(&b, dir, &stx);
	LOCK_SCOPE(&cp->units->lock);

	/* Keeps the descriptor's number, as accord_join.c does. */
	if (!err && dup3(dir, cp->target.dir, O_CLOEXEC) < 0)
		err = -EMFILE;
	close(dir);
	if (err)
		return err;
	cp->target.dir_id = inode_id_of(&stx);
	snprintf(cp->target.name, sizeof(cp->target.name), "%s", name);
	cp->replaces = d->replaces;
	memcpy(cp->replaced_generation, d->generation, sizeof(cp->replaced_generation));
	if (d->ino)
		cp->replaced = (struct inode_id){
			.dev = cp->id.dev, .ino = d->ino, .btime_ns = d->btime_ns};
	return 0;
}

static bool is_heir(struct checkpoint *cp)
{
	LOCK_SCOPE(&cp->units->lock);
	return cp->accord && cp->accord->a.heir;
}

int accord_inherit(struct checkpoint *cp)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	__cleanup_free struct decision *d = malloc(sizeof(*d));
	const char *name;
	int dir;

	if (!is_heir(cp))
		return 0;
	if (!d)
		return -ENOMEM;
	{
		LOCK_SCOPE(&cp->units->lock);
		if (!cp->accord->for_heir || !cp->accord->for_heir->decides)
			return -EBADMSG;
		*d = cp->accord->for_heir->decision;
	}
	dir = backing_walk(&b, b.root_fd, d->unit, &name);
	return dir < 0 ? dir : take_place(cp, dir, name, d);
}

void accord_inherit_header(struct checkpoint *cp, struct commit_header *h)
{
	const struct for_heir *t;

	if (!is_heir(cp))
		return;
	LOCK_SCOPE(&cp->units->lock);
	t = cp->accord->for_heir;
	snprintf(h->done, sizeof(h->done), "%s", t && *t->done ? t->done : "last close");
	if (t && t->ranks)
		h->ranks = t->ranks;
}

/* --- both --- */

bool accord_has_heirs(struct checkpoint *cp)
{
	LOCK_SCOPE(&cp->units->lock);
	return cp->accord && (cp->accord->a.early || cp->accord->a.root_voted);
}

void accord_tidy(struct checkpoint *cp)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	struct vote_list lists[AGREE_FANOUT + 1];
	unsigned nr;

	if (!cp->accord)
		return;
	if (is_heir(cp)) { /* an heir does not know what the root was doing */
		publish_dir_tidy(&b, cp->fd);
		return;
	}
	{
		LOCK_SCOPE(&cp->units->lock);
		nr = accord_lists(cp->accord, lists);
		if (cp->accord->for_heir)
			lists[nr++] = (struct vote_list){.slot = 0};
	}
	vote_list_remove(cp, lists, nr);
}

/* --- nodes that would abort it --- */

/* A search among the participants of a generation whose root is dead. */
struct search {
	struct units *us;
	uid_t uid;
	const char *gen;
	char *text;
	bool root_voted;
};

/* Reads the log of @slot: the nodes that have joined there, and whether the root has voted. */
static unsigned read_log(struct search *s, uint32_t slot, char nodes[][COORD_NODE_MAX])
{
	unsigned missing = 0, nr = 0, may_miss = slot ? 0 : AGREE_BEHIND;
	struct units *us = s->us;
	uint32_t i;

	for (i = 0; missing <= may_miss; i++) {
		char kind[COORD_KIND_MAX], node[COORD_NODE_MAX];
		enum agree_entry what;
		const char *payload;
		uint32_t from;
		ssize_t len;

		coord_log_kind(kind, slot, i);
		len = us->coord->read(us->coord_arg, s->uid, s->gen, kind, s->text, COORD_TEXT_MAX);
		missing += len < 0;
		s->text[len < 0 ? 0 : len] = '\0';
		if (!agreement_read_entry(s->text, &what, &from, node, &payload))
			continue;
		if (what == AGREE_JOIN && nr < AGREE_FANOUT)
			memcpy(nodes[nr++], node, COORD_NODE_MAX);
		if (what == AGREE_VOTE && !from)
			s->root_voted = true;
	}
	return nr;
}

/*
 * True if @node lives. A node without a lease is not waited for, as elsewhere, until its death is
 * sure: an abort does no harm.
 */
static bool lives(struct units *us, const char *node)
{
	char lease[COORD_LEASE_MAX];

	return us->coord->lease_read(us->coord_arg, node, lease, sizeof(lease)) >= 0 &&
	       nodes_alive_now(us->nodes, node);
}

/*
 * True if a node lives that has joined in the log of @slot, or below. All nodes are looked at, so
 * that all are watched from here on.
 */
static bool lives_below(struct search *s, uint32_t slot)
{
	char nodes[AGREE_FANOUT][COORD_NODE_MAX];
	unsigned nr = read_log(s, slot, nodes), k;
	bool any = false;

	if (!s->root_voted)
		return false;
	for (k = 0; k < nr; k++)
		any |= lives(s->us, nodes[k]);
	for (k = 0; k < nr && slot < AGREE_SLOT_MAX / AGREE_FANOUT; k++)
		any |= lives_below(s, slot * AGREE_FANOUT + 1 + k);
	return any;
}

bool accord_is_left_to_heirs(struct units *us, uid_t uid, const char *gen)
{
	__cleanup_free char *text = malloc(COORD_TEXT_MAX + 1);
	struct search s = {.us = us, .uid = uid, .gen = gen, .text = text};

	return text && lives_below(&s, 0);
}
