/* SPDX-License-Identifier: MIT */
/*
 * The driver: one thread for all accords of a mount. The thread looks at what has changed here,
 * performs what the agreement asks for, and takes what other nodes have recorded. Then it waits:
 * for records, for accord_wake, or for a time.
 *
 * The driver works with the units' lock, and drops the lock for every call for records. Only this
 * thread takes an accord from units->accords. Votes and decisions are not here (accord_end.c).
 */
#include "engine/cluster/accord_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/wait.h"
#include "engine/cluster/checkpoint_stage.h"
#include "engine/cluster/claim.h"
#include "engine/cluster/fail.h"
#include "engine/coord/nodes.h"
#include "engine/record/vote.h"

/*
 * LOOK_NS: time to the next round at most; SOON_NS: the same when a call failed or news is held
 * back. DOUBT_NS: silence after which the node asks whether the generation is over. SETTLE_NS: at
 * umount, for what other nodes must hear; too short: they wait until this node counts as dead.
 */
#define LOOK_NS	  NSEC_PER_SEC
#define SOON_NS	  (20 * NSEC_PER_MSEC)
#define DOUBT_NS  (10 * NSEC_PER_SEC)
#define SETTLE_NS (5 * NSEC_PER_SEC)

/* May drop the lock. Acts on what has happened here since the last call. */
static void tend_locked(struct accord *a)
{
	struct checkpoint *cp = a->cp;
	uint64_t silent_ns;

	if (agreement_is_over(&a->a))
		return;
	if (cp->state == GENERATION_FAILED)
		accord_give_reason(a, -cp->err, false, false, cp->reason);
	else if (cp->state == GENERATION_DROPPED)
		accord_give_reason(a, ECANCELED, true, false, "it was removed");
	accord_look_at_lives(a);
	accord_stand_in(a);
	if (a->a.state == AGREE_JOINING)
		return;
	/* Messages name missing voters: look first, so that none names a node that has voted. */
	if (agreement_is_root(&a->a) && a->a.state == AGREE_PREPARED &&
	    clock_mono_ns() - a->heard_ns > LOOK_NS &&
	    clock_mono_ns() - a->looked_behind_ns > LOOK_NS)
		accord_look_behind(a);
	if (!cp->visible && cp->state == GENERATION_OPEN && !agreement_is_root(&a->a) &&
	    checkpoint_show_locked(cp))
		accord_give_reason(a, EEXIST, false, false,
				   "its name was taken on a node meanwhile");
	if (agreement_is_root(&a->a) && cp->state == GENERATION_SEALED) {
		if (a->a.state == AGREE_OPEN)
			a->heard_ns = clock_mono_ns();
		agreement_end(&a->a, false);
	}
	if (accord_may_report(a))
		agreement_report(&a->a);
	if (a->leaving && accord_may_leave(a)) {
		agreement_leave(&a->a);
		a->left = a->a.state == AGREE_PREPARED;
	}
	if (!agreement_is_root(&a->a) && a->a.state == AGREE_PREPARED &&
	    checkpoint_rests_in_locked(cp, GENERATION_OPEN) && checkpoint_is_closed_locked(cp) &&
	    (accord_is_cut(cp) || !checkpoint_is_being_removed_locked(cp)) &&
	    (!a->left || agreement_may_vote(&a->a))) /* until then nodes may join below */
		checkpoint_seal_locked(cp);
	silent_ns = a->doubted_ns > a->heard_ns ? a->doubted_ns : a->heard_ns;
	if (clock_mono_ns() - silent_ns > DOUBT_NS && (!agreement_is_root(&a->a) || a->a.heir)) {
		a->doubted_ns = clock_mono_ns();
		agreement_doubt(&a->a);
	}
}

/* The text of a record that is a vote, for the caller to free; or NULL. */
static char *vote_text(struct accord *a, const char *head)
{
	__cleanup_free char *payload = vote_compose(accord_nodes(a->cp), a->list, NULL);

	return payload ? agreement_text(head, payload) : NULL;
}

