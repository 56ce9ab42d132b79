/* SPDX-License-Identifier: MIT */
/*
 * Votes, decisions and failures of an accord: a node votes when what it has is durable, aborts for
 * a dead node or a time-out, leaves at umount, and ends its part as was decided.
 *
 * Functions with an accord as argument are called with the units' lock, unless they say otherwise;
 * the others take it. The lock is dropped for calls to the backing and for records. The commit
 * itself is not here (commit.c).
 */
#include "engine/cluster/accord_impl.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/wait.h"
#include "engine/cluster/claim.h"
#include "engine/cluster/fail.h"
#include "engine/coord/nodes.h"
#include "engine/journal/journal_pending.h"
#include "engine/journal/journal_removal.h"
#include "engine/record/decision.h"
#include "engine/record/refusal.h"
#include "engine/save/publish_checkpoint.h"

/*
 * HEARD_NS bounds the wait until this node hears of a decision; too short: a process changes what
 * is decided. LEAVE_NS: until an exit is known and told; too short: the checkpoint fails.
 */
#define HEARD_NS (5 * NSEC_PER_SEC)
#define LEAVE_NS (2 * NSEC_PER_SEC)

/* Drops the lock. True if the child @node has voted, perhaps just before it died. */
static bool has_voted_locked(struct accord *a, const char *node)
{
	unsigned i;

	accord_look(a);
	accord_look_behind(a);
	for (i = 0; i < a->a.nr_children; i++)
		if (a->a.children[i].voted && !strcmp(a->a.children[i].node, node))
			return true;
	return false;
}

void accord_look_at_lives(struct accord *a)
{
	struct units *us = a->cp->units;
	const char *watched[AGREE_FANOUT + 1];
	unsigned nr = agreement_watches(&a->a, watched), i;
	bool alive;

	if (a->payloads[AGREE_OF_ABORT])
		return; /* an abort is under way */

	for (i = 0; i < nr; i++) {
		char node[COORD_NODE_MAX], name[256], text[MESSAGE_MAX];

		memcpy(node, watched[i], sizeof(node));
		if (nodes_alive(us->nodes, node))
			continue;
		lock_drop(&us->lock);
		alive = nodes_alive_now(us->nodes, node);
		lock_take(&us->lock);
		if (alive || has_voted_locked(a, node) || !agreement_dead(&a->a, node))
			continue;
		accord_blames_node(a, node);
		nodes_name(us->nodes, node, name, sizeof(name));
		MESSAGE(text, CHECKPOINT_NODE_DEAD, a->cp->target.name, name, a->cp->target.name);
		accord_give_reason(a, EIO, false, false, text);
		return;
	}
}

bool accord_is_late(struct accord *a, struct error *e)
{
	struct checkpoint *cp = a->cp;
	char who[512] = "", name[256];
	size_t len = 0;
	unsigned i;

	if (!agreement_is_root(&a->a) || a->a.state != AGREE_PREPARED ||
	    agreement_may_vote(&a->a) || clock_mono_ns() - a->heard_ns <= cp->units->commit_ns)
		return false;
	for (i = 0; i < a->a.nr_children && len < sizeof(who); i++)
		if (!a->a.children[i].voted) {
			nodes_name(cp->units->nodes, a->a.children[i].node, name, sizeof(name));
			len += (size_t)snprintf(who + len, sizeof(who) - len, "%s%s",
						len ? ", " : "", name);
		}
	if (a->a.heir && !len) /* all have voted; it has yet to say that it stands in */
		return false;
	FAIL(e, ETIMEDOUT, CHECKPOINT_NO_VOTE, cp->target.name,
	     (unsigned long long)(cp->units->commit_ns / NSEC_PER_SEC), who, cp->target.name);
	return true;
}

bool accord_may_leave(struct accord *a)
{
	struct checkpoint *cp = a->cp;

	return !agreement_is_root(&a->a) && a->a.state == AGREE_OPEN &&
	       checkpoint_rests_in_locked(cp, GENERATION_OPEN) && checkpoint_is_closed_locked(cp) &&
	       !accord_has_living(cp) && !accord_has_news(a) &&
	       !pointers_wait_for_locked(cp->units, cp->staging);
}

