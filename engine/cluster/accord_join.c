/* SPDX-License-Identifier: MIT */
/*
 * Names over nodes: a node begins a checkpoint under a name, or finds one that another node has
 * begun, and joins it; and it records renames. Takes the units' lock, and makes no call for records
 * with it. A process may wait here for seconds; the bounds are below. Which generation has a name
 * the records tell (claim.h); what follows a join is not here (accord_drive.c).
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
#include "engine/base/json.h"
#include "engine/base/lock.h"
#include "engine/cluster/checkpoint_stage.h"
#include "engine/cluster/claim.h"
#include "engine/cluster/other_nodes.h"
#include "engine/coord/choice.h"
#include "engine/coord/nodes.h"
#include "engine/record/refusal.h"

/*
 * Bounds on waits, and what happens when they are too short. CLAIM_WAIT_NS: for a live node to end
 * what a dead job has left; EBUSY. LOST_NS: for caches of the backing to show a staging directory;
 * EIO. GLANCE_NS: for what a listing can do without. NAMING_NS: for what was decided to get its
 * name; the name is absent. ANEW_NS: for a rank to begin anew what an earlier incarnation has left;
 * a process opens a directory that is about to be replaced.
 */
#define CLAIM_WAIT_NS (10 * NSEC_PER_SEC)
#define LOST_NS	      (60 * NSEC_PER_SEC)
#define GLANCE_NS     NSEC_PER_SEC
#define NAMING_NS     (5 * NSEC_PER_SEC)
#define ANEW_NS	      (2 * NSEC_PER_SEC)

/* Records the abort of the generation @c, whose root is dead. */
static int abort_for(struct units *us, const struct caller *owner, const struct claim *c)
{
	__cleanup_free char *first = malloc(COORD_TEXT_MAX);
	char head[AGREE_HEAD_MAX], reason[512], label[NODES_LABEL_MAX];
	__cleanup_free char *payload = NULL, *text = NULL;
	struct refusal refusal = {.err = EIO, .reason = reason, .node = label};
	size_t len;
	int r;

	snprintf(reason, sizeof(reason), "node %s, which began it, shows no life", c->opened.label);
	refusal.node = nodes_label(us->nodes, nodes_id(us->nodes), label);
	payload = refusal_write(&refusal);
	agreement_write_decision(head, false, nodes_id(us->nodes));
	text = payload ? agreement_text(head, payload) : NULL;
	if (!first || !text)
		return -ENOMEM;
	if (us->coord->record_open)
		r = us->coord->record_open(us->coord_arg, owner, c->end.last, COORD_DECISION, text,
					   strlen(text), NULL, first, &len);
	else
		r = us->coord->record(us->coord_arg, owner, c->end.last, COORD_DECISION, text,
				      strlen(text), first, &len);
	return r < 0 && r != -ESTALE ? r : 0; /* -ESTALE: it is over */
}

int accord_abort_for_former_mount(struct units *us, const struct caller *owner, const char *gen)
{
	struct claim c;
	int err = us->nodes ? claim_look(us, owner->uid, gen, &c) : 0;

	if (err || !us->nodes || !c.open || !nodes_is_before(us->nodes, c.opened.node))
		return err;
	return accord_is_left_to_heirs(us, owner->uid, gen) ? 0 : abort_for(us, owner, &c);
}

static int tell_busy(struct checkpoint *cp, const struct claim *c)
{
	char text[MESSAGE_MAX], path[PATH_MAX];

	checkpoint_path(cp, path, sizeof(path));
	MESSAGE(text, CHECKPOINT_BUSY_ELSEWHERE, path, c->opened.job, c->opened.label,
		cp->maker->key);
	failures_add(cp->units->failures, cp->owner.uid, "save", path, EBUSY, text);
	return -EBUSY;
}

/* True if it was decided that @c gets its name, and its staging directory may still be there. */
static bool is_being_named(struct units *us, const struct caller *asks, int dir,
			   const struct claim *c)
{
	struct backing b = backing_for(us->contents->backing, asks);
	char staging[STAGING_MAX];
	struct statx stx;

	staging_name(staging, c->end.last);
	return c->settled && backing_stat_at(&b, dir, staging, &stx) != -ENOENT;
}

