/* SPDX-License-Identifier: MIT */
#include "engine/unit/decision.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/base/lock.h"
#include "engine/coord/coord.h"
#include "engine/unit/accord.h"
#include "engine/unit/internal.h"

/* --- the text --- */

static json_t *replaced_json(const struct decision *d)
{
	if (!d->replaces)
		return json_null();
	if (*d->generation)
		return json_pack("{s:s}", "generation", d->generation);
	return json_pack("{s:I, s:I}", "ino", (json_int_t)d->ino, "btime_ns",
			 (json_int_t)d->btime_ns);
}

static json_t *pointers_json(const struct order *order)
{
	json_t *list = json_array();
	size_t i;

	for (i = 0; i < order->nr_pointers; i++) {
		const struct order_pointer *p = &order->pointers[i];
		json_t *o =
			json_pack("{s:s, s:s}", "staged", staging_id(p->staging), "was", p->was);

		json_set_path(o, "name", "name_hex", p->name);
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *removals_json(const struct order *order)
{
	json_t *list = json_array();
	size_t i;

	for (i = 0; i < order->nr_removals; i++) {
		const struct order_removal *r = &order->removals[i];
		json_t *o = json_pack("{s:s}", "generation", r->generation);

		json_set_path(o, "name", "name_hex", r->name);
		json_array_append_new(list, o);
	}
	return list;
}

json_t *decision_to_json(const struct decision *d)
{
	json_t *o = json_pack("{s:s, s:o}", "decision", d->commit ? "commit" : "abort", "replaces",
			      replaced_json(d));

	json_set_path(o, "unit", "unit_hex", d->unit);
	if (d->order.nr_pointers)
		json_object_set_new(o, "pointers", pointers_json(&d->order));
	if (d->order.nr_removals)
		json_object_set_new(o, "removals", removals_json(&d->order));
	if (d->ordinary)
		json_object_set_new(o, "ordinary", json_true());
	return o;
}

char *decision_write(const struct decision *d)
{
	json_t *o = decision_to_json(d);
	char *text = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS);

	json_decref(o);
	return text;
}

/* True if @path is a name below the backing, with no way out of it. */
static bool is_path(const char *path)
{
	size_t len;

	if (!*path || strlen(path) >= PATH_MAX)
		return false;
	for (; *path; path += len + (path[len] == '/')) {
		char name[NAME_MAX + 1];

		len = strcspn(path, "/");
		if (len > NAME_MAX || (path[len] == '/' && !path[len + 1]))
			return false;
		memcpy(name, path, len);
		name[len] = '\0';
		if (!backing_name_ok(name))
			return false;
	}
	return true;
}

/* Parses what had the name: a committed checkpoint, or a directory known by its inode only. */
static bool parse_replaced(const json_t *o, struct decision *d)
{
	const char *generation = json_get_text(o, "generation", "");

	d->replaces = !json_is_null(o);
	if (!d->replaces)
		return true;
	if (json_is_integer(json_object_get(o, "ino"))) {
		d->ino = (uint64_t)json_get_int(o, "ino", 0);
		d->btime_ns = (uint64_t)json_get_int(o, "btime_ns", 0);
		return !*generation;
	}
	if (!commit_is_hex(generation))
		return false;
	memcpy(d->generation, generation, COMMIT_HEX);
	return true;
}

static bool parse_name(const json_t *o, char name[NAME_MAX + 1])
{
	return json_get_path(o, "name", "name_hex", name, NAME_MAX + 1) && backing_name_ok(name) &&
	       !name_is_reserved(name);
}

static bool parse_pointers(const json_t *list, struct order *order)
{
	const json_t *o;
	size_t i;

	if (list && (!json_is_array(list) || json_array_size(list) > ORDER_MAX))
		return false;
	json_array_foreach (list, i, o) {
		struct order_pointer *p = &order->pointers[i];
		const char *staged = json_get_text(o, "staged", "");
		const char *was = json_get_text(o, "was", "");

		if (!parse_name(o, p->name) || !commit_is_hex(staged) || !order_was_ok(was))
			return false;
		staging_name(p->staging, staged);
		snprintf(p->was, sizeof(p->was), "%s", was);
	}
	order->nr_pointers = json_array_size(list);
	return true;
}

static bool parse_removals(const json_t *list, struct order *order)
{
	const json_t *o;
	size_t i;

	if (list && (!json_is_array(list) || json_array_size(list) > ORDER_MAX))
		return false;
	json_array_foreach (list, i, o) {
		struct order_removal *r = &order->removals[i];
		const char *generation = json_get_text(o, "generation", "");

		if (!parse_name(o, r->name) || !commit_is_hex(generation))
			return false;
		memcpy(r->generation, generation, sizeof(r->generation));
	}
	order->nr_removals = json_array_size(list);
	return true;
}

int decision_from_json(const json_t *o, struct decision *d)
{
	const char *what = json_get_text(o, "decision", "");
	const json_t *replaces = json_object_get(o, "replaces");
	bool ok = !strcmp(what, "commit") || !strcmp(what, "abort");

	memset(d, 0, sizeof(*d));
	d->commit = !strcmp(what, "commit");
	d->ordinary = json_is_true(json_object_get(o, "ordinary"));
	ok = ok && json_get_path(o, "unit", "unit_hex", d->unit, sizeof(d->unit)) &&
	     is_path(d->unit) && replaces && parse_replaced(replaces, d) &&
	     parse_pointers(json_object_get(o, "pointers"), &d->order) &&
	     parse_removals(json_object_get(o, "removals"), &d->order);
	if (!ok)
		memset(d, 0, sizeof(*d));
	return ok ? 0 : -EBADMSG;
}

int decision_parse(const char *text, size_t len, struct decision *d)
{
	json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	int err = decision_from_json(o, d);

	json_decref(o);
	return err;
}

/* --- the record --- */

/* *@stands: the record that exists now, @text or an earlier one. */
static int record(struct checkpoint *cp, const char *text, struct decision *stands)
{
	struct units *us = cp->units;
	__cleanup_free char *first = malloc(COORD_TEXT_MAX);
	size_t len = 0;
	int ours = -ENOMEM;

	if (first)
		ours = us->coord->record(us->coord_arg, &cp->owner, staging_id(cp->staging),
					 COORD_DECISION, text, strlen(text), first, &len);
	if (ours < 0)
		return ours;
	return ours ? decision_parse(text, strlen(text), stands)
		    : decision_parse(first, len, stands);
}

void decision_propose(struct checkpoint *cp, const char *path, const struct order *order,
		      struct decision *d)
{
	memset(d, 0, sizeof(*d));
	d->commit = true;
	snprintf(d->unit, sizeof(d->unit), "%s", path);
	if (order)
		d->order = *order;
	LOCK_SCOPE(&cp->units->lock);
	d->replaces = cp->replaces;
	memcpy(d->generation, cp->replaced_generation, sizeof(d->generation));
	d->ino = cp->replaced.ino;
	d->btime_ns = cp->replaced.btime_ns;
}

int decision_record(struct checkpoint *cp, const char *path, const struct order *order)
{
	__cleanup_free struct decision *d = malloc(sizeof(*d));
	__cleanup_free char *text = NULL;
	int err;

	if (!d)
		return -ENOMEM;
	decision_propose(cp, path, order, d);
	d->ordinary = cp->ordinary;
	text = decision_write(d);
	if (!text)
		return -ENOMEM;
	if (cp->accord)
		return accord_decide(cp, text);
	err = record(cp, text, d);
	return err ? err : d->commit ? 0 : -ECANCELED;
}

/* True if the answer is that there is no decision. Without an answer there may be one. */
static bool is_absent(struct checkpoint *cp)
{
	struct units *us = cp->units;
	__cleanup_free char *text = malloc(COORD_TEXT_MAX);

	return text && us->coord->read(us->coord_arg, cp->owner.uid, staging_id(cp->staging),
				       COORD_DECISION, text, COORD_TEXT_MAX) == -ENOENT;
}

bool decision_withdraw(struct checkpoint *cp, const char *path)
{
	__cleanup_free struct decision *d = malloc(sizeof(*d));
	__cleanup_free char *text = NULL;
	bool withdrawn;

	if (!d)
		return false;
	decision_propose(cp, path, NULL, d);
	d->commit = false;
	text = decision_write(d);
	if (!text)
		return false;
	withdrawn = record(cp, text, d) ? is_absent(cp) : !d->commit;
	cp->decided = !withdrawn;
	return withdrawn;
}

void decision_forget(struct checkpoint *cp)
{
	struct units *us = cp->units;

	if (cp->accord) { /* after all nodes have seen it */
		accord_followed(cp, true);
		return;
	}
	us->coord->forget(us->coord_arg, &cp->owner, staging_id(cp->staging));
}