/* Lock not held. As coord_ops.record. If both cannot be made together, only the first is made. */
static int make(struct accord *a, struct agree_op *op, const char *text, const char *also,
		char *first, size_t *len)
{
	struct units *us = a->cp->units;
	const char *gen = accord_generation(a->cp);
	const struct coord_record with = {op->also, also};
	int r;

	if (!a->a.guarded)
		return us->coord->record(us->coord_arg, &a->cp->owner, gen, op->kind, text,
					 strlen(text), first, len);
	r = us->coord->record_open(us->coord_arg, &a->cp->owner, gen, op->kind, text, strlen(text),
				   also ? &with : NULL, first, len);
	if (r != -EAGAIN)
		return r;
	op->also[0] = '\0';
	return us->coord->record_open(us->coord_arg, &a->cp->owner, gen, op->kind, text,
				      strlen(text), NULL, first, len);
}

/* One operation on the records. */
struct exchange {
	struct agree_op op;
	char *text, *also; /* to be written, and with it; NULL: no memory, or nothing */
	char *first;	   /* the record that stands */
	ssize_t r;
	bool ours, over; /* made by this node; none stands, or the generation is over */
};

/* Fills in what is to be written. */
static void compose_locked(struct accord *a, struct exchange *x)
{
	const struct agree_op *op = &x->op;
	const char *payload = "";
	char *report = NULL;

	if (op->payload == AGREE_OF_REPORT)
		payload = report = accord_compose_report(a);
	else if (op->payload == AGREE_OF_VOTE)
		payload = report = vote_compose(agreement_is_root(&a->a) ? 1 : accord_nodes(a->cp),
						a->list, a->for_heir);
	else if (op->payload != AGREE_NONE)
		payload = a->payloads[op->payload];
	if (*op->also)
		x->also = vote_text(a, op->also_head);
	x->text = payload ? agreement_text(op->head, payload) : NULL;
	free(report);
}

/* Lock not held. */
static void call(struct accord *a, struct exchange *x)
{
	struct checkpoint *cp = a->cp;
	struct units *us = cp->units;
	size_t len = 0;

	x->r = -ENOMEM;
	x->first = malloc(COORD_TEXT_MAX + 1);
	if (x->text && x->first && x->op.what == AGREE_READ) {
		x->r = us->coord->read(us->coord_arg, cp->owner.uid, accord_generation(cp),
				       x->op.kind, x->first, COORD_TEXT_MAX);
		len = x->r > 0 ? (size_t)x->r : 0;
	} else if (x->text && x->first && (x->also || !*x->op.also)) {
		x->r = make(a, &x->op, x->text, x->also, x->first, &len);
		x->ours = x->r == 1;
		x->over = a->a.guarded && x->r == -ESTALE;
		if (x->ours) {
			len = strlen(x->text);
			memcpy(x->first, x->text, len);
		}
	}
	if (x->first)
		x->first[len] = '\0';
	x->over = x->over || (x->op.what == AGREE_READ && x->r == -ENOENT);
}

/* The report under way was recorded. */
static void note_said_locked(struct accord *a)
{
	a->said_renames = a->saying_renames;
	a->said_last = a->saying_last;
	a->dead_writer.said |= a->saying_death && a->saying_unranked == a->dead_writer.unranked;
	while (a->sending) {
		json_array_remove(a->events, 0);
		a->sending--;
	}
	a->said++;
	a->said_ns = clock_mono_ns();
}

/* The call has succeeded. False: a decision stands that nobody can read; it may be anybody's. */
static bool take_answer_locked(struct accord *a, const struct exchange *x)
{
	bool of_decision = !strcmp(x->op.kind, COORD_DECISION);
	struct agree_news news;

	if (!x->ours && of_decision && !x->over && !accord_keep_decision(a, x->first) &&
	    x->op.what == AGREE_RECORD)
		return false;
	if (x->ours && x->op.payload == AGREE_OF_REPORT)
		note_said_locked(a);
	agreement_answer(&a->a, &x->op, x->ours, x->over ? NULL : x->first, &news);
	accord_take_news(a, &news);
	if (a->a.heir && a->a.abort)
		accord_disinherit(a);
	return true;
}

