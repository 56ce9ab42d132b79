/* SPDX-License-Identifier: MIT */
/*
 * The evidence of a checkpoint's end: keeps what programs do to its files, here and on the nodes
 * that report to this one, and looks whether the end is there. Functions that end in _locked, and
 * checkpoint_vanishes, are for callers that hold the units' lock; the others take it. The judgement
 * itself is pure (gen/verdict.h); no commit is made here (commit.c).
 */
#include "engine/base/wait.h"
#include "engine/base/text.h"
#include "engine/unit/checkpoint.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/gen/verdict.h"
#include "engine/unit/accord.h"
#include "engine/unit/drain.h"
#include "engine/unit/internal.h"
#include "engine/unit/missing.h"
#include "engine/unit/others.h"

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

/* The counts for its rule and name as they are now; without a rule they are empty. */
static struct tally *tally_of_locked(struct checkpoint *cp)
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

			tally_subtract(tally_of_locked(cp), &op);
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
	tally_add(tally_of_locked(cp), &op);
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

void checkpoints_note_beside(struct units *us, const struct inode_id *dir, enum evidence_kind kind,
			     const char *name)
{
	char path[NAME_MAX + 4];
	struct list *l;

	if (!atomic_load(&us->nr_checkpoints))
		return;
	snprintf(path, sizeof(path), "../%s", name);
	LOCK_SCOPE(&us->lock);
	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (same_inode(&cp->target.dir_id, dir) && cp->rule &&
		    rule_seen(cp->rule, kind, cp->target.name, path))
			checkpoint_event_locked(cp, kind, path, -1);
	}
}

void checkpoints_note_pointed(struct units *us, const struct inode_id *dir, const char *target,
			      const char *name)
{
	char path[NAME_MAX + 4];
	struct checkpoint *cp;

	if (!atomic_load(&us->nr_checkpoints))
		return;
	cp = checkpoints_find(us, dir, target);
	if (!cp)
		return;
	snprintf(path, sizeof(path), "../%s", name);
	checkpoint_note(cp, EVIDENCE_CLOSE, path, -1);
	checkpoint_put(cp);
}

/* True if all processes that wrote to it have ended, and well. */
static bool all_exited_0_locked(struct checkpoint *cp)
{
	struct list *l;

	list_for_each (l, &cp->participants) {
		struct participant *p = container_of(l, struct participant, link);

		if (!p->ended || p->end.fate != WRITER_EXITED_OK)
			return false;
	}
	return !list_empty(&cp->participants) && !accord_has_writers(cp);
}

/* The largest world that one of its writers knows; 0: none is known. */
int checkpoint_world_locked(struct checkpoint *cp)
{
	struct list *l;
	int world = 0;

	list_for_each (l, &cp->participants) {
		struct process *p = container_of(l, struct participant, link)->process;

		world = p->world > world ? p->world : world;
	}
	return world;
}

static bool is_being_copied_locked(struct checkpoint *cp)
{
	struct list *l;

	list_for_each (l, &cp->participants) {
		struct participant *p = container_of(l, struct participant, link);

		if (p->copies && !p->ended)
			return true;
	}
	return false;
}

/* True if the end of a writer cannot be seen: it is in another pid namespace, say. */
static bool has_unseen_writer_locked(const struct checkpoint *cp)
{
	struct list *l;

	list_for_each (l, &cp->participants)
		if (!container_of(l, struct participant, link)->process->visible)
			return true;
	return false;
}

static bool is_quiet_locked(struct checkpoint *cp)
{
	struct units *us = cp->units;
	uint64_t now = clock_mono_ns();

	if (is_being_copied_locked(cp))
		return false;
	if (now > cp->changed_ns && now - cp->changed_ns >= us->quiet_ns)
		return true;
	return drains_cover_locked(us, cp->maker, cp->owner.uid) &&
	       (list_empty(&cp->participants) || all_exited_0_locked(cp));
}

/* True if a file of @rank that fits is there, closed under its name or renamed to it. */
bool checkpoint_has_file_of_locked(struct checkpoint *cp, const struct evidence *ev, int rank)
{
	return tally_files(tally_of_locked(cp), ev, rank);
}

/*
 * True if it changes some of a committed one: its last close is its end. If nothing is left of that
 * one it is no such change, unless it may be an ordinary directory.
 */
static bool is_follow_up_locked(const struct checkpoint *cp)
{
	return cp->follows && !cp->anew && (cp->nr_shared || cp->may_be_ordinary);
}

static struct gen_facts facts_of_locked(struct checkpoint *cp)
{
	return (struct gen_facts){
		.rule = cp->rule,
		.name = cp->target.name,
		.tally = tally_of_locked(cp),
		.world = checkpoint_world_locked(cp),
		.closed = checkpoint_is_closed_locked(cp),
		.quiet = is_quiet_locked(cp),
		.unseen = has_unseen_writer_locked(cp),
		.exited_0 = all_exited_0_locked(cp),
		.asked = cp->asked,
		.sibling = cp->has_sibling,
		.goes_on = cp->goes_on,
		.removing = checkpoint_is_losing_locked(cp),
		.follows = cp->follows,
		.keeps = is_follow_up_locked(cp),
		.died = accord_has_dead_writer(cp),
		.died_unranked = accord_has_dead_unranked_writer(cp),
	};
}

bool checkpoint_holds_locked(void *checkpoint, const struct evidence *ev)
{
	struct gen_facts facts = facts_of_locked(checkpoint);

	return gen_holds(&facts, ev);
}

