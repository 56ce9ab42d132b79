/* SPDX-License-Identifier: MIT */
#include "engine/record/open_record.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"

char *open_record_write(const struct open_record *o)
{
	json_t *json = json_pack("{s:s, s:s, s:I, s:o}", "node", o->node, "job", o->job, "gid",
				 (json_int_t)o->gid, "label", json_text(o->label));
	char *text;

	if (o->inherits)
		json_object_set_new(json, "inherits", json_true());
	if (o->follows)
		json_object_set_new(json, "follows", json_true());
	text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(json);
	return text;
}

int open_record_read(const char *text, size_t len, struct open_record *o)
{
	json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	const char *node = json_get_text(json, "node", ""), *job = json_get_text(json, "job", "");
	bool ok = coord_node_ok(node) && *job && strlen(job) < sizeof(o->job);

	if (ok) {
		memcpy(o->node, node, sizeof(o->node));
		snprintf(o->job, sizeof(o->job), "%s", job);
		snprintf(o->label, sizeof(o->label), "%s", json_get_text(json, "label", "?"));
		o->gid = (gid_t)json_get_int(json, "gid", 0);
		o->inherits = json_is_true(json_object_get(json, "inherits"));
		o->follows = json_is_true(json_object_get(json, "follows"));
	}
	json_decref(json);
	return ok ? 0 : -EPERM;
}