/* True if, besides, nothing has the name meanwhile. */
static bool is_nowhere(struct units *us, const struct caller *asks, const struct place *at,
		       const struct claim *c)
{
	struct backing b = backing_for(us->contents->backing, asks);
	struct statx stx;

	return is_being_named(us, asks, at->dir, c) &&
	       backing_stat_at(&b, at->dir, at->name, &stx) == -ENOENT;
}

/*
 * Has the name lead to what another node gave it to, whatever caches of the backing remember. Once
 * for each generation that gets it, unless that may still be about to get it.
 */
static void refresh(struct units *us, const struct caller *c, const struct place *at,
		    const struct claim *claim)
{
	uint64_t key = hash_text(hash_name(&at->id, at->name), claim->end.last);
	_Atomic uint64_t *kept = &us->fresh[key % FRESH_KEPT];
	struct backing b = accord_backing(us, NULL, c);
	int pin;

	if (!*claim->end.last || atomic_load(kept) == key)
		return;
	pin = backing_pin_now(&b, at->dir, at->name);
	if (pin >= 0)
		close(pin);
	if (!claim->settled && (pin >= 0 || pin == -ENOENT))
		atomic_store(kept, key);
}

/*
 * True if the name still belongs to an earlier incarnation of the job of @p. Ranks that share the
 * directory may have found it on another node; the first that writes replaces it, and for a moment
 * nothing has the name. The others wait up to ANEW_NS, once per generation.
 */
static bool is_left_behind(struct units *us, const struct claim *c, struct process *p,
			   uint64_t since_ns)
{
	uint64_t now = clock_mono_ns(), *since;

	if (!(c->open || c->superseded) || !p->spans ||
	    epoch_order(p, c->opened.job, EPOCH_LASTS) != EPOCH_NEWER || now - since_ns >= ANEW_NS)
		return false;
	LOCK_SCOPE(&us->lock);
	since = known_make(&us->left, p, hash_text(c->open, c->end.last));
	if (since && !*since)
		*since = now;
	return since && now - *since < ANEW_NS;
}

static int wait_a_moment(struct units *us)
{
	LOCK_SCOPE(&us->lock);
	return units_wait(us);
}

/*
 * Waits until what has the name is decided, unless its job goes on with it. @orphan: the generation
 * that this node has aborted meanwhile, since its root is dead; or "".
 */
static int find_free(struct checkpoint *cp, struct claim *c, char orphan[COORD_GEN_MAX])
{
	struct units *us = cp->units;
	uint64_t until = clock_mono_ns() + CLAIM_WAIT_NS;
	int err;

	for (;;) {
		err = claim_find(us, cp->owner.uid, &cp->target.dir_id, cp->target.name, c);
		if (!err && clock_mono_ns() < until &&
		    is_being_named(us, &cp->owner, cp->target.dir, c)) {
			LOCK_SCOPE(&us->lock);
			err = units_wait(us);
			if (err)
				return err;
			continue;
		}
		if (err)
			return err;
		if (!c->open) {
			err = claim_make_way(us, &cp->owner, c);
			if (err)
				return err < 0 ? err : 0;
			continue;
		}
		if (strcmp(c->opened.node, nodes_id(us->nodes)) &&
		    !nodes_alive_now(us->nodes, c->opened.node)) {
			bool left = accord_is_left_to_heirs(us, cp->owner.uid, c->end.last);

			err = left ? wait_a_moment(us) : abort_for(us, &cp->owner, c);
			if (err)
				return err;
			if (!left)
				memcpy(orphan, c->end.last, COORD_GEN_MAX);
			continue;
		}
		if (!strcmp(c->opened.job, cp->maker->key) &&
		    strcmp(c->opened.node, nodes_id(us->nodes)))
			return -EEXIST;
		/*
		 * Whether that node lives has to be seen first: a job that begins again after a
		 * power cut waits for that.
		 */
		if (!nodes_shows_life(us->nodes, c->opened.node))
			until = clock_mono_ns() + CLAIM_WAIT_NS;
		LOCK_SCOPE(&us->lock);
		struct checkpoint *mine = accord_part(us, c->end.last);

		/* It has ended here, and other nodes are being told; or another thread makes it. */
		if (mine && mine->visible)
			return -EEXIST;
		if (clock_mono_ns() > until)
			break;
		err = units_wait(us);
		if (err)
			return err;
	}
	return tell_busy(cp, c);
}

