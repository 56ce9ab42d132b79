/* SPDX-License-Identifier: MIT */
/*
 * Reports generations, checkpoints and held pointers as JSON: for status, `why`, drains and
 * trace.json. Takes the units' lock, and drops it to ask for paths. Changes nothing.
 */
#include "engine/commit/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/lock.h"
#include "engine/base/text.h"
#include "engine/cluster/missing.h"
#include "engine/cluster/others.h"
#include "engine/journal/held.h"
#include "engine/journal/journal_pending.h"
#include "engine/journal/journal_removal.h"
#include "engine/journal/journal_written.h"
#include "engine/save/units.h"

static unsigned open_writers_locked(const struct generation *g)
{
	unsigned nr = 0;
	struct list *l;

	list_for_each (l, &g->writers)
		nr += !container_of(l, struct writer, link)->closed;
	return nr;
}

/* Puts into words what @g waits for. */
static void missing_locked(const struct generation *g, uint64_t dirty, uint64_t promised, char *buf,
			   size_t size)
{
	char amount[TEXT_BYTES_MAX], whole[TEXT_BYTES_MAX];
	unsigned writers = open_writers_locked(g);

	text_bytes(whole, (double)content_size(g->content));
	if (g->state == GENERATION_SEALED && promised)
		snprintf(buf, size, "closed; tensors of %s of it are still to be captured",
			 text_bytes(amount, (double)promised));
	else if (g->state == GENERATION_OPEN && writers)
		snprintf(buf, size, "no end seen yet: %u process%s wrote it and %s not closed it",
			 writers, writers == 1 ? "" : "es", writers == 1 ? "has" : "have");
	else if (g->state == GENERATION_OPEN)
		snprintf(buf, size, "no end seen yet: it is open for writing (%u descriptors)",
			 g->nr_handles);
	else if ((*g->waits_for || g->asks) && fate_waits(pointer_fate(g)))
		pointer_say_waits(g->names, g->asks, buf, size);
	else if (g->state == GENERATION_SEALED && !dirty && g->nr_handles)
		snprintf(buf, size,
			 "closed by all that wrote it, but still open elsewhere (%u descriptors): "
			 "it "
			 "is published when these are closed, or after %llu s (quiet_s)",
			 g->nr_handles, (unsigned long long)(g->units->quiet_ns / NSEC_PER_SEC));
	else if (g->state == GENERATION_SEALED)
		snprintf(buf, size, "closed; %s of %s are still to be written to the backing",
			 text_bytes(amount, (double)dirty), whole);
	else if (g->state == GENERATION_NAMING)
		snprintf(buf, size, "durable in staging; being given its name");
	else
		snprintf(buf, size, "on the backing; being synced and given its name");
}

#define RANKLESS "rank unknown, fsync is durable here"
#define NO_ROOM \
	"the backing, or a quota, has no room for it: what is removed already goes first " \
	"(on_full)"

/* Adds the bytes that are still to be captured. */
static void add_promised(json_t *o, uint64_t promised)
{
	if (promised)
		json_object_set_new(o, "promised_bytes", json_integer((json_int_t)promised));
}

/* Adds the reason of a failure. */
static void add_failure(json_t *o, int err, const char *reason)
{
	if (*reason)
		json_object_set_new(o, "failure", json_text(reason));
	if (err)
		json_object_set_new(o, "errno", json_integer(-err));
}

/* Adds a remark beside what it waits for. */
static void add_note(json_t *o, const char *note)
{
	if (note)
		json_object_set_new(o, "note", json_string(note));
}