/* Drops the lock while it waits. True if the checkpoint does not need this node any more. */
static bool leave_locked(struct accord *a)
{
	struct checkpoint *cp = a->cp;
	uint64_t since = clock_mono_ns();

	a->leaving = true;
	accord_wake(cp);
	while ((cp->state == GENERATION_OPEN || cp->state == GENERATION_SEALED) &&
	       (a->a.state < AGREE_VOTED || a->a.vote)) {
		uint64_t patience = a->a.state == AGREE_OPEN ? LEAVE_NS : cp->units->commit_ns;

		/* The root waits for no node, but for the verdict on a death. */
		if ((agreement_is_root(&a->a) && !accord_has_dead_writer(cp)) ||
		    clock_mono_ns() - since > patience || units_wait(cp->units))
			break;
	}
	a->leaving = false;
	if (accord_has_left(cp))
		log_info("what this node has of '%s' is durable, and the others go on without it",
			 cp->target.name);
	/* Else the nodes that stay find that this one is gone, and processes here are told. */
	return accord_has_left(cp) || a->a.state >= AGREE_VOTED ||
	       (cp->state != GENERATION_OPEN && cp->state != GENERATION_SEALED);
}

bool accord_leave(struct checkpoint *cp)
{
	char reason[MESSAGE_MAX] = "";
	bool left;

	if (!cp->accord)
		return false;
	{
		LOCK_SCOPE(&cp->units->lock);
		left = leave_locked(cp->accord);
		if (!left && accord_awaits_verdict(cp) && cp->accord->dead_writer.reason)
			snprintf(reason, sizeof(reason), "%s", cp->accord->dead_writer.reason);
	}
	if (*reason)
		checkpoint_fail(cp, -EIO, reason);
	return left;
}

bool accord_vote(struct accord *a)
{
	struct checkpoint *cp = a->cp;
	struct units *us = cp->units;
	struct vote_list lists[AGREE_FANOUT + 1];
	char text[MESSAGE_MAX];
	json_t *own;
	unsigned nr;
	int err;

	if (agreement_is_root(&a->a))
		return accord_vote_early(a);
	if ((!agreement_may_vote(&a->a) && !agreement_may_close(&a->a)) ||
	    cp->state != GENERATION_SEALED || !checkpoint_is_flushed_locked(cp) ||
	    accord_owes_word(a))
		return false;
	nr = accord_lists(a, lists);
	lock_drop(&us->lock);
	err = accord_write_list(cp, a->a.slot, lists, nr, &own);
	lock_take(&us->lock);
	if (!err) {
		json_decref(a->list);
		a->list = own;
		agreement_vote(&a->a);
		return true;
	}
	MESSAGE(text, CHECKPOINT_VOTE_FAILED, cp->target.name, strerror(-err), cp->target.name);
	lock_drop(&us->lock);
	checkpoint_fail(cp, failure_of_backing(err), text);
	lock_take(&us->lock);
	return true;
}

/* Publishes @cp as was decided, for a decider that has not. */
static int publish_for(struct checkpoint *cp, const char *decision)
{
	struct decision *d = malloc(sizeof(*d));
	int err = d ? decision_parse(decision, strlen(decision), d) : -ENOMEM;

	if (!err)
		err = publish_decided(cp, d);
	free(d);
	return err;
}

/*
 * True if its name may still lead to what @cp replaces: caches of the backing may remember that for
 * a while.
 */
static bool shows_replaced(const struct checkpoint *cp)
{
	struct backing b = backing_for(cp->units->contents->backing, &cp->owner);
	struct statx stx;
	struct inode_id id;
	int err =
		cp->replaces ? backing_stat_at(&b, cp->target.dir, cp->target.name, &stx) : -ENOENT;

	if (err)
		return err != -ENOENT;
	id = inode_id_of(&stx);
	return same_inode(&id, &cp->replaced);
}

/*
 * Lock not held. 0: @cp has its name, or had it, and was moved or removed since. -EAGAIN: not yet.
 * @now: gives @cp what it lacks of that. -errno.
 */
