/* SPDX-License-Identifier: MIT */
#include "engine/unit/accord.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/coord/agreement.h"
#include "engine/coord/nodes.h"
#include "engine/unit/claim.h"
#include "engine/unit/decision.h"
#include "engine/unit/internal.h"
#include "engine/unit/others.h"
#include "engine/unit/removal.h"
#include "engine/unit/replace.h"
#include "engine/unit/rules.h"
#include "engine/unit/vote.h"
#include "engine/unit/wreck.h"

#define EVENTS_MAX	200		     /* in one report */
#define REPORT_MAX	(COORD_TEXT_MAX / 2) /* bytes of it */
#define LOOK_NS		NSEC_PER_SEC	     /* at whether others live, at least so often */
#define SOON_NS		(20 * NSEC_PER_MSEC) /* the same at what a file tells */
#define PAUSE_NS	(10 * NSEC_PER_MSEC) /* between reports, times agreement_pause */
#define MOURN_NS	NSEC_PER_SEC /* until the end that another node saw must be recorded */
#define DOUBT_NS	(10 * NSEC_PER_SEC)
#define CLAIM_WAIT_NS	(10 * NSEC_PER_SEC) /* for what a dead job has left */
#define CORRECTIONS_MAX 8
#define SETTLE_NS	(5 * NSEC_PER_SEC)

struct child {
	bool open, writers; /* as it said last */
	json_t *open_on;    /* or NULL */
	unsigned nodes;	    /* of its subtree, when it has voted */
};

struct accord {
	/* units lock */
	struct list link;      /* units->accords, while it is driven */
	struct checkpoint *cp; /* referenced while it is */
	struct agreement a;
	struct child children[AGREE_FANOUT];
	json_t *events; /* to be reported: [[kind, path, rank], ...] */
	size_t sending; /* of these are in the report that is under way */
	bool said_open, said_writers, said_removing;
	const struct rule *said_rule;
	unsigned said; /* reports */
	uint64_t said_ns;
	uint64_t mark, marked_ns;  /* how far it had come here, when that was looked at last */
	unsigned nr_heard;	   /* reports and votes */
	json_t *said_on, *seen_on; /* others_open: as it was said, and as it is since seen_ns */
	uint64_t seen_ns;
	unsigned corrections;		    /* reports that were sent for that alone */
	char *payloads[AGREE_OF_ABORT + 1]; /* of a commit, and of an abort */
	char *bereaved; /* a writer died here, before this node knew of an end: the reason that this is, if there was none */
	uint64_t bereaved_ns;
	bool gathered, failing, done, ours;
	bool followed,
		kept; /* what waited for its commit: all of that is done; something has to be redone */
	uint64_t heard_ns, over_ns; /* of others, last; monotonic */
};

static const char *generation_of(const struct checkpoint *cp)
{
	return cp->staging + strlen(STAGING_PREFIX);
}

bool accord_has_others(const struct units *us)
{
	return us->nodes && !nodes_alone(us->nodes);
}

bool accord_is_for(const struct units *us, const struct process *p)
{
	return accord_has_others(us) && p->read && p->spans;
}

void accord_wake(struct checkpoint *cp)
{
	uint64_t one = 1;

	if (cp && cp->accord && write(cp->units->accord_wake, &one, sizeof(one)) < 0)
		log_debug("eventfd: %s", strerror(errno));
}

/* Lock held. */
static int attach(struct checkpoint *cp, const char *root)
{
	struct units *us = cp->units;
	struct accord *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->events = json_array();
	a->cp = cp;
	a->heard_ns = clock_mono_ns();
	agreement_begin(&a->a, nodes_id(us->nodes), root, AGREE_FANOUT);
	cp->accord = a;
	cp->refs++;
	list_append(&us->accords, &a->link);
	accord_wake(cp);
	return 0;
}

void accord_free(struct accord *a)
{
	unsigned i;

	if (!a)
		return;
	for (i = 0; i < AGREE_FANOUT; i++)
		json_decref(a->children[i].open_on);
	json_decref(a->said_on);
	json_decref(a->seen_on);
	json_decref(a->events);
	free(a->bereaved);
	free(a->payloads[AGREE_OF_COMMIT]);
	free(a->payloads[AGREE_OF_ABORT]);
	free(a);
}

/* --- names --- */

/* Lock held. This node's part of a generation, shown or to be shown. */
static struct checkpoint *find_part(struct units *us, const char *gen)
{
	struct list *l;

	list_for_each (l, &us->accords) {
		struct checkpoint *cp = container_of(l, struct accord, link)->cp;

		if (!strcmp(generation_of(cp), gen))
			return cp;
	}
	return NULL;
}

/* Records that the generation @c is over, whose root is dead. */
static int abort_for(struct units *us, const struct caller *owner, const struct claim *c)
{
	__cleanup_free char *first = malloc(COORD_TEXT_MAX);
	char text[1024], reason[512], label[NODES_LABEL_MAX];
	__cleanup_free char *payload = NULL;
	json_t *o;
	size_t len;
	int r;

	snprintf(reason, sizeof(reason), "node %s, which began it, shows no life", c->label);
	o = json_pack("{s:i, s:o, s:o}", "err", EIO, "reason", json_text(reason), "node",
		      json_text(nodes_label(us->nodes, nodes_id(us->nodes), label)));
	payload = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	if (!first || !payload)
		return -ENOMEM;
	snprintf(text, sizeof(text), "abort %s %s", nodes_id(us->nodes), payload);
	r = us->coord->record(us->coord_arg, owner, c->last, "decision", text, strlen(text), first,
			      &len);
	return r < 0 ? r : 0;
}

static int tell_busy(struct checkpoint *cp, const struct claim *c)
{
	char text[MESSAGE_MAX], path[PATH_MAX];

	checkpoint_path(cp, path, sizeof(path));
	MESSAGE(text, CHECKPOINT_BUSY_ELSEWHERE, path, c->job, c->label, cp->maker->key);
	failures_add(cp->units->failures, cp->owner.uid, "save", path, EBUSY, text);
	return -EBUSY;
}