static json_t *describe(struct generation *g)
{
	uint64_t dirty = content_dirty_bytes(g->content), size = content_size(g->content);
	uint64_t now = clock_mono_ns(), promised = content_promised_bytes(g->content);
	char text[NAME_MAX + 128], path[PATH_MAX];
	json_t *o;

	generation_path(g, path, sizeof(path));
	LOCK_SCOPE(&g->units->lock);
	missing_locked(g, dirty, promised, text, sizeof(text));
	o = json_pack("{s:o, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:s}", "path", json_text(path),
		      "generation", staging_id(g->staging), "state",
		      generation_state_name(g->state), "uid", (json_int_t)g->owner.uid, "size",
		      (json_int_t)size, "dirty_bytes", (json_int_t)dirty, "handles",
		      (json_int_t)g->nr_handles, "writers", (json_int_t)open_writers_locked(g),
		      "age_s", (double)(now - g->opened_ns) / NSEC_PER_SEC, "waits_for", text);
	if (g->maker)
		json_object_set_new(o, "job", json_string(g->maker->key));
	json_object_set_new(o, "replaces", json_boolean(g->replaces));
	json_object_set_new(o, "part", json_boolean(g->checkpoint));
	add_promised(o, promised);
	add_note(o, room_is_awaited_locked(g->short_ns) ? NO_ROOM : g->rankless ? RANKLESS : NULL);
	if (g->state == GENERATION_FAILED)
		add_failure(o, g->err, g->reason);
	return o;
}

static json_t *describe_ended_locked(const struct ended *e)
{
	json_t *o = json_pack("{s:o, s:s, s:s, s:I, s:I, s:f}", "path",
			      json_text(e->path ? e->path : e->name), "generation",
			      staging_id(e->staging), "state", generation_state_name(e->state),
			      "uid", (json_int_t)e->uid, "size", (json_int_t)e->size, "ended_s",
			      (double)(clock_mono_ns() - e->ended_ns) / NSEC_PER_SEC);

	add_failure(o, e->err, e->reason ? e->reason : "");
	if (e->job)
		json_object_set_new(o, "job", json_string(e->job));
	return o;
}

/* Sums of its files: all bytes so far, unflushed, promised; files being written, writers. */
struct sums {
	uint64_t bytes, dirty, promised;
	unsigned open, writers;
	bool rankless; /* fsync of one of them was durable because of that */
};

static struct sums sums_of_locked(const struct checkpoint *cp)
{
	struct sums s = {0};
	struct list *l;
	size_t i;

	for (i = 0; i < cp->filed.nr; i++)
		s.bytes += cp->filed.list[i].size;
	list_for_each (l, &cp->files) {
		struct generation *g = container_of(l, struct generation, beside);

		s.bytes += content_size(g->content);
		s.dirty += content_dirty_bytes(g->content);
		s.promised += content_promised_bytes(g->content);
		s.open += g->state == GENERATION_OPEN;
		s.rankless = s.rankless || g->rankless;
	}
	list_for_each (l, &cp->participants)
		s.writers += !container_of(l, struct participant, link)->ended;
	return s;
}

static json_t *describe_checkpoint(struct checkpoint *cp)
{
	char text[RULE_WORDS_MAX], path[PATH_MAX];
	uint64_t now = clock_mono_ns();
	struct sums s;
	json_t *o, *shared;

	checkpoint_path(cp, path, sizeof(path));
	checkpoint_missing(cp, text, sizeof(text));
	LOCK_SCOPE(&cp->units->lock);
	s = sums_of_locked(cp);
	o = json_pack("{s:o, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:s, s:s}", "path",
		      json_text(path), "generation", staging_id(cp->staging), "state",
		      generation_state_name(cp->state), "rule", cp->rule ? cp->rule->name : "",
		      "uid", (json_int_t)cp->owner.uid, "size", (json_int_t)s.bytes, "dirty_bytes",
		      (json_int_t)s.dirty, "open_files", (json_int_t)s.open, "writers",
		      (json_int_t)s.writers, "age_s", (double)(now - cp->opened_ns) / NSEC_PER_SEC,
		      "job", cp->maker->key, "waits_for", text);
	json_object_set_new(o, "replaces", json_boolean(cp->replaces));
	json_object_set_new(o, "directory", json_true());
	add_promised(o, s.promised);
	add_note(o, room_is_awaited_locked(cp->short_ns) ? NO_ROOM : s.rankless ? RANKLESS : NULL);
	if (cp->state == GENERATION_FAILED)
		add_failure(o, cp->err, cp->reason);
	shared = others_to_json(cp);
	if (shared)
		json_object_set_new(o, "shared", shared);
	return o;
}