/* The end was seen, by the alternative @done of its rule; -1: by none. */
static void seal_locked(struct checkpoint *cp, int done)
{
	cp->done = done;
	if (!cp->closed_ns)
		cp->closed_ns = clock_mono_ns();
	checkpoint_set_state(cp, GENERATION_SEALED);
	generations_hurry_locked(cp);
	accord_wake(cp);
	waitq_wake_all(&cp->units->changed);
	waitq_wake(&cp->units->commits);
}

void checkpoint_seal_locked(struct checkpoint *cp)
{
	seal_locked(cp, -1);
}

/* Seals it if all is there that its rule asks for. Whatever that is, nothing of it may be open. */
void checkpoint_look_for_end_locked(struct checkpoint *cp)
{
	struct gen_facts facts;
	int done;

	if (!accord_sees_end(cp) || accord_has_dead_writer(cp) ||
	    !checkpoint_rests_in_locked(cp, GENERATION_OPEN) || !checkpoint_is_closed_locked(cp))
		return;
	facts = facts_of_locked(cp);
	done = gen_end(&facts);
	if (done == GEN_NO_END)
		return;
	if (accord_awaits_end_of_writer(cp)) /* then a later call looks again */
		return;
	seal_locked(cp, done == GEN_NO_RULE ? -1 : done);
}

bool checkpoint_verdict_locked(struct checkpoint *cp)
{
	struct gen_facts facts = facts_of_locked(cp);
	int done = gen_verdict(&facts);

	if (done == GEN_NO_END)
		return false;
	done = done == GEN_NO_RULE ? -1 : done;
	if (cp->state == GENERATION_OPEN)
		seal_locked(cp, done);
	cp->done = done;
	return true;
}

bool checkpoint_stands_locked(struct checkpoint *cp)
{
	struct gen_facts facts = facts_of_locked(cp);

	return gen_stands(&facts, cp->done);
}

bool checkpoint_is_losing_locked(const struct checkpoint *cp)
{
	return cp->removing || accord_hears_of_removing(cp);
}

bool checkpoint_is_being_removed_locked(struct checkpoint *cp)
{
	return checkpoint_is_losing_locked(cp) && !is_quiet_locked(cp);
}

/*
 * Another job comes, and all writers have ended well: seals a change to some of a committed one.
 * That is whole then, and would wait for silence only for what else may be added.
 */
bool checkpoint_ends_with_writers_locked(struct checkpoint *cp)
{
	checkpoint_look_for_end_locked(cp);
	if (checkpoint_rests_in_locked(cp, GENERATION_OPEN) && is_follow_up_locked(cp) &&
	    !checkpoint_is_losing_locked(cp) && !accord_has_dead_writer(cp) &&
	    checkpoint_is_closed_locked(cp) &&
	    (list_empty(&cp->participants) || all_exited_0_locked(cp)))
		seal_locked(cp, -1);
	return cp->state != GENERATION_OPEN;
}

static void say_missing_evidence_locked(struct checkpoint *cp, char *buf, size_t size)
{
	struct text t = {buf, size, 0};

	rule_missing(cp->rule, checkpoint_holds_locked, cp, buf, size);
	t.len = strlen(buf);
	if (has_unseen_writer_locked(cp) && strstr(buf, "(quiet_s)"))
		text_say(&t, "; no silence counts, since the daemon cannot see a process that "
			     "wrote it (another pid namespace?): `ckptfs commit` does it");
}

void checkpoint_missing(struct checkpoint *cp, char *buf, size_t size)
{
	LOCK_SCOPE(&cp->units->lock);
	if (others_missing(cp, buf, size))
		; /* that has filled @buf */
	else if (cp->state == GENERATION_SEALED)
		snprintf(buf, size, "its end was seen; files of it are still being flushed");
	else if (cp->stuck)
		snprintf(buf, size,
			 "the backing, which refuses its commit so far; it is tried again");
	else if (cp->state != GENERATION_OPEN)
		snprintf(buf, size, "being committed");
	else if (checkpoint_is_being_removed_locked(cp))
		snprintf(buf, size,
			 "a while without changes (quiet_s), since files of it were removed");
	else if (is_being_copied_locked(cp))
		snprintf(buf, size,
			 "the exit of every writer with status 0 and a while without writes "
			 "(quiet_s), since it is being copied");
	else if (is_follow_up_locked(cp))
		snprintf(buf, size, "the close of every file and a while without writes (quiet_s)");
	else if (!cp->rule)
		snprintf(buf, size, "a file whose name tells what it is");
	else if (rule_is_temp(cp->rule, cp->target.name))
		snprintf(buf, size, "the rename to its final name");
	else if (rule_ended(cp->rule, checkpoint_holds_locked, cp) >= 0 &&
		 !checkpoint_is_closed_locked(cp))
		snprintf(buf, size, "the close of every file");
	else if (rule_ended(cp->rule, checkpoint_holds_locked, cp) >= 0)
		snprintf(buf, size,
			 "a while without writes (quiet_s), since what writes it has no rank");
	else
		say_missing_evidence_locked(cp, buf, size);
	missing_add_locked(cp, buf, size);
}

int checkpoint_ask(struct checkpoint *cp)
{
	LOCK_SCOPE(&cp->units->lock);
	if (!cp->rule && !cp->follows)
		return -EPROTO;
	cp->asked = true;
	cp->removing = false; /* the removal is over */
	accord_forget_removing(cp);
	waitq_wake(&cp->units->commits);
	return 0;
}