static int name_it(struct checkpoint *cp, const char *decision, bool ordinary, bool now)
{
	int has = checkpoint_has_name(cp, cp->target.name), err = -EAGAIN;

	if (has)
		return has < 0 ? has : 0;
	has = checkpoint_has_name(cp, cp->staging);
	if (has < 0)
		return has;
	if (!has)
		return shows_replaced(cp) && !now ? -EAGAIN : 0;
	if (now && ordinary)
		err = checkpoint_name_ordinary(cp);
	else if (now)
		err = decision ? publish_for(cp, decision) : -EBADMSG;
	return err == -ENOENT ? 0 : err;
}

/* Lock not held. As name_it; fails @cp if that can no longer be done. True if @cp has its name. */
static bool name_or_fail(struct checkpoint *cp, const char *decision, bool ordinary, bool late,
			 bool now)
{
	int err = name_it(cp, decision, ordinary, late || now);
	char text[MESSAGE_MAX], path[PATH_MAX];

	if (!err || err == -EAGAIN || !(late || err == -ENOTEMPTY || err == -ENOTDIR))
		return !err;
	checkpoint_path(cp, path, sizeof(path));
	if (err == -EBUSY || ordinary)
		MESSAGE(text, PUBLISH_CONFLICT, path, cp->staging);
	else
		MESSAGE(text, COMMIT_FAILED, path, "giving it its name", strerror(-err), path);
	checkpoint_fail(cp, failure_of_backing(err), text);
	return false;
}

/*
 * When the cause was for which others have aborted, @age_us before they recorded it. A node that
 * hears of it late dates it to its last look in vain, at the latest: the cause does not concern the
 * next incarnation.
 */
static uint64_t cause_of_others_locked(const struct accord *a, json_int_t age_us)
{
	uint64_t since = (a->undecided_ns ? a->undecided_ns : a->cp->opened_ns) + START_TICK_NS;
	uint64_t at = accord_ago(age_us);

	return at < since ? at : since;
}

/* Lock not held. The others have aborted @a. */
static void fail_as_refused(struct accord *a, const struct refusal *refusal)
{
	struct checkpoint *cp = a->cp;
	char text[MESSAGE_MAX];

	MESSAGE(text, CHECKPOINT_FAILED_ELSEWHERE, cp->target.name, refusal->node, refusal->reason);
	lock_take(&cp->units->lock);
	a->cause_ns = cause_of_others_locked(a, refusal->age_us);
	lock_drop(&cp->units->lock);
	checkpoint_fail(cp, refusal->err ? -refusal->err : -EIO, text);
}

/* Lock not held. The generation is over without this node's part. */
static void fail_as_late(struct checkpoint *cp)
{
	char text[MESSAGE_MAX];

	MESSAGE(text, CHECKPOINT_AWAY, cp->target.name, cp->target.name);
	checkpoint_fail(cp, -ESTALE, text);
}

bool accord_conclude(struct accord *a)
{
	struct checkpoint *cp = a->cp;
	struct units *us = cp->units;
	enum agree_state state = a->a.state;
	bool ordinary, named = false, gone, late;
	struct refusal refusal;
	char *decision;

	if (!checkpoint_rests_locked(cp))
		return state_is_over(cp->state);
	if (agreement_is_decider(&a->a) && state == AGREE_COMMIT)
		return cp->state != GENERATION_SEALED;
	if (!cp->visible && state == AGREE_LATE)
		return true; /* never shown */
	decision = a->payloads[AGREE_OF_ABORT] ? strdup(a->payloads[AGREE_OF_ABORT]) : NULL;
	late = clock_mono_ns() - a->over_ns > us->forget_ns;
	lock_drop(&us->lock);
	refusal_read(&refusal, state == AGREE_ABORT ? decision : NULL);
	ordinary = refusal.ordinary;
	if (state != AGREE_ABORT)
		named = checkpoint_has_name(cp, cp->target.name) > 0;
	if (!named && (state == AGREE_COMMIT || ordinary)) {
		/* This node decided for an ordinary directory, but was interrupted. */
		gone = ordinary ? agreement_is_decider(&a->a)
				: !nodes_alive(us->nodes, a->a.decider);
		named = name_or_fail(cp, decision, ordinary, late, gone);
	}
	if (state == AGREE_ABORT && !ordinary)
		fail_as_refused(a, &refusal);
	else if (state == AGREE_LATE && !named)
		fail_as_late(cp);
	refusal_finish(&refusal);
	free(decision);
	lock_take(&us->lock);
	if (!named || !checkpoint_rests_locked(cp))
		return state_is_over(cp->state);
	backing_unlock(cp->fd);
	checkpoint_end_locked(cp, state == AGREE_ABORT ? GENERATION_DROPPED : GENERATION_COMMITTED);
	if (state != AGREE_ABORT) {
		removals_committed_locked(us, cp);
		wrecks_outlived_locked(us, cp);
	}
	return true;
}

