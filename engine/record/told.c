/* SPDX-License-Identifier: MIT */
#include "engine/record/told.h"

#include "engine/backing/backing.h"
#include "engine/base/json.h"

char *told_write(const struct told *t)
{
	const struct told_death *d = &t->death;
	json_t *o = json_pack("{s:b, s:b, s:O, s:b}", "open", t->open, "writers", t->writers,
			      "events", t->events, "last", t->last);
	char *text;

	if (t->died)
		json_object_set_new(o, "dead",
				    json_pack("{s:o, s:b, s:o, s:I}", "reason",
					      json_text(d->reason), "unranked", d->unranked, "node",
					      json_text(d->node), "age_us", d->age_us));
	if (t->rule)
		json_object_set_new(o, "rule", json_string(t->rule));
	if (t->removing)
		json_object_set_new(o, "removing", json_true());
	if (t->name)
		json_set_path(o, "name", "name_hex", t->name);
	if (t->open_on)
		json_object_set(o, "open_on", t->open_on);
	text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	return text;
}

static bool flag(const json_t *o, const char *key)
{
	return json_is_true(json_object_get(o, key));
}

void told_read(struct told *t, const char *payload)
{
	json_t *o = json_loads(payload, JSON_REJECT_DUPLICATES, NULL);
	const json_t *dead = json_object_get(o, "dead");

	*t = (struct told){
		.open = flag(o, "open"),
		.writers = flag(o, "writers"),
		.last = flag(o, "last"),
		.removing = flag(o, "removing"),
		.died = json_is_object(dead),
		.rule = json_get_text(o, "rule", NULL),
		.events = json_object_get(o, "events"),
		.open_on = json_object_get(o, "open_on"),
		.death = {.reason = json_get_text(dead, "reason",
						  "a process that wrote to it has died"),
			  .node = json_get_text(dead, "node", "(unknown)"),
			  .unranked = flag(dead, "unranked"),
			  .age_us = json_get_int(dead, "age_us", 0)},
		.text = o,
	};
	if (json_get_path(o, "name", "name_hex", t->new_name, sizeof(t->new_name)) &&
	    backing_name_ok(t->new_name))
		t->name = t->new_name;
}

void told_finish(struct told *t)
{
	json_decref(t->text);
	t->text = NULL;
}