/* True if @err says that the records cannot be reached right now. */
static bool note_outage(struct units *us, int err)
{
	bool outage = err == -EHOSTDOWN || err == -EIO || err == -ESTALE || err == -ETIMEDOUT ||
		      err == -EAGAIN;

	if (outage)
		atomic_store(&us->coord_fails, true);
	return outage;
}

/* True if the call is to be repeated after @err. Waits a moment first. */
static bool again_later(struct units *us, int err, uint64_t since_ns)
{
	if (!note_outage(us, err) || clock_mono_ns() - since_ns > us->commit_ns)
		return false;
	LOCK_SCOPE(&us->lock);
	return !units_wait(us);
}

/* -EBUSY, with a message: a mount by etcd, which this mount by dir cannot see, has come. */
static int check_way(struct checkpoint *cp)
{
	struct units *us = cp->units;
	char path[PATH_MAX];
	struct error e;
	int err = us->coord == &coord_dir_ops ? coord_still_dir(us->contents->backing, &e) : 0;

	if (!err)
		return 0;
	checkpoint_path(cp, path, sizeof(path));
	failures_add(us->failures, cp->owner.uid, "save", path, -err, e.text);
	return err;
}

/*
 * As claim_make. Repeats a call whose outcome is unknown, which settles it: the claim may stand,
 * and other nodes may have joined by it.
 */
static int settle_claim(struct checkpoint *cp, const struct claim *c, uint64_t since)
{
	int r;

	do
		r = claim_make(cp, c);
	while (r < 0 && again_later(cp->units, r, since));
	return r;
}

/*
 * True if no node may take this one for dead. A node that was cut off renews its lease first: else
 * other nodes would abort at once what it begins, and a process of its job there would save a part
 * alone.
 */
static bool shows_life(struct units *us)
{
	return nodes_alone(us->nodes) || nodes_hold(us->nodes);
}

/* @orphan: as for find_free. */
static int attach_root(struct checkpoint *cp, const char *first, const char *orphan)
{
	int err;
	LOCK_SCOPE(&cp->units->lock);

	err = accord_attach(cp, nodes_id(cp->units->nodes));
	if (err)
		return err;
	memcpy(cp->accord->first, first, COORD_GEN_MAX);
	memcpy(cp->accord->orphan, orphan, COORD_GEN_MAX);
	return 0;
}

int accord_begin(struct checkpoint *cp)
{
	char first[COORD_GEN_MAX], orphan[COORD_GEN_MAX] = "";
	struct units *us = cp->units;
	uint64_t since = clock_mono_ns();
	bool claimed; /* or perhaps: then its records stay */
	struct claim c;
	int r, err;

	r = check_way(cp);
	if (r)
		return r;
	do {
		r = shows_life(us) ? find_free(cp, &c, orphan) : -EHOSTDOWN;
		err = r ? 0 : accord_hear_of_former(cp, &c);
		if (err)
			return err;
		/*
		 * Looked at before the claim: after it others may join, and save to what this node
		 * then has to give up.
		 */
		if (!r)
			r = checkpoint_check_free(cp);
		if (!r)
			r = claim_open(cp);
		claimed = !r;
		if (claimed)
			r = settle_claim(cp, &c, since);
		if (!r || !claimed)
			us->coord->forget(us->coord_arg, &cp->owner, accord_generation(cp));
	} while (!r || (r < 0 && !claimed && again_later(us, r, since)));
	if (r < 0 && !claimed)
		return r;
	if (r >= 0)
		accord_stage_name(cp);
	namechain_first(first, cp->target.dir_id.ino, cp->target.name);
	err = attach_root(cp, first, orphan);
	/*
	 * If r < 0 other nodes may have joined: the driver tells them that it is over
	 * (accord_never_shown).
	 */
	return r < 0 ? r : err;
}