/* The user that looks, and what it may see. @drain: only saves that the drain waits for. */
struct viewer {
	uid_t uid;
	bool all;
	const struct drain *drain;
};

/* As take_live. */
static size_t take_checkpoints(struct units *us, const struct viewer *v, struct checkpoint ***list)
{
	struct list *l;
	size_t nr = 0;
	LOCK_SCOPE(&us->lock);

	list_for_each (l, &us->checkpoints)
		nr++;
	*list = calloc(nr + 1, sizeof(**list));
	nr = 0;
	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (*list && (v->drain ? drain_lists_checkpoint_locked(v->drain, cp)
				       : cp->visible && (v->all || cp->owner.uid == v->uid))) {
			cp->refs++;
			(*list)[nr++] = cp;
		}
	}
	return nr;
}

static json_t *describe_held(struct held *h)
{
	char text[NAME_MAX + 128], path[PATH_MAX];

	target_path(h->units, &h->target, path, sizeof(path));
	LOCK_SCOPE(&h->units->lock);
	pointer_say_waits(h->names, h->asks, text, sizeof(text));
	return json_pack("{s:o, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:s}", "path",
			 json_text(path), "generation", staging_id(h->staging), "state",
			 generation_state_name(GENERATION_SEALED), "uid", (json_int_t)h->owner.uid,
			 "size", (json_int_t)0, "dirty_bytes", (json_int_t)0, "handles",
			 (json_int_t)0, "writers", (json_int_t)0, "age_s",
			 (double)(clock_mono_ns() - h->since_ns) / NSEC_PER_SEC, "waits_for", text);
}

/* As take_live. */
static size_t take_held(struct units *us, uid_t viewer, bool all, struct held ***list)
{
	struct list *l;
	size_t nr = 0;
	LOCK_SCOPE(&us->lock);

	*list = calloc(atomic_load(&us->nr_held) + 1, sizeof(**list));
	list_for_each (l, &us->held) {
		struct held *h = container_of(l, struct held, link);

		if (*list && !h->overtaken && (all || h->owner.uid == viewer)) {
			h->refs++;
			(*list)[nr++] = h;
		}
	}
	return nr;
}

/* Paths are asked for without the lock, which ranks behind that of units->name. */
static size_t take_live(struct units *us, const struct viewer *v, struct generation ***list)
{
	struct list *l;
	size_t nr = 0;
	LOCK_SCOPE(&us->lock);

	*list = calloc(live_nr(&us->live) + 1, sizeof(**list));
	list_for_each (l, &us->live.all) {
		struct generation *g = container_of(l, struct generation, link);

		if (*list && (v->drain ? drain_lists_file_locked(v->drain, g)
				       : v->all || g->owner.uid == v->uid)) {
			g->refs++;
			(*list)[nr++] = g;
		}
	}
	return nr;
}

json_t *units_to_json(struct units *us, uid_t viewer, bool all)
{
	const struct viewer v = {viewer, all, NULL};
	__cleanup_free struct generation **live = NULL;
	size_t nr = take_live(us, &v, &live), i;
	__cleanup_free struct checkpoint **checkpoints = NULL;
	__cleanup_free struct held **held = NULL;
	json_t *list = json_array();

	for (i = 0; i < nr; i++) {
		json_array_append_new(list, describe(live[i]));
		generation_put(live[i]);
	}
	nr = take_checkpoints(us, &v, &checkpoints);
	for (i = 0; i < nr; i++) {
		json_array_append_new(list, describe_checkpoint(checkpoints[i]));
		checkpoint_put(checkpoints[i]);
	}
	nr = take_held(us, viewer, all, &held);
	for (i = 0; i < nr; i++) {
		json_array_append_new(list, describe_held(held[i]));
		held_put(held[i]);
	}
	return list;
}

/* The unfinished checkpoint @staging, or the one that the name shows if that is "". Referenced. */
static struct checkpoint *find_checkpoint_locked(struct units *us, const struct inode_id *dir,
						 const char *name, const char *staging)
{
	struct list *l;

	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (!cp->visible)
			continue;
		if (*staging ? !strcmp(cp->staging, staging)
			     : same_inode(&cp->target.dir_id, dir) &&
				       !strcmp(cp->target.name, name)) {
			cp->refs++;
			return cp;
		}
	}
	return NULL;
}

