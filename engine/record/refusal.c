/* SPDX-License-Identifier: MIT */
#include "engine/record/refusal.h"

#include <errno.h>

#include "engine/base/json.h"

#define ERRNO_MAX 4096

char *refusal_write(const struct refusal *r)
{
	json_t *o = json_pack("{s:i, s:o, s:o}", "err", r->err, "reason", json_text(r->reason),
			      "node", json_text(r->node));
	char *text;

	if (r->dropped)
		json_object_set_new(o, "dropped", json_true());
	if (r->ordinary)
		json_object_set_new(o, "ordinary", json_true());
	if (r->age_us)
		json_object_set_new(o, "age_us", json_integer(r->age_us));
	text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	return text;
}

void refusal_read(struct refusal *r, const char *payload)
{
	json_t *o = payload ? json_loads(payload, JSON_REJECT_DUPLICATES, NULL) : NULL;
	json_int_t err = json_get_int(o, "err", EIO);

	*r = (struct refusal){
		.err = err >= 0 && err < ERRNO_MAX ? (int)err : EIO,
		.reason = json_get_text(o, "reason", "no reason was given"),
		.node = json_get_text(o, "node", "(unknown)"),
		.dropped = json_is_true(json_object_get(o, "dropped")),
		.ordinary = json_is_true(json_object_get(o, "ordinary")),
		.age_us = json_get_int(o, "age_us", 0),
		.text = o,
	};
}

void refusal_finish(struct refusal *r)
{
	json_decref(r->text);
	r->text = NULL;
}