int accord_check_open(struct checkpoint *cp)
{
	__cleanup_free char *text = cp->accord ? malloc(COORD_TEXT_MAX + 1) : NULL;
	uint64_t until = clock_mono_ns() + HEARD_NS;
	struct units *us = cp->units;
	int err = 0;

	if (!text)
		return 0;
	if (us->coord->read(us->coord_arg, cp->owner.uid, accord_generation(cp), COORD_DECISION,
			    text, COORD_TEXT_MAX) < 0)
		return 0;
	LOCK_SCOPE(&us->lock);
	accord_wake(cp);
	while (!err && cp->state == GENERATION_OPEN && clock_mono_ns() < until)
		err = units_wait(us);
	return err;
}

/* Drops the lock while it waits. */
static int await_outcome_locked(struct accord *a)
{
	struct units *us = a->cp->units;

	while (!agreement_is_over(&a->a) && !us->accords_over)
		if (units_wait(us))
			break;
	switch (a->a.state) {
	case AGREE_COMMIT:
		return agreement_is_decider(&a->a) ? 0 : -EALREADY;
	case AGREE_ABORT:
		return -ECANCELED;
	case AGREE_LATE:
		return -ESTALE;
	default:
		return -EINTR;
	}
}

int accord_decide(struct checkpoint *cp, const char *decision)
{
	struct accord *a = cp->accord;
	int holds = *a->first ? claim_holds(cp, a->first) : 1;
	bool stands;
	LOCK_SCOPE(&cp->units->lock);

	if (holds < 0)
		return holds;
	stands = checkpoint_stands_locked(cp);
	if (!holds && !agreement_is_over(&a->a))
		accord_give_reason(a, EIO, false, false,
				   "its name was lost: a node that was held up has cleared up what "
				   "was recorded of it");
	else if (!stands && !agreement_is_over(&a->a))
		accord_give_reason(a, ECANCELED, true, false, REMOVED_MEANWHILE);
	if (!holds || !stands) {
		accord_wake(cp);
		return await_outcome_locked(a);
	}
	if (!a->payloads[AGREE_OF_COMMIT])
		a->payloads[AGREE_OF_COMMIT] = strdup(decision);
	if (!a->payloads[AGREE_OF_COMMIT])
		return -ENOMEM;
	agreement_vote(&a->a);
	accord_wake(cp);
	return await_outcome_locked(a);
}

/* True if the first reason to give it up is that it is an ordinary directory. */
static bool is_ordinary_locked(const struct accord *a)
{
	struct refusal r;
	bool ordinary;

	refusal_read(&r, a->payloads[AGREE_OF_ABORT]);
	ordinary = r.ordinary;
	refusal_finish(&r);
	return ordinary;
}

int accord_make_ordinary(struct checkpoint *cp)
{
	struct accord *a = cp->accord;
	int err;

	if (!a)
		return 0;
	LOCK_SCOPE(&cp->units->lock);
	accord_give_reason(a, 0, false, true, "it is an ordinary directory");
	accord_wake(cp);
	err = await_outcome_locked(a);
	if (err != -ECANCELED)
		return err ? err : -EEXIST;
	return agreement_is_decider(&a->a) && is_ordinary_locked(a) ? 0 : -EEXIST;
}