json_t *units_describe(struct units *us, const struct inode_id *dir, const char *name,
		       const char *id)
{
	char staging[STAGING_MAX];
	struct generation *g = units_find(us, dir, name, 0);
	struct checkpoint *cp;
	const struct ended *e = NULL;
	json_t *o = NULL;

	staging_name(staging, id ? id : "");
	{
		LOCK_SCOPE(&us->lock);
		cp = find_checkpoint_locked(us, dir, name, id ? staging : "");
	}
	if (cp) {
		o = describe_checkpoint(cp);
		checkpoint_put(cp);
		generation_put(g);
		return o;
	}
	if (id && g && strcmp(g->staging, staging)) {
		generation_put(g);
		g = units_find_staging(us, staging);
	}
	if (g)
		o = describe(g);
	generation_put(g);
	if (!o && !id)
		o = removal_describe(us, dir, name);
	if (o)
		return o;
	LOCK_SCOPE(&us->lock);
	e = id ? history_find(&us->history, staging) : history_find_name(&us->history, dir, name);
	return e ? describe_ended_locked(e) : NULL;
}

json_t *units_describe_inode(struct units *us, const struct inode_id *id)
{
	struct generation *g = units_find_inode(us, id);
	json_t *o = g ? describe(g) : NULL;

	generation_put(g);
	return o;
}

bool checkpoints_have_durable(struct units *us, const struct inode_id *id)
{
	struct list *l;
	LOCK_SCOPE(&us->lock);

	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (filed_find(&cp->filed, id) || checkpoint_shares(cp, id))
			return true;
	}
	return false;
}

bool units_state_of(struct units *us, const struct inode_id *id, enum generation_state *state,
		    char reason[MESSAGE_MAX])
{
	struct generation *g = units_find_inode(us, id);
	const struct ended *e;
	bool known;
	{
		LOCK_SCOPE(&us->lock);
		*reason = '\0';
		e = g ? NULL : history_find_inode(&us->history, id);
		known = g || e;
		if (known)
			*state = g ? g->state : e->state;
		if (e && e->reason)
			snprintf(reason, MESSAGE_MAX, "%s", e->reason);
	}
	generation_put(g);
	return known;
}

bool checkpoint_state_of(struct units *us, const struct inode_id *id, enum generation_state *state,
			 char reason[MESSAGE_MAX])
{
	struct checkpoint *cp = checkpoints_find_inode(us, id);
	bool known = false;

	*reason = '\0';
	if (cp) {
		LOCK_SCOPE(&us->lock);
		known = cp->rule || cp->follows;
		*state = cp->state;
		if (cp->state == GENERATION_FAILED)
			snprintf(reason, MESSAGE_MAX, "%s", cp->reason);
	}
	checkpoint_put(cp);
	return known;
}

/* --- drains --- */

/* True if a unit was committed in the directory of @e, entry @n of the history, after it. */
static bool was_outlived_locked(const struct history *h, uint64_t n, const struct ended *e)
{
	for (n++; n < h->nr; n++) {
		const struct ended *later = &h->ring[n % HISTORY_KEPT];

		if (later->state == GENERATION_COMMITTED && later->job &&
		    same_inode(&later->dir_id, &e->dir_id))
			return true;
	}
	return false;
}

static void add_ended_locked(const struct history *h, const struct drain *d, json_t *failed,
			     json_int_t *committed)
{
	uint64_t n;

	for (n = h->nr > HISTORY_KEPT ? h->nr - HISTORY_KEPT : 0; n < h->nr; n++) {
		const struct ended *e = &h->ring[n % HISTORY_KEPT];
		bool meanwhile = e->ended_ns >= d->since_ns;

		if (!e->job || !(d->all_users || d->uid == e->uid) ||
		    (d->job && !job_is(e->job, d->job)))
			continue;
		*committed += meanwhile && e->state == GENERATION_COMMITTED;
		if (e->state != GENERATION_FAILED)
			continue;
		if (!meanwhile && (!d->job || e->err == -ECANCELED || e->err == -ESTALE ||
				   was_outlived_locked(h, n, e)))
			continue;
		if (json_array_size(failed) < DRAIN_NAMED_MAX)
			json_array_append_new(failed, describe_ended_locked(e));
	}
}