void accord_never_shown(struct checkpoint *cp)
{
	if (!cp->accord)
		return;
	LOCK_SCOPE(&cp->units->lock);
	if (!state_is_over(cp->state)) /* else others have ended it meanwhile */
		checkpoint_set_state(cp, GENERATION_DROPPED);
	accord_wake(cp);
}

static bool has_name(const struct checkpoint *cp, const struct inode_id *dir_id, const char *name)
{
	return same_inode(&cp->target.dir_id, dir_id) && !strcmp(cp->target.name, name);
}

/* Another node has renamed it. */
static int takes_name_locked(struct checkpoint *cp, const struct place *at)
{
	/* Once it is over, the driver uses the directory without the lock. */
	if (agreement_is_over(&cp->accord->a) || has_name(cp, &at->id, at->name))
		return 0;
	/* Keeps the descriptor's number: is_staged uses it without the lock. */
	if (dup3(at->dir, cp->target.dir, O_CLOEXEC) < 0)
		return -EMFILE;
	cp->target.dir_id = at->id;
	snprintf(cp->target.name, sizeof(cp->target.name), "%s", at->name);
	return 0;
}

/* Drops the lock while it waits for the outcome of the join. 0: shown; 1: too late. */
static int await_join_locked(struct units *us, const char *gen, const struct place *at,
			     unsigned renames, struct checkpoint **out)
{
	int err = 0;

	while (!err) {
		struct checkpoint *cp = accord_part(us, gen);

		if (!cp || cp->accord->a.state == AGREE_LATE)
			return 1;
		if (cp->visible && !has_name(cp, &at->id, at->name) &&
		    (checkpoint_is_held_locked(cp) || us->renames != renames)) {
			/*
			 * This node has renamed it, and has yet to record that; or did after the
			 * caller asked for the name.
			 */
			err = units_wait(us);
			return err ? err : 1;
		}
		if (cp->visible) {
			err = takes_name_locked(cp, at);
			if (err)
				return err;
			cp->refs++;
			*out = cp;
			return 0;
		}
		if (cp->state != GENERATION_OPEN)
			return 1;
		err = units_wait(us);
	}
	return err;
}

/* Lock not held. Makes this node's part in @claim; the driver joins. */
static int join(struct units *us, const struct caller *c, struct process *p, const struct place *at,
		const struct claim *claim)
{
	struct caller owner = {.uid = c->uid, .gid = claim->opened.gid, .pid = c->pid};
	struct checkpoint *cp;
	int err = checkpoint_adopt(us, &owner, p, at, claim->end.last, claim->opened.inherits,
				   claim->opened.follows, &cp);

	if (err)
		return err;
	{
		LOCK_SCOPE(&us->lock);
		if (!accord_part(us, claim->end.last))
			err = accord_attach(cp, claim->opened.node);
	}
	checkpoint_put(cp);
	return err;
}

/*
 * @claim is open, and its directory is not there. 1: look again, after a moment; -EIO, with a
 * message: too much time has passed since @since_ns. -EINTR.
 */
static int await_staging(struct units *us, const struct caller *c, const struct place *at,
			 const struct claim *claim, uint64_t since_ns)
{
	uint64_t patience = us->commit_ns < LOST_NS ? us->commit_ns : LOST_NS;
	char text[MESSAGE_MAX], path[PATH_MAX], staging[STAGING_MAX];

	if (clock_mono_ns() - since_ns < patience) {
		LOCK_SCOPE(&us->lock);
		return units_wait(us) ? -EINTR : 1;
	}
	units_path(us, at->dir, at->name, path, sizeof(path));
	staging_name(staging, claim->end.last);
	MESSAGE(text, CHECKPOINT_LOST, path, claim->opened.label, staging, path);
	failures_add(us->failures, c->uid, "save", path, EIO, text);
	return -EIO;
}