/* Drops the lock. Performs what the agreement asks for. False: there is nothing, or it failed. */
static bool perform_locked(struct accord *a)
{
	struct units *us = a->cp->units;
	struct exchange x = {0};

	agreement_next(&a->a, &x.op);
	if (x.op.what == AGREE_IDLE)
		return false;
	/* A node that joins without showing life counts as dead, which aborts it for all. */
	a->failing = a->a.state == AGREE_JOINING && !nodes_hold(us->nodes);
	if (a->failing)
		return false;
	compose_locked(a, &x);
	lock_drop(&us->lock);
	call(a, &x);
	lock_take(&us->lock);
	a->stirred_ns = clock_mono_ns();
	a->failing = (x.r < 0 && !x.over) || !take_answer_locked(a, &x);
	a->sending = 0;
	waitq_wake_all(&us->changed);
	waitq_wake(&us->commits);
	free(x.first);
	free(x.also);
	free(x.text);
	return !a->failing;
}

/* Drops the lock. Does all that can be done now. */
static void drive_locked(struct accord *a)
{
	struct checkpoint *cp = a->cp;
	struct units *us = cp->units;
	struct error e;

	accord_give_verdict(a);
	do {
		tend_locked(a);
		if (accord_is_late(a, &e) && !accord_refuses(a, ETIMEDOUT, e.text)) {
			lock_drop(&us->lock);
			checkpoint_fail(cp, -ETIMEDOUT, e.text);
			lock_take(&us->lock);
			tend_locked(a);
		}
	} while (accord_vote(a) || perform_locked(a));
	if (!agreement_is_over(&a->a) || a->done)
		return;
	if (!a->over_ns)
		a->over_ns = clock_mono_ns();
	a->done = accord_conclude(a);
	waitq_wake_all(&us->changed);
}

/* Drops the lock. Drives every accord once. Returns how long to wait at most before the next. */
static uint64_t drive_all_locked(struct units *us)
{
	uint64_t soon = LOOK_NS;
	struct list *l, *next;

	/* Only this thread takes an accord from the list; others append theirs. */
	for (l = us->accords.next; l != &us->accords; l = next) {
		struct accord *a = container_of(l, struct accord, link);
		struct checkpoint *cp = a->cp;

		if (!a->done)
			drive_locked(a);
		accord_do_left(a);
		if (a->failing || (!a->done && agreement_is_over(&a->a)) || accord_is_pausing(a))
			soon = SOON_NS;
		if (accord_clear(a)) {
			next = l->next;
			list_del(&a->link);
			list_init(&a->link);
			lock_drop(&us->lock);
			checkpoint_put(cp);
			lock_take(&us->lock);
		} else {
			next = l->next;
		}
	}
	return soon;
}

/* The records that all accords await. */
static struct coord_key *collect_locked(struct units *us, size_t *nr)
{
	struct coord_key *keys = NULL;
	struct list *l;
	size_t room = 0;

	*nr = 0;
	list_for_each (l, &us->accords)
		room += AGREE_AWAITS;
	keys = calloc(room + 1, sizeof(*keys));
	list_for_each (l, &us->accords) {
		struct accord *a = container_of(l, struct accord, link);
		char kinds[AGREE_AWAITS][COORD_KIND_MAX];
		unsigned n = keys ? agreement_awaits(&a->a, kinds) : 0, i;

		for (i = 0; i < n; i++) {
			struct coord_key *k = &keys[(*nr)++];

			k->owner = a->cp->owner.uid;
			snprintf(k->gen, sizeof(k->gen), "%s", accord_generation(a->cp));
			memcpy(k->kind, kinds[i], sizeof(k->kind));
			/* No other node can end it while files of it are open here. */
			k->nodes = checkpoint_is_closed_locked(a->cp)
					   ? (unsigned)a->cp->maker->spans
					   : 0;
			k->since_ns = a->stirred_ns;
		}
	}
	return keys;
}

