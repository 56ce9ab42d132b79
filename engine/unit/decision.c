/* SPDX-License-Identifier: MIT */
#include "engine/unit/decision.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/coord/coord.h"
#include "engine/unit/internal.h"
#include "engine/unit/rules.h"

static json_t *replaced_json(struct checkpoint *cp)
{
	LOCK_SCOPE(&cp->units->lock);
	if (!cp->replaces)
		return json_null();
	if (*cp->replaced_generation)
		return json_pack("{s:s}", "generation", cp->replaced_generation);
	return json_pack("{s:I, s:I}", "ino", (json_int_t)cp->replaced.ino, "btime_ns",
			 (json_int_t)cp->replaced.btime_ns);
}

/* *@stands: the record that is there now, ours or that of whoever came first. */
static int record(struct checkpoint *cp, const char *kind, json_t *o, struct decision *stands)
{
	struct units *us = cp->units;
	__cleanup_free char *text = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS);
	__cleanup_free char *first = malloc(COORD_TEXT_MAX);
	size_t len = 0;
	int ours = -ENOMEM;

	if (text && first)
		ours = us->coord->record(us->coord_arg, &cp->owner,
					 cp->staging + strlen(STAGING_PREFIX), kind, text,
					 strlen(text), first, &len);
	json_decref(o);
	if (ours < 0)
		return ours;
	return ours ? decision_parse(text, strlen(text), stands)
		    : decision_parse(first, len, stands);
}

int decision_record(struct checkpoint *cp, const char *path)
{
	json_t *o = json_pack("{s:s, s:o}", "decision", "commit", "replaces", replaced_json(cp));
	struct decision d;
	int err;

	json_set_path(o, "unit", "unit_hex", path);
	err = record(cp, "decision", o, &d);
	return err ? err : d.commit ? 0 : -ECANCELED;
}

void decision_forget(struct checkpoint *cp)
{
	struct units *us = cp->units;

	us->coord->forget(us->coord_arg, &cp->owner, cp->staging + strlen(STAGING_PREFIX));
}

/* Something below the backing, and nothing but that. */
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

/* What had the name: a committed checkpoint, or a directory that only its inode tells from others. */
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

int decision_parse(const char *text, size_t len, struct decision *d)
{
	json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	const char *what = json_get_text(o, "decision", "");
	json_t *replaces = json_object_get(o, "replaces");
	bool ok = !strcmp(what, "commit") || !strcmp(what, "abort");

	memset(d, 0, sizeof(*d));
	d->commit = !strcmp(what, "commit");
	ok = ok && json_get_path(o, "unit", "unit_hex", d->unit, sizeof(d->unit)) &&
	     is_path(d->unit) && replaces && parse_replaced(replaces, d);
	json_decref(o);
	if (!ok)
		memset(d, 0, sizeof(*d));
	return ok ? 0 : -EBADMSG;
}
