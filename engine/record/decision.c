/* SPDX-License-Identifier: MIT */
#include "engine/record/decision.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/backing/backing.h"
#include "engine/base/json.h"

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

bool order_was_ok(const char *was)
{
	size_t len = strlen(was);

	return len && len < ORDER_WAS_MAX &&
	       strspn(was, "abcdefghijklmnopqrstuvwxyz0123456789 ") == len;
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