/* It was decided that it gets its name, and whoever decided is at it: until then it would be nowhere. */
static bool is_being_named(struct units *us, int dir, const char *name, const struct claim *c)
{
	struct backing *b = us->contents->backing;
	char staging[STAGING_MAX];
	struct statx stx;

	if (!c->settled)
		return false;
	snprintf(staging, sizeof(staging), "%s%s", STAGING_PREFIX, c->last);
	return !backing_stat_at(b, dir, staging, &stx) &&
	       backing_stat_at(b, dir, name, &stx) == -ENOENT;
}

/* Waits until what has the name is decided, if nobody of its job goes on with it. */
static int find_free(struct checkpoint *cp, struct claim *c)
{
	struct units *us = cp->units;
	uint64_t until = clock_mono_ns() + CLAIM_WAIT_NS;
	int err;

	for (;;) {
		err = claim_find(us, cp->owner.uid, &cp->target.dir_id, cp->target.name, c);
		if (!err && clock_mono_ns() < until &&
		    is_being_named(us, cp->target.dir, cp->target.name, c)) {
			LOCK_SCOPE(&us->lock);
			err = units_wait(us);
			if (err)
				return err;
			continue;
		}
		if (err || !c->open)
			return err;
		if (strcmp(c->node, nodes_id(us->nodes)) && !nodes_alive_now(us->nodes, c->node)) {
			err = abort_for(us, &cp->owner, c);
			if (err)
				return err;
			continue;
		}
		if (!strcmp(c->job, cp->maker->key) && strcmp(c->node, nodes_id(us->nodes)))
			return -EEXIST;
		LOCK_SCOPE(&us->lock);
		struct checkpoint *mine = find_part(us, c->last);

		/* It has ended here, and that is being told to others; or another thread makes it. */
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

/* Is @err that what the nodes agree by cannot be asked, right now? */
static bool note_outage(struct units *us, int err)
{
	bool outage = err == -EHOSTDOWN || err == -EIO || err == -ESTALE || err == -ETIMEDOUT ||
		      err == -EAGAIN;

	if (outage)
		atomic_store(&us->coord_fails, true);
	return outage;
}

/* Is it to be tried again after @err? Waits a moment before. */
static bool again_later(struct units *us, int err, uint64_t since_ns)
{
	if (!note_outage(us, err) || clock_mono_ns() - since_ns > us->commit_ns)
		return false;
	LOCK_SCOPE(&us->lock);
	return !units_wait(us);
}

int accord_begin(struct checkpoint *cp)
{
	struct units *us = cp->units;
	uint64_t since = clock_mono_ns();
	struct claim c;
	int r;

	creds_restore();
	do {
		r = find_free(cp, &c);
		if (!r)
			r = claim_open(cp);
		if (!r)
			r = claim_make(cp, &c);
		if (r != 1)
			us->coord->forget(us->coord_arg, &cp->owner, generation_of(cp));
	} while (!r || (r < 0 && again_later(us, r, since)));
	if (r < 0)
		return r;
	LOCK_SCOPE(&us->lock);
	return attach(cp, nodes_id(us->nodes));
}

/* Lock held. It was renamed by another node. */
static int takes_name(struct checkpoint *cp, int dir, const struct inode_id *dir_id,
		      const char *name)
{
	int copy;

	/* Once it is over the driver uses the directory without the lock. */
	if (agreement_is_over(&cp->accord->a) ||
	    (same_inode(&cp->target.dir_id, dir_id) && !strcmp(cp->target.name, name)))
		return 0;
	copy = fcntl(dir, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return -EMFILE;
	close(cp->target.dir);
	cp->target.dir = copy;
	cp->target.dir_id = *dir_id;
	snprintf(cp->target.name, sizeof(cp->target.name), "%s", name);
	return 0;
}

/* Lock held, dropped while it waits: what becomes of the join. 0: shown; 1: too late. */
static int await_join(struct units *us, const char *gen, int dir, const struct inode_id *dir_id,
		      const char *name, struct checkpoint **out)
{
	int err = 0;

	while (!err) {
		struct checkpoint *cp = find_part(us, gen);

		if (!cp || cp->accord->a.state == AGREE_LATE)
			return 1;
		if (cp->visible) {
			err = takes_name(cp, dir, dir_id, name);
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

/* Lock not held. A part in @c, which is joined by the driver. */
static int join(struct units *us, const struct caller *c, struct process *p, int dir,
		const struct inode_id *dir_id, const char *name, const struct claim *claim)
{
	struct caller owner = {.uid = c->uid, .gid = claim->gid, .pid = c->pid};
	struct checkpoint *cp;
	int err = checkpoint_adopt(us, &owner, p, dir, dir_id, name, claim->last, claim->inherits,
				   claim->follows, &cp);

	if (err)
		return err;
	{
		LOCK_SCOPE(&us->lock);
		if (!find_part(us, claim->last))
			err = attach(cp, claim->node);
	}
	checkpoint_put(cp);
	return err;
}

/* Takes part in @claim, which is open. 0, *@out or none; 1: it has to be looked at again. */
static int take_part(struct units *us, const struct caller *c, struct process *p, int dir,
		     const struct inode_id *dir_id, const char *name, const struct claim *claim,
		     struct checkpoint **out)
{
	bool mine = !strcmp(claim->node, nodes_id(us->nodes));
	int err = 0;

	if (strcmp(claim->job, p->key) || (!mine && !nodes_alive_now(us->nodes, claim->node)))
		return 0;
	{
		LOCK_SCOPE(&us->lock);
		if (find_part(us, claim->last)) {
			err = await_join(us, claim->last, dir, dir_id, name, out);
			if (err <= 0)
				return err;
			mine = true;
		}
		if (mine) { /* it has ended here, which is to be recorded */
			err = units_wait(us);
			return err ? err : 1;
		}
	}
	err = join(us, c, p, dir, dir_id, name, claim);
	if (err == -ENOENT) { /* published, or removed, just now */
		LOCK_SCOPE(&us->lock);
		err = units_wait(us);
	}
	return err ? err : 1;
}

int accord_find(struct units *us, const struct caller *c, int dir, const struct inode_id *dir_id,
		const char *name, struct checkpoint **out)
{
	uint64_t since = clock_mono_ns();
	struct process *p = NULL;
	struct claim claim;
	int err;

	*out = NULL;
	creds_restore();
	do {
		/*
		 * Of most names there is nothing, which costs a look, and who asks need not be known. In an outage a look costs
		 * more, and only those wait for it who might find something.
		 */
		if (!p && atomic_load(&us->coord_fails))
			p = units_process(us, c);
		err = 0;
		if (p && !p->spans)
			break;
		err = claim_find(us, c->uid, dir_id, name, &claim);
		if (!err)
			atomic_store(&us->coord_fails, false);
		if (!err && is_being_named(us, dir, name, &claim) &&
		    clock_mono_ns() - since < SETTLE_NS) {
			LOCK_SCOPE(&us->lock);
			err = units_wait(us);
			err = err ? err : 1;
			continue;
		}
		if (!err && !claim.open)
			break;
		if (!p)
			p = units_process(us, c);
		if (!p)
			err = -ENOMEM;
		else if (!err)
			err = p->spans ? take_part(us, c, p, dir, dir_id, name, &claim, out) : 0;
		else if (p->spans)
			err = again_later(us, err, since) ? 1 : err;
		else
			err = note_outage(us, err) ? 0 : err;
	} while (err == 1);
	process_put(p);
	return err;
}

/* --- what is said --- */

void accord_event(struct checkpoint *cp, enum evidence_kind kind, const char *path, int rank)
{
	struct accord *a = cp->accord;

	if (!a)
		return;
	if (!agreement_is_root(&a->a))
		json_array_append_new(a->events,
				      json_pack("[i, o, i]", (int)kind, json_text(path), rank));
	accord_wake(cp);
}

bool accord_mourns(struct checkpoint *cp, const char *reason)
{
	struct accord *a = cp->accord;

	if (!a)
		return false;
	LOCK_SCOPE(&cp->units->lock);
	if (a->a.state != AGREE_OPEN || cp->state != GENERATION_OPEN)
		return false;
	/* The root: but for what other nodes had closed by then, and have yet to say, the end was seen. */
	if (agreement_is_root(&a->a) &&
	    !(cp->rule && accord_has_open(cp) && rule_ended(cp->rule, checkpoint_holds, cp) >= 0))
		return false;
	if (!a->bereaved) {
		a->bereaved = strdup(reason);
		a->bereaved_ns = clock_mono_ns();
	}
	accord_wake(cp);
	return a->bereaved;
}

bool accord_has_open(const struct checkpoint *cp)
{
	unsigned i;

	for (i = 0; cp->accord && i < cp->accord->a.nr_children; i++)
		if (cp->accord->children[i].open && !cp->accord->a.children[i].voted)
			return true;
	return false;
}

bool accord_has_writers(const struct checkpoint *cp)
{
	unsigned i;

	for (i = 0; cp->accord && i < cp->accord->a.nr_children; i++)
		if (cp->accord->children[i].writers)
			return true;
	return false;
}

bool accord_is_shared(const struct checkpoint *cp)
{
	return cp->accord && (!agreement_is_root(&cp->accord->a) || cp->accord->a.nr_children);
}

bool accord_sees_end(const struct checkpoint *cp)
{
	return !cp->accord || agreement_is_root(&cp->accord->a);
}

bool accord_may_commit(const struct checkpoint *cp)
{
	const struct agreement *a = cp->accord ? &cp->accord->a : NULL;

	return !a || (agreement_is_root(a) && (agreement_may_vote(a) || a->state == AGREE_VOTED ||
					       a->state == AGREE_COMMIT));
}

const struct agreement *accord_agreement(const struct checkpoint *cp)
{
	return cp->accord ? &cp->accord->a : NULL;
}

const json_t *accord_open_below(const struct checkpoint *cp, unsigned k)
{
	const struct accord *a = cp->accord;

	return a->children[k].open && !a->a.children[k].voted ? a->children[k].open_on : NULL;
}

unsigned accord_nodes(const struct checkpoint *cp)
{
	unsigned i, nr = 1;

	for (i = 0; cp->accord && i < cp->accord->a.nr_children; i++)
		nr += cp->accord->children[i].nodes;
	return nr;
}

void accord_ended(struct checkpoint *cp)
{
	accord_wake(cp);
}

void accord_followed(struct checkpoint *cp, bool all)
{
	LOCK_SCOPE(&cp->units->lock);
	if (!cp->accord)
		return;
	cp->accord->followed = all;
	cp->accord->kept = !all;
	accord_wake(cp);
}

bool accord_has_refused(struct checkpoint *cp)
{
	LOCK_SCOPE(&cp->units->lock);
	return cp->accord &&
	       (cp->accord->a.state == AGREE_ABORT || cp->accord->a.state == AGREE_LATE);
}

const char *accord_decision(const char *text, bool *commit)
{
	return agreement_decision(text, commit);
}

/* Lock held. */
static bool has_writers(struct checkpoint *cp)
{
	struct list *l;

	list_for_each (l, &cp->participants) {
		struct participant *part = container_of(l, struct participant, link);

		if (!part->ended || part->end.fate != WRITER_EXITED_OK)
			return true;
	}
	return accord_has_writers(cp);
}

/* Lock held. Is there more to say than was said? */
static bool has_news(struct accord *a)
{
	return a->said_open == checkpoint_is_closed(a->cp) ||
	       a->said_writers != has_writers(a->cp) || a->said_rule != a->cp->rule ||
	       a->said_removing != a->cp->removing || json_array_size(a->events) > a->sending;
}

/* Lock held. When the next report may be sent. */
static uint64_t may_say_ns(const struct accord *a)
{
	return a->said_ns + agreement_pause(a->said) * PAUSE_NS;
}

/*
 * Lock held. Has somebody else files open now than was said, and so for a while? Who looks wants to know whom a save that
 * does not go on waits for; of one that does, not every step is a record.
 */
static bool is_stale(struct accord *a)
{
	json_t *now;

	if (agreement_is_root(&a->a) || !a->said_open || a->corrections == CORRECTIONS_MAX ||
	    a->a.reports != a->a.reported)
		return false;
	now = others_open(a->cp);
	if (!json_equal(now, a->seen_on)) {
		json_decref(a->seen_on);
		a->seen_on = now;
		a->seen_ns = clock_mono_ns();
		return false;
	}
	json_decref(now);
	if (clock_mono_ns() - a->seen_ns < LOOK_NS / 2 || json_equal(a->seen_on, a->said_on))
		return false;
	a->corrections++;
	return true;
}

/* Lock held. */
static char *compose_report(struct accord *a)
{
	struct checkpoint *cp = a->cp;
	json_t *o, *events = json_array();
	size_t i, bytes = 0;
	char *text;

	a->said_open = !checkpoint_is_closed(cp);
	a->said_writers = has_writers(cp);
	a->said_rule = cp->rule;
	a->said_removing = cp->removing;
	for (i = 0; i < json_array_size(a->events) && i < EVENTS_MAX; i++) {
		json_t *e = json_array_get(a->events, i);

		bytes += 6 * json_string_length(json_array_get(e, 1)) + 32;
		if (bytes > REPORT_MAX && i)
			break;
		json_array_append(events, e);
	}
	a->sending = i;
	o = json_pack("{s:b, s:b, s:o}", "open", a->said_open, "writers", a->said_writers, "events",
		      events);
	if (cp->rule)
		json_object_set_new(o, "rule", json_string(cp->rule->name));
	if (cp->removing)
		json_object_set_new(o, "removing", json_true());
	json_decref(a->said_on);
	a->said_on = others_open(cp);
	if (a->said_open)
		json_object_set(o, "open_on", a->said_on);
	text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	return text;
}

/* Lock held. A child's, which is not believed to be well-formed. */
static void take_report(struct accord *a, unsigned k, const json_t *o)
{
	struct checkpoint *cp = a->cp;
	const struct rule *rule = rules_find(cp->units->rules, json_get_text(o, "rule", ""));
	const json_t *e;
	size_t i;

	a->children[k].open = json_is_true(json_object_get(o, "open"));
	a->children[k].writers = json_is_true(json_object_get(o, "writers"));
	json_decref(a->children[k].open_on);
	a->children[k].open_on = json_incref(json_object_get(o, "open_on"));
	cp->changed_ns = clock_mono_ns();
	if (cp->state != GENERATION_OPEN)
		return;
	if (rule && !cp->rule && !cp->follows)
		checkpoint_takes_rule(cp, rule);
	json_array_foreach (json_object_get(o, "events"), i, e) {
		json_int_t kind = json_integer_value(json_array_get(e, 0));
		const char *path = json_string_value(json_array_get(e, 1));
		json_int_t rank = json_integer_value(json_array_get(e, 2));

		if (path && *path && strlen(path) < COMMIT_PATH_MAX && rank >= -1 &&
		    rank < INT_MAX &&
		    (kind == EVIDENCE_CLOSE || kind == EVIDENCE_RENAME || kind == EVIDENCE_UNLINK))
			checkpoint_event(cp, (enum evidence_kind)kind, path, (int)rank);
		else if (path && kind == NR_EVIDENCE_KINDS)
			checkpoint_vanishes(cp, path);
	}
	cp->removing |= json_is_true(json_object_get(o, "removing"));
	pthread_cond_signal(&cp->units->commits);
}

/* Lock held. */
static void take_news(struct accord *a, const struct agree_news *news)
{
	json_t *o;

	if (!news->any)
		return;
	a->heard_ns = clock_mono_ns();
	a->nr_heard++;
	o = json_loads(news->payload, JSON_REJECT_DUPLICATES, NULL);
	if (news->entry == AGREE_REPORT) {
		take_report(a, news->child, o);
	} else {
		json_int_t nodes = json_get_int(o, "nodes", 1);

		a->children[news->child].open = false;
		a->children[news->child].nodes = nodes > 0 && nodes < INT_MAX ? (unsigned)nodes : 1;
	}
	json_decref(o);
}

/* --- its failure --- */

/* Lock held. What is decided for, unless somebody was quicker. */
static void give_reason(struct accord *a, int err, bool dropped, bool ordinary, const char *reason)
{
	struct nodes *ns = a->cp->units->nodes;
	char label[NODES_LABEL_MAX];
	json_t *o;

	if (a->payloads[AGREE_OF_ABORT])
		return;
	o = json_pack("{s:i, s:o, s:o}", "err", err, "reason", json_text(reason), "node",
		      json_text(nodes_label(ns, nodes_id(ns), label)));
	if (dropped)
		json_object_set_new(o, "dropped", json_true());
	if (ordinary)
		json_object_set_new(o, "ordinary", json_true());
	a->payloads[AGREE_OF_ABORT] = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	agreement_abort(&a->a);
}

/* Lock held, dropped where somebody may be dead. Does everybody live on whom it depends? */
static void look_at_lives(struct accord *a)
{
	struct units *us = a->cp->units;
	const char *watched[AGREE_FANOUT + 1];
	unsigned nr = agreement_watches(&a->a, watched), i;
	bool alive;

	if (a->payloads[AGREE_OF_ABORT])
		return; /* over already, for one reason or another */

	for (i = 0; i < nr; i++) {
		char node[COORD_NODE_MAX], name[256], text[MESSAGE_MAX];

		memcpy(node, watched[i], sizeof(node));
		if (nodes_alive(us->nodes, node))
			continue;
		pthread_mutex_unlock(&us->lock);
		alive = nodes_alive_now(us->nodes, node);
		pthread_mutex_lock(&us->lock);
		if (alive || !agreement_dead(&a->a, node))
			continue;
		nodes_name(us->nodes, node, name, sizeof(name));
		MESSAGE(text, CHECKPOINT_NODE_DEAD, a->cp->target.name, name, a->cp->target.name);
		give_reason(a, EIO, false, false, text);
		return;
	}
}

/* Lock held. The votes did not come: who is missing. */
static bool is_late(struct accord *a, struct error *e)
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
	FAIL(e, ETIMEDOUT, CHECKPOINT_NO_VOTE, cp->target.name,
	     (unsigned long long)(cp->units->commit_ns / NSEC_PER_SEC), who, cp->target.name);
	return true;
}

/* --- the driver --- */

/*
 * Lock held. commit_timeout_s counts from the last progress, of which those above hear by reports: has anything been written
 * since it was looked at last, here or below? Looked at now and then.
 */
static bool goes_on(struct accord *a)
{
	struct checkpoint *cp = a->cp;
	uint64_t now = clock_mono_ns(), mark = cp->nr_filed + a->nr_heard;
	struct list *l;

	if (agreement_is_root(&a->a) || a->a.state > AGREE_PREPARED ||
	    now - a->marked_ns < cp->units->commit_ns / 4)
		return false;
	a->marked_ns = now;
	list_for_each (l, &cp->files) {
		struct generation *g = container_of(l, struct generation, beside);

		mark += g->touched_ns - content_dirty_bytes(g->content);
	}
	if (mark == a->mark)
		return false;
	a->mark = mark;
	return true;
}

/* Lock held, and may be dropped. Sees what has happened here since it looked last. */
static void tend(struct accord *a)
{
	struct checkpoint *cp = a->cp;

	if (agreement_is_over(&a->a))
		return;
	if (cp->state == GENERATION_FAILED)
		give_reason(a, -cp->err, false, false, cp->reason);
	else if (cp->state == GENERATION_DROPPED)
		give_reason(a, ECANCELED, true, false, "it was removed");
	look_at_lives(a);
	if (a->a.state == AGREE_JOINING)
		return;
	if (!cp->visible && cp->state == GENERATION_OPEN && !agreement_is_root(&a->a) &&
	    checkpoint_show_locked(cp))
		give_reason(a, EEXIST, false, false, "its name was taken on a node meanwhile");
	if (agreement_is_root(&a->a) && cp->state == GENERATION_SEALED) {
		if (a->a.state == AGREE_OPEN)
			a->heard_ns = clock_mono_ns();
		agreement_end(&a->a);
	}
	if (goes_on(a) || (clock_mono_ns() >= may_say_ns(a) && (has_news(a) || is_stale(a))))
		agreement_report(&a->a);
	if (!agreement_is_root(&a->a) && a->a.state == AGREE_PREPARED &&
	    cp->state == GENERATION_OPEN && checkpoint_is_closed(cp))
		checkpoint_seal(cp);
	if (clock_mono_ns() - a->heard_ns > DOUBT_NS && !agreement_is_root(&a->a)) {
		a->heard_ns = clock_mono_ns();
		agreement_doubt(&a->a);
	}
}

/* Lock held, dropped. Performs what the agreement asks for. False: there is nothing, or it failed. */
static bool perform(struct accord *a)
{
	struct checkpoint *cp = a->cp;
	struct units *us = cp->units;
	struct agree_news news;
	struct agree_op op;
	char *text = NULL, *report = NULL, *first;
	const char *payload = "";
	size_t len = 0, size;
	bool ours = false;
	ssize_t r = -ENOMEM;

	agreement_next(&a->a, &op);
	if (op.what == AGREE_IDLE)
		return false;
	/* Who joins without showing life ends it for all. */
	a->failing = a->a.state == AGREE_JOINING && !nodes_hold(us->nodes);
	if (a->failing)
		return false;
	if (op.payload == AGREE_OF_REPORT)
		payload = report = compose_report(a);
	else if (op.payload == AGREE_OF_VOTE) {
		char vote[64];

		snprintf(vote, sizeof(vote), "{\"nodes\":%u}", accord_nodes(cp));
		payload = report = strdup(vote);
	} else if (op.payload != AGREE_NONE) {
		payload = a->payloads[op.payload];
	}
	size = sizeof(op.head) + (payload ? strlen(payload) : 0) + 2;
	text = payload ? malloc(size) : NULL;
	first = malloc(COORD_TEXT_MAX + 1);
	if (text)
		snprintf(text, size, "%s%s%s", op.head, *payload ? " " : "", payload);
	pthread_mutex_unlock(&us->lock);
	free(report);
	if (text && first && op.what == AGREE_READ) {
		r = us->coord->read(us->coord_arg, cp->owner.uid, generation_of(cp), op.kind, first,
				    COORD_TEXT_MAX);
		len = r > 0 ? (size_t)r : 0;
	} else if (text && first) {
		r = us->coord->record(us->coord_arg, &cp->owner, generation_of(cp), op.kind, text,
				      strlen(text), first, &len);
		ours = r == 1;
		if (ours) {
			len = strlen(text);
			memcpy(first, text, len);
		}
	}
	if (first)
		first[len] = '\0';
	pthread_mutex_lock(&us->lock);
	a->failing = r < 0 && !(op.what == AGREE_READ && r == -ENOENT);
	if (!a->failing) {
		if (!strcmp(op.kind, "decision") && op.what == AGREE_RECORD)
			a->ours = ours;
		if (!ours && !strcmp(op.kind, "decision") && r != -ENOENT) {
			bool commit;
			const char *what = agreement_decision(first, &commit);

			free(a->payloads[AGREE_OF_ABORT]);
			a->payloads[AGREE_OF_ABORT] = what ? strdup(what) : NULL;
		}
		if (ours && op.payload == AGREE_OF_REPORT) {
			while (a->sending) {
				json_array_remove(a->events, 0);
				a->sending--;
			}
			a->said++;
			a->said_ns = clock_mono_ns();
		}
		agreement_answer(&a->a, &op, ours,
				 op.what == AGREE_READ && r == -ENOENT ? NULL : first, &news);
		take_news(a, &news);
	}
	a->sending = 0;
	pthread_cond_broadcast(&us->changed);
	pthread_cond_signal(&us->commits);
	free(first);
	free(text);
	return !a->failing;
}

/* Lock held, dropped. Writes down what this node votes with, and votes. */
static bool vote(struct accord *a)
{
	struct checkpoint *cp = a->cp;
	struct units *us = cp->units;
	uint32_t slots[AGREE_FANOUT];
	char text[MESSAGE_MAX];
	unsigned nr = a->a.nr_children, i;
	int err;

	if (agreement_is_root(&a->a) || !agreement_may_vote(&a->a) ||
	    cp->state != GENERATION_SEALED || !checkpoint_is_flushed(cp))
		return false;
	for (i = 0; i < nr; i++)
		slots[i] = a->a.slot * a->a.fanout + 1 + i;
	pthread_mutex_unlock(&us->lock);
	creds_on_behalf(&cp->owner);
	err = vote_write(cp, a->a.slot, slots, nr);
	creds_on_behalf(NULL);
	pthread_mutex_lock(&us->lock);
	if (!err) {
		agreement_vote(&a->a);
		return true;
	}
	MESSAGE(text, CHECKPOINT_VOTE_FAILED, cp->target.name, strerror(-err), cp->target.name);
	pthread_mutex_unlock(&us->lock);
	checkpoint_fail(cp, err, text);
	pthread_mutex_lock(&us->lock);
	return true;
}

/* What was decided for, and the root has not done, is done for it. */
static int publish_for(struct checkpoint *cp, const char *decision)
{
	struct decision *d = malloc(sizeof(*d));
	int err = d ? decision_parse(decision, strlen(decision), d) : -ENOMEM;

	if (!err)
		err = replace_decided(cp, d);
	free(d);
	return err;
}

/* Does its name still lead to what it has replaced? Caches of the backing may remember that for a while. */
static bool shows_replaced(const struct checkpoint *cp)
{
	struct statx stx;
	struct inode_id id;

	if (!cp->replaces ||
	    backing_stat_at(cp->units->contents->backing, cp->target.dir, cp->target.name, &stx))
		return false;
	id = inode_id_of(&stx);
	return same_inode(&id, &cp->replaced);
}

/* Lock not held. Does it have its name, or did, and was moved or removed since? What it lacks of that is done at last. */
static int name_it(struct checkpoint *cp, const char *decision, bool ordinary, bool now)
{
	int err = -EAGAIN;

	if (checkpoint_has_name(cp, cp->target.name))
		return 0;
	if (!checkpoint_has_name(cp, cp->staging))
		return shows_replaced(cp) && !now ? -EAGAIN : 0;
	if (now && ordinary)
		err = checkpoint_name_ordinary(cp);
	else if (now)
		err = decision ? publish_for(cp, decision) : -EBADMSG;
	return err == -ENOENT ? 0 : err;
}

/* Lock held, dropped. It was decided; what is left for this node. True: nothing. */
static bool conclude(struct accord *a)
{
	struct checkpoint *cp = a->cp;
	struct units *us = cp->units;
	enum agree_state state = a->a.state;
	bool pending = cp->state == GENERATION_OPEN || cp->state == GENERATION_SEALED;
	bool ordinary, named = false, gone, late;
	char text[MESSAGE_MAX], path[PATH_MAX], *decision;
	json_t *o;
	int err;

	if (!pending || (agreement_is_root(&a->a) && state == AGREE_COMMIT))
		return cp->state != GENERATION_PUBLISHING && cp->state != GENERATION_SEALED;
	if (!cp->visible && state == AGREE_LATE)
		return true; /* never shown */
	decision = a->payloads[AGREE_OF_ABORT] ? strdup(a->payloads[AGREE_OF_ABORT]) : NULL;
	gone = !nodes_alive(us->nodes, a->a.above[0]);
	late = clock_mono_ns() - a->over_ns > us->forget_ns;
	pthread_mutex_unlock(&us->lock);
	checkpoint_path(cp, path, sizeof(path));
	o = decision ? json_loads(decision, JSON_REJECT_DUPLICATES, NULL) : NULL;
	ordinary = state == AGREE_ABORT && json_is_true(json_object_get(o, "ordinary"));
	creds_on_behalf(&cp->owner);
	if (state == AGREE_LATE) {
		named = checkpoint_has_name(cp, cp->target.name);
	} else if (state == AGREE_COMMIT || ordinary) {
		/* Who decided for an ordinary directory, and does not make it one, has been interrupted. */
		err = name_it(cp, decision, ordinary, late || (ordinary ? a->ours : gone));
		named = !err;
		if (err && err != -EAGAIN && (late || err == -ENOTEMPTY || err == -ENOTDIR)) {
			if (err == -EBUSY || ordinary)
				MESSAGE(text, PUBLISH_CONFLICT, path, cp->staging);
			else
				MESSAGE(text, COMMIT_FAILED, path, "giving it its name",
					strerror(-err), path);
			checkpoint_fail(cp, err, text);
		}
	}
	creds_on_behalf(NULL);
	if (state == AGREE_ABORT && !ordinary) {
		err = (int)json_get_int(o, "err", EIO);
		MESSAGE(text, CHECKPOINT_FAILED_ELSEWHERE, cp->target.name,
			json_get_text(o, "node", "(unknown)"),
			json_get_text(o, "reason", "no reason was given"));
		checkpoint_fail(cp, err > 0 && err < 4096 ? -err : -EIO, text);
	} else if (state == AGREE_LATE && !named) {
		MESSAGE(text, CHECKPOINT_AWAY, cp->target.name, cp->target.name);
		checkpoint_fail(cp, -ESTALE, text);
	}
	json_decref(o);
	free(decision);
	pthread_mutex_lock(&us->lock);
	if (!named || (cp->state != GENERATION_OPEN && cp->state != GENERATION_SEALED))
		return cp->state != GENERATION_OPEN && cp->state != GENERATION_SEALED;
	backing_unlock(cp->fd);
	checkpoint_end(cp, state == AGREE_ABORT ? GENERATION_DROPPED : GENERATION_COMMITTED);
	if (state != AGREE_ABORT) {
		removals_committed(us, cp);
		wrecks_outlived(us, cp);
	}
	return true;
}

/* Lock held, dropped. Looks at the records that @a waits for. */
static void look(struct accord *a)
{
	struct units *us = a->cp->units;
	char kinds[AGREE_AWAITS][COORD_KIND_MAX];
	unsigned nr = agreement_awaits(&a->a, kinds), i;
	char *text = malloc(COORD_TEXT_MAX + 1);

	for (i = 0; text && i < nr; i++) {
		struct agree_news news;
		ssize_t len;

		pthread_mutex_unlock(&us->lock);
		len = us->coord->read(us->coord_arg, a->cp->owner.uid, generation_of(a->cp),
				      kinds[i], text, COORD_TEXT_MAX);
		pthread_mutex_lock(&us->lock);
		if (len < 0)
			continue;
		text[len] = '\0';
		if (!strcmp(kinds[i], "decision")) {
			bool commit;
			const char *what = agreement_decision(text, &commit);

			free(a->payloads[AGREE_OF_ABORT]);
			a->payloads[AGREE_OF_ABORT] = what ? strdup(what) : NULL;
		}
		agreement_saw(&a->a, kinds[i], text, &news);
		take_news(a, &news);
		a->heard_ns = clock_mono_ns();
	}
	free(text);
}

/* Lock held, dropped. The end was seen before, if it is recorded by now: then what was closed then is committed. */
static void mourn(struct accord *a)
{
	struct checkpoint *cp = a->cp;
	char *reason;

	if (!a->bereaved)
		return;
	look(a);
	if (a->a.state == AGREE_OPEN && cp->state == GENERATION_OPEN &&
	    clock_mono_ns() - a->bereaved_ns < MOURN_NS)
		return;
	reason = a->bereaved;
	a->bereaved = NULL;
	if (a->a.state == AGREE_OPEN && cp->state == GENERATION_OPEN) {
		pthread_mutex_unlock(&cp->units->lock);
		checkpoint_fail(cp, -EIO, reason);
		pthread_mutex_lock(&cp->units->lock);
	}
	free(reason);
}

/* Lock held, dropped. All that can be done now. */
static void drive(struct accord *a)
{
	struct checkpoint *cp = a->cp;
	struct units *us = cp->units;
	struct error e;

	mourn(a);
	do {
		tend(a);
		if (is_late(a, &e)) {
			pthread_mutex_unlock(&us->lock);
			checkpoint_fail(cp, -ETIMEDOUT, e.text);
			pthread_mutex_lock(&us->lock);
			tend(a);
		}
	} while (perform(a) || vote(a));
	if (!agreement_is_over(&a->a) || a->done)
		return;
	if (!a->over_ns)
		a->over_ns = clock_mono_ns();
	a->done = conclude(a);
	pthread_cond_broadcast(&us->changed);
}

/*
 * Lock held, dropped. The records go when everybody has had time to see the decision; who was away for longer finds
 * none, and looks at the name. True: they went, or are another's to remove.
 */
static bool clear(struct accord *a)
{
	struct checkpoint *cp = a->cp;
	struct units *us = cp->units;
	bool heard;

	if (!a->done)
		return false;
	if (!a->ours)
		return true;
	/* What was decided, and not done, is redone by the next mount. */
	if (a->a.state == AGREE_COMMIT && cp->state == GENERATION_FAILED && cp->err != -EBUSY)
		return true;
	if (a->a.state == AGREE_COMMIT && cp->state != GENERATION_FAILED && !a->followed)
		return a->kept;
	/* Before a commit everybody who could join was heard of; before an abort one may just have done so. */
	heard = a->a.state == AGREE_COMMIT ? !a->a.slot && !a->a.nr_children
					   : us->ending && !a->a.slot && !a->a.nr_children;
	if (!heard && !(us->ending && a->a.state == AGREE_COMMIT) &&
	    clock_mono_ns() - a->over_ns < us->forget_ns)
		return false;
	pthread_mutex_unlock(&us->lock);
	us->coord->forget(us->coord_arg, &cp->owner, generation_of(cp));
	pthread_mutex_lock(&us->lock);
	return true;
}

/* Lock held. Is there a report that is held back for now? */
static bool is_pausing(struct accord *a)
{
	return !agreement_is_root(&a->a) && a->a.state <= AGREE_PREPARED && has_news(a);
}

/* Lock held, dropped. Everything once; in how long at the latest again. */
static uint64_t drive_all(struct units *us, bool look_too)
{
	uint64_t soon = LOOK_NS;
	struct list *l, *next;

	/* None but this thread takes one from the list; others are added at its end. */
	for (l = us->accords.next; l != &us->accords; l = next) {
		struct accord *a = container_of(l, struct accord, link);
		struct checkpoint *cp = a->cp;

		if (look_too && !a->done)
			look(a);
		if (!a->done)
			drive(a);
		if (a->failing || a->bereaved || (!a->done && agreement_is_over(&a->a)) ||
		    is_pausing(a))
			soon = SOON_NS;
		if (clear(a)) {
			next = l->next;
			list_del(&a->link);
			list_init(&a->link);
			pthread_mutex_unlock(&us->lock);
			checkpoint_put(cp);
			pthread_mutex_lock(&us->lock);
		} else {
			next = l->next;
		}
	}
	return soon;
}

/* Lock held. All that is awaited, of all of them. */
static struct coord_key *collect(struct units *us, size_t *nr)
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
		unsigned n = keys ? agreement_awaits(&a->a, kinds) : 0;

		while (n--) {
			struct coord_key *k = &keys[(*nr)++];

			k->owner = a->cp->owner.uid;
			snprintf(k->gen, sizeof(k->gen), "%s", generation_of(a->cp));
			memcpy(k->kind, kinds[n], sizeof(k->kind));
		}
	}
	return keys;
}

/* Lock held. Is something to be told to others yet? */
static bool is_settled(struct units *us)
{
	struct list *l;

	list_for_each (l, &us->accords) {
		struct accord *a = container_of(l, struct accord, link);

		if (!agreement_is_over(&a->a))
			return false;
	}
	return true;
}

void *accord_main(void *units)
{
	struct units *us = units;
	uint64_t give_up = 0;
	bool look_too = false;

	creds_restore();
	pthread_mutex_lock(&us->lock);
	for (;;) {
		uint64_t seen, now, soon = drive_all(us, look_too);
		struct coord_key *keys;
		size_t nr;

		now = clock_mono_ns();
		if (us->ending && !give_up)
			give_up = now + SETTLE_NS;
		if (us->ending && (is_settled(us) || now > give_up))
			break;
		if (us->ending)
			soon = SOON_NS;
		keys = collect(us, &nr);
		if (list_empty(&us->accords))
			soon = 3600 * NSEC_PER_SEC;
		pthread_mutex_unlock(&us->lock);
		look_too = us->coord->wait(us->coord_arg, keys, nr, us->accord_wake, now + soon);
		free(keys);
		if (read(us->accord_wake, &seen, sizeof(seen)) < 0 && errno != EAGAIN)
			log_debug("eventfd: %s", strerror(errno));
		pthread_mutex_lock(&us->lock);
	}
	us->accords_over = true;
	pthread_cond_broadcast(&us->changed);
	pthread_mutex_unlock(&us->lock);
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

/* --- files of other nodes --- */

bool accord_is_elsewhere(struct checkpoint *cp, const struct inode_id *id)
{
	struct generation *g = cp->accord ? units_find_inode(cp->units, id) : NULL;
	size_t i;

	generation_put(g);
	if (!cp->accord || g || checkpoint_shares(cp, id))
		return false;
	LOCK_SCOPE(&cp->units->lock);
	for (i = cp->nr_filed; i > 0; i--)
		if (same_inode(&cp->filed[i - 1].id, id))
			return cp->filed[i - 1].node;
	return true;
}

static int is_whole(struct checkpoint *cp, int fd)
{
	struct backing *b = cp->units->contents->backing;
	struct statx stx;
	char hex[DIGEST_HEX];
	int r = AS_OWNER_FIRST(&cp->owner, backing_reopen(b, fd, O_RDONLY | O_NONBLOCK)), err;

	if (r < 0)
		return r;
	err = backing_stat(b, r, &stx);
	if (!err)
		err = checkpoint_recorded(b, r, &stx, hex);
	close(r);
	return err;
}

int accord_await_file(struct checkpoint *cp, const struct inode_id *id, int fd)
{
	struct units *us = cp->units;
	uint64_t since = clock_mono_ns();
	int whole = 0;

	creds_restore();
	while (accord_is_elsewhere(cp, id) && checkpoint_is_pending(cp) &&
	       !(whole = is_whole(cp, fd))) {
		LOCK_SCOPE(&us->lock);
		if (clock_mono_ns() - since > us->commit_ns)
			return -ETIMEDOUT;
		if (units_wait(us))
			return -EINTR;
	}
	if (whole < 0)
		return whole;
	LOCK_SCOPE(&us->lock);
	/* What it would have become is not known to anybody. */
	return whole || cp->state != GENERATION_FAILED ? 0 : cp->err ? cp->err : -EIO;
}

/* --- for the commit --- */

int accord_gather(struct checkpoint *cp, struct error *e)
{
	struct accord *a = cp->accord;
	uint32_t slots[AGREE_FANOUT];
	unsigned nr, i;
	int err;

	(void)e;
	if (!a || a->gathered)
		return 0;
	{
		LOCK_SCOPE(&cp->units->lock);
		nr = a->a.nr_children;
		for (i = 0; i < nr; i++)
			slots[i] = a->a.slot * a->a.fanout + 1 + i;
	}
	err = vote_gather(cp, slots, nr);
	a->gathered = !err;
	return err;
}

/* Lock held, dropped while it waits. */
static int await_outcome(struct accord *a)
{
	struct units *us = a->cp->units;

	while (!agreement_is_over(&a->a) && !us->accords_over)
		if (units_wait(us))
			break;
	switch (a->a.state) {
	case AGREE_COMMIT:
		return 0;
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
	LOCK_SCOPE(&cp->units->lock);

	if (!a->payloads[AGREE_OF_COMMIT])
		a->payloads[AGREE_OF_COMMIT] = strdup(decision);
	if (!a->payloads[AGREE_OF_COMMIT])
		return -ENOMEM;
	agreement_vote(&a->a);
	accord_wake(cp);
	return await_outcome(a);
}

int accord_renamed(struct checkpoint *cp)
{
	struct units *us = cp->units;
	struct claim c;
	int r = 0;

	if (!cp->accord)
		return 0;
	creds_restore();
	do {
		r = claim_find(us, cp->owner.uid, &cp->target.dir_id, cp->target.name, &c);
		if (r || !strcmp(c.last, generation_of(cp)))
			break;
		r = claim_make(cp, &c);
	} while (!r);
	return r < 0 ? r : 0;
}

void accord_never_shown(struct checkpoint *cp)
{
	if (!cp->accord)
		return;
	LOCK_SCOPE(&cp->units->lock);
	cp->state = GENERATION_DROPPED;
	accord_wake(cp);
}

int accord_make_ordinary(struct checkpoint *cp)
{
	struct accord *a = cp->accord;
	int err;

	if (!a)
		return 0;
	LOCK_SCOPE(&cp->units->lock);
	give_reason(a, 0, false, true, "it is an ordinary directory");
	accord_wake(cp);
	err = await_outcome(a);
	if (err != -ECANCELED)
		return err ? err : -EEXIST;
	return a->ours ? 0 : -EEXIST;
}