/* True if nothing is left to tell other nodes. A node that has voted leaves the rest to them. */
static bool is_settled_locked(struct units *us)
{
	struct list *l;

	list_for_each (l, &us->accords) {
		struct accord *a = container_of(l, struct accord, link);

		if (!agreement_is_over(&a->a) && !accord_has_left(a->cp))
			return false;
	}
	return true;
}

/* The accord that still awaits @key; or NULL. */
static struct accord *awaits_locked(struct units *us, const struct coord_key *key)
{
	char kinds[AGREE_AWAITS][COORD_KIND_MAX];
	struct list *l;

	list_for_each (l, &us->accords) {
		struct accord *a = container_of(l, struct accord, link);
		unsigned n;

		if (strcmp(accord_generation(a->cp), key->gen) != 0)
			continue;
		for (n = agreement_awaits(&a->a, kinds); n--;)
			if (!strcmp(kinds[n], key->kind))
				return a;
	}
	return NULL;
}

/*
 * Drops the lock. Takes the records of @keys that are there. False: some are, and none can be read.
 */
static bool hear_locked(struct units *us, const struct coord_key *keys, size_t nr)
{
	char *text = malloc(COORD_TEXT_MAX + 1);
	bool any = false, heard = false;
	size_t i;

	for (i = 0; text && i < nr; i++) {
		/* Only this thread takes an accord from the list. */
		struct accord *a = keys[i].there ? awaits_locked(us, &keys[i]) : NULL;

		any = any || keys[i].there;
		if (a && accord_look_at(a, keys[i].kind, text))
			heard = true;
	}
	free(text);
	return heard || !any;
}

/* Drops the lock. A record that cannot be read may be anybody's; it must not hide the others. */
static void look_at_all_locked(struct units *us)
{
	struct list *l;

	list_for_each (l, &us->accords) {
		struct accord *a = container_of(l, struct accord, link);

		if (!a->done)
			accord_look(a);
	}
}

void *accord_main(void *units)
{
	struct units *us = units;
	uint64_t give_up = 0;

	lock_take(&us->lock);
	for (;;) {
		uint64_t seen, now, soon = drive_all_locked(us);
		struct coord_key *keys;
		bool heard;
		size_t nr;
		int err;

		lock_drop(&us->lock);
		claim_go_on(us);
		lock_take(&us->lock);
		now = clock_mono_ns();
		if (us->ending && !give_up)
			give_up = now + SETTLE_NS;
		if (us->ending && (is_settled_locked(us) || now > give_up))
			break;
		if (us->ending)
			soon = SOON_NS;
		keys = collect_locked(us, &nr);
		if (list_empty(&us->accords))
			soon = 3600 * NSEC_PER_SEC;
		lock_drop(&us->lock);
		err = us->coord->wait(us->coord_arg, keys, nr, us->accord_wake, now + soon);
		if (read(us->accord_wake, &seen, sizeof(seen)) < 0 && errno != EAGAIN)
			log_debug("eventfd: %s", strerror(errno));
		lock_take(&us->lock);
		heard = hear_locked(us, keys, nr);
		if (!heard || err < 0)
			look_at_all_locked(us);
		if (!heard) {
			lock_drop(&us->lock);
			wait_fd(us->accord_wake, clock_mono_ns() + SOON_NS);
			lock_take(&us->lock);
		}
		free(keys);
	}
	us->accords_over = true;
	waitq_wake_all(&us->changed);
	lock_drop(&us->lock);
	return NULL;
}

void accords_finish(struct units *us)
{
	while (!list_empty(&us->accords)) {
		struct accord *a = container_of(us->accords.next, struct accord, link);

		list_del(&a->link);
		checkpoint_put(a->cp);
	}
}
