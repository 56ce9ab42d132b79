/* SPDX-License-Identifier: MIT */
#include "engine/record/for_heir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/base/json.h"

static json_t *pointer_json(const struct left_pointer *p)
{
	json_t *o = json_pack("{s:b, s:i, s:I}", "link", p->link, "mode", (int)p->mode,
			      "written_ns", (json_int_t)p->written_ns);

	json_set_path(o, "name", "name_hex", p->name);
	json_set_path(o, "text", "text_hex", p->text);
	return o;
}

int for_heir_write(const struct for_heir *h, json_t *vote)
{
	json_t *pointers = json_array();
	size_t i;
	int err = pointers ? 0 : -1;

	for (i = 0; i < h->nr_pointers; i++)
		err |= json_array_append_new(pointers, pointer_json(&h->pointers[i]));
	err |= json_object_set_new(vote, "done", json_text(h->done));
	err |= json_object_set_new(vote, "ranks", json_integer(h->ranks));
	err |= json_object_set_new(vote, "decision", decision_to_json(&h->decision));
	err |= json_object_set_new(vote, "pointers", pointers);
	if (h->rule)
		err |= json_object_set_new(vote, "rule", json_string(h->rule->name));
	if (h->judged)
		err |= json_object_set_new(vote, "judged", json_true());
	return err ? -ENOMEM : 0;
}

static bool read_pointer(const json_t *o, struct left_pointer *p)
{
	p->link = json_is_true(json_object_get(o, "link"));
	p->mode = (mode_t)json_get_int(o, "mode", 0600) & 0777;
	p->written_ns = (uint64_t)json_get_int(o, "written_ns", 0);
	return json_get_path(o, "name", "name_hex", p->name, sizeof(p->name)) &&
	       json_get_path(o, "text", "text_hex", p->text, sizeof(p->text)) &&
	       backing_name_ok(p->name) && !name_is_reserved(p->name);
}

struct for_heir *for_heir_read(const json_t *vote, const struct rules *rules)
{
	struct for_heir *h = calloc(1, sizeof(*h));
	const json_t *pointers = json_object_get(vote, "pointers");
	json_int_t ranks = json_get_int(vote, "ranks", 0);
	size_t i;

	if (!h)
		return NULL;
	h->rule = rules_find(rules, json_get_text(vote, "rule", ""));
	snprintf(h->done, sizeof(h->done), "%s", json_get_text(vote, "done", ""));
	h->ranks = ranks > 0 && ranks <= INT_MAX ? (unsigned)ranks : 0;
	h->judged = json_is_true(json_object_get(vote, "judged"));
	h->decides = !decision_from_json(json_object_get(vote, "decision"), &h->decision);
	for (i = 0; i < json_array_size(pointers) && h->nr_pointers < ARRAY_SIZE(h->pointers); i++)
		if (read_pointer(json_array_get(pointers, i), &h->pointers[h->nr_pointers]))
			h->nr_pointers++;
	return h;
}