/*
 * Takes part in @claim, which is open. 0, *@out or none. 1: look at the claim again. -ENOENT: it
 * has no directory to take part in, which was published, or removed, just now.
 */
static int take_part(struct units *us, const struct caller *c, struct process *p,
		     const struct place *at, const struct claim *claim, unsigned renames,
		     struct checkpoint **out)
{
	bool mine = !strcmp(claim->opened.node, nodes_id(us->nodes));
	int err = 0;

	if (strcmp(claim->opened.job, p->key) ||
	    (!mine && !nodes_alive_now(us->nodes, claim->opened.node)))
		return 0;
	{
		LOCK_SCOPE(&us->lock);
		if (accord_part(us, claim->end.last)) {
			err = await_join_locked(us, claim->end.last, at, renames, out);
			if (err <= 0)
				return err;
			mine = true;
		}
		if (mine) { /* it has ended here, and the record follows */
			err = units_wait(us);
			return err ? err : 1;
		}
	}
	err = join(us, c, p, at, claim);
	return err ? err : 1;
}

static unsigned renames_of(struct units *us)
{
	LOCK_SCOPE(&us->lock);
	return us->renames;
}

int accord_find(struct units *us, const struct caller *c, struct process *asks,
		const struct place *at, bool patient, struct checkpoint **out)
{
	uint64_t since = clock_mono_ns();
	unsigned renames;
	struct process *p = asks ? process_get(asks) : NULL;
	struct claim claim;
	int err;

	*out = NULL;
	do {
		/*
		 * Most names have no claim: a look tells so, and the process that asks need not be
		 * known. In an outage a look costs more, and only processes wait that might find
		 * something.
		 */
		if (!p && atomic_load(&us->coord_fails))
			p = units_process(us, c);
		err = 0;
		if (p && !p->spans)
			break;
		renames = renames_of(us);
		err = claim_find(us, c->uid, &at->id, at->name, &claim);
		if (!err)
			atomic_store(&us->coord_fails, false);
		if (!err && is_nowhere(us, c, at, &claim) && clock_mono_ns() - since < NAMING_NS) {
			LOCK_SCOPE(&us->lock);
			err = units_wait(us);
			err = err ? err : 1;
			continue;
		}
		if (!p && (err || claim.open || claim.superseded))
			p = units_process(us, c);
		if (!err && p && patient && is_left_behind(us, &claim, p, since)) {
			LOCK_SCOPE(&us->lock);
			err = units_wait(us);
			err = err ? err : 1;
			continue;
		}
		if (!err && !claim.open) {
			refresh(us, c, at, &claim);
			break;
		}
		if (!p)
			err = -ENOMEM;
		else if (!err)
			err = p->spans ? take_part(us, c, p, at, &claim, renames, out) : 0;
		else if (p->spans)
			err = again_later(us, err, since) ? 1 : err;
		else
			err = note_outage(us, err) ? 0 : err;
		if (err == -ENOENT)
			err = await_staging(us, c, at, &claim, since);
	} while (err == 1 && (patient || clock_mono_ns() - since < GLANCE_NS));
	process_put(p);
	return err == 1 ? -EAGAIN : err;
}

int accord_renamed(struct checkpoint *cp, const struct inode_id *dir, const char *name)
{
	struct units *us = cp->units;
	uint64_t since = clock_mono_ns();
	struct claim c;
	int r = 0;

	if (!cp->accord)
		return 0;
	do {
		r = claim_follow(us, cp->owner.uid, &cp->target.dir_id, cp->target.name, &c);
		if (r || (!strcmp(c.end.last, accord_generation(cp)) && !c.end.renamed))
			break;
		r = *c.end.closed ? claim_clear(us, &cp->owner, c.end.first, "")
				  : claim_make(cp, &c);
	} while (!r || (r == -EAGAIN && again_later(us, r, since)));
	accord_stage_name(cp);
	while (r >= 0) {
		r = claim_follow(us, cp->owner.uid, dir, name, &c);
		if (r || strcmp(c.end.last, accord_generation(cp)) || c.end.renamed)
			break;
		r = claim_leave(cp, &c);
	}
	return r < 0 ? r : 0;
}
