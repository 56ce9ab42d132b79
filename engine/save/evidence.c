/* SPDX-License-Identifier: MIT */
/*
 * The evidence of a checkpoint's end: keeps what programs do to its files, here and on the nodes
 * that report to this one. Functions that end in _locked, and checkpoint_vanishes, are for callers
 * that hold the units' lock; the others take it. No end is seen here (checkpoint_seal.c).
 */
#include "engine/save/units.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/wait.h"
#include "engine/save/accord.h"

/* As realloc(3), which does not define what a size of 0 does. */
static void *grow(void *memory, size_t size)
{
	if (size)
		return realloc(memory, size);
	free(memory);
	return NULL;
}

static struct tally_op op_of(const struct event *e)
{
	return (struct tally_op){.kind = e->kind, .path = e->path, .rank = e->rank};
}

struct tally *checkpoint_tally_locked(struct checkpoint *cp)
{
	struct list *l;

	if (!cp->rule || tally_is_of(&cp->tally, cp->rule, cp->target.name))
		return &cp->tally;
	tally_begin(&cp->tally, cp->rule, cp->target.name, grow);
	list_for_each (l, &cp->events) {
		const struct tally_op op = op_of(container_of(l, struct event, link));

		tally_add(&cp->tally, &op);
	}
	return &cp->tally;
}

static void free_event(struct checkpoint *cp, struct event *e)
{
	list_del(&e->link);
	table_del(&cp->events_by_path, &e->node);
	free(e->path);
	free(e);
}

void checkpoint_forget_evidence(struct checkpoint *cp)
{
	while (!list_empty(&cp->events))
		free_event(cp, container_of(cp->events.next, struct event, link));
	tally_end(&cp->tally);
	table_finish(&cp->events_by_path);
}

/* True if an operation on @path may be evidence. Others are not kept, and cost nothing later. */
static bool is_of_interest_locked(const struct checkpoint *cp, const char *path)
{
	unsigned i;

	for (i = 0; i < cp->rule->nr_evidence; i++)
		if (cp->rule->evidence[i].pattern &&
		    evidence_matches(&cp->rule->evidence[i], cp->target.name, path, NULL))
			return true;
	return false;
}

static struct event *find_event_locked(const struct checkpoint *cp, enum evidence_kind kind,
				       const char *path)
{
	uint64_t hash = hash_text(kind, path);
	struct list *l;

	if (!cp->events_by_path.nr)
		return NULL;
	table_for_each (l, &cp->events_by_path, hash) {
		struct event *e = container_of(l, struct event, node.link);

		if (e->kind == kind && !strcmp(e->path, path))
			return e;
	}
	return NULL;
}

static void forget_events_locked(struct checkpoint *cp, const char *path)
{
	static const enum evidence_kind kinds[] = {EVIDENCE_CLOSE, EVIDENCE_RENAME};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct event *e = find_event_locked(cp, kinds[i], path);

		if (e) {
			const struct tally_op op = op_of(e);

			tally_subtract(checkpoint_tally_locked(cp), &op);
			free_event(cp, e);
		}
	}
}

void checkpoint_vanishes(struct checkpoint *cp, const char *path)
{
	forget_events_locked(cp, path);
	accord_event(cp, NR_EVIDENCE_KINDS, path, -1);
}

void checkpoint_vanished(struct checkpoint *cp, const char *path)
{
	LOCK_SCOPE(&cp->units->lock);
	checkpoint_vanishes(cp, path);
}

void checkpoint_hear_event_locked(struct checkpoint *cp, enum evidence_kind kind, const char *path,
				  int rank)
{
	struct tally_op op;
	struct event *e;

	cp->changed_ns = clock_mono_ns();
	cp->removing = kind == EVIDENCE_UNLINK &&
		       !(cp->rule && rule_seen(cp->rule, kind, cp->target.name, path));
	if (kind == EVIDENCE_UNLINK)
		forget_events_locked(cp, path);
	if (cp->rule && !is_of_interest_locked(cp, path))
		return;
	if (find_event_locked(cp, kind, path)) {
		if (kind == EVIDENCE_UNLINK) /* the name came again, as other nodes heard */
			accord_event(cp, kind, path, rank);
		return;
	}
	if (!cp->events_by_path.buckets && table_init(&cp->events_by_path))
		return; /* then other evidence has to do */
	e = calloc(1, sizeof(*e));
	if (e)
		e->path = strdup(path);
	if (!e || !e->path) {
		free(e);
		return; /* then other evidence has to do */
	}
	e->kind = kind;
	e->rank = rank;
	op = op_of(e);
	tally_add(checkpoint_tally_locked(cp), &op);
	list_append(&cp->events, &e->link);
	table_add(&cp->events_by_path, &e->node, hash_text(kind, path));
	accord_event(cp, kind, path, rank);
	waitq_wake(&cp->units->commits);
}

void checkpoint_event_locked(struct checkpoint *cp, enum evidence_kind kind, const char *path,
			     int rank)
{
	if (!accord_is_cut(cp))
		checkpoint_hear_event_locked(cp, kind, path, rank);
	else if (kind == EVIDENCE_UNLINK) /* by a call that was under way */
		checkpoint_vanishes(cp, path);
}

void checkpoint_note(struct checkpoint *cp, enum evidence_kind kind, const char *path, int rank)
{
	LOCK_SCOPE(&cp->units->lock);
	checkpoint_event_locked(cp, kind, path, rank);
}

/* True if a file of @rank that fits is there, closed under its name or renamed to it. */
bool checkpoint_has_file_of_locked(struct checkpoint *cp, const struct evidence *ev, int rank)
{
	return tally_files(checkpoint_tally_locked(cp), ev, rank);
}

bool checkpoint_is_losing_locked(const struct checkpoint *cp)
{
	return cp->removing || accord_hears_of_removing(cp);
}