/* Takes over @o, a save that is left. */
static void add_left(json_t *left, json_t *o, json_int_t *bytes, json_int_t *dirty)
{
	*bytes += json_get_int(o, "size", 0);
	*dirty += json_get_int(o, "dirty_bytes", 0);
	if (json_array_size(left) < DRAIN_NAMED_MAX)
		json_array_append_new(left, o);
	else
		json_decref(o);
}

json_t *units_drain_to_json(struct units *us, const struct drain *d)
{
	const struct viewer v = {.drain = d};
	__cleanup_free struct checkpoint **checkpoints = NULL;
	__cleanup_free struct generation **live = NULL;
	size_t nr_live = take_live(us, &v, &live), i;
	size_t nr = take_checkpoints(us, &v, &checkpoints);
	json_t *left = json_array(), *failed = json_array();
	json_int_t bytes = 0, dirty = 0, committed = 0;

	for (i = 0; i < nr_live; i++) {
		add_left(left, describe(live[i]), &bytes, &dirty);
		generation_put(live[i]);
	}
	for (i = 0; i < nr; i++) {
		add_left(left, describe_checkpoint(checkpoints[i]), &bytes, &dirty);
		checkpoint_put(checkpoints[i]);
	}
	{
		LOCK_SCOPE(&us->lock);
		add_ended_locked(&us->history, d, failed, &committed);
	}
	return json_pack("{s:I, s:o, s:I, s:I, s:I, s:o}", "nr_left", (json_int_t)(nr + nr_live),
			 "left", left, "bytes", bytes, "dirty_bytes", dirty, "committed", committed,
			 "failed", failed);
}

json_t *units_counts(struct units *us)
{
	LOCK_SCOPE(&us->lock);
	return json_pack("{s:I, s:I}", "committed", (json_int_t)us->nr_committed, "failed",
			 (json_int_t)us->nr_failed);
}

/* --- trace.json --- */

/* Adds a bar of the timeline. Times are microseconds of this machine's monotonic clock. */
static void add_span(json_t *list, const struct ended *e, size_t row, const char *what,
		     uint64_t from, uint64_t to)
{
	if (!from || to < from)
		return;
	json_array_append_new(
		list,
		json_pack("{s:s, s:s, s:s, s:i, s:I, s:f, s:f, s:{s:o, s:I, s:s}}", "name", what,
			  "cat", "checkpoint", "ph", "X", "pid", 1, "tid", (json_int_t)row, "ts",
			  (double)from / 1e3, "dur", (double)(to - from) / 1e3, "args", "path",
			  json_text(e->path ? e->path : e->name), "bytes", (json_int_t)e->size,
			  "state", generation_state_name(e->state)));
}

json_t *units_trace(struct units *us, uid_t viewer, bool all)
{
	json_t *list = json_array();
	size_t i;
	LOCK_SCOPE(&us->lock);

	for (i = 0; i < HISTORY_KEPT; i++) {
		const struct ended *e = &us->history.ring[i];

		if (!*e->staging || (!all && e->uid != viewer))
			continue;
		json_array_append_new(list,
				      json_pack("{s:s, s:s, s:i, s:I, s:{s:o}}", "name",
						"thread_name", "ph", "M", "pid", 1, "tid",
						(json_int_t)i, "args", "name", json_text(e->name)));
		add_span(list, e, i, "absorb", e->opened_ns, e->closed_ns);
		add_span(list, e, i, "flush", e->closed_ns, e->flushed_ns);
		add_span(list, e, i, "commit", e->flushed_ns, e->ended_ns);
	}
	return json_pack("{s:o, s:s}", "traceEvents", list, "displayTimeUnit", "ms");
}
