/* SPDX-License-Identifier: MIT */
#include "engine/record/for_heir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/json.h"

int for_heir_write(const struct for_heir *h, json_t *vote)
{
	int err = json_object_set_new(vote, "done", json_text(h->done));

	err |= json_object_set_new(vote, "ranks", json_integer(h->ranks));
	err |= json_object_set_new(vote, "decision", decision_to_json(&h->decision));
	if (h->rule)
		err |= json_object_set_new(vote, "rule", json_string(h->rule->name));
	if (h->judged)
		err |= json_object_set_new(vote, "judged", json_true());
	return err ? -ENOMEM : 0;
}

struct for_heir *for_heir_read(const json_t *vote, const struct rules *rules)
{
	struct for_heir *h = calloc(1, sizeof(*h));
	json_int_t ranks = json_get_int(vote, "ranks", 0);

	if (!h)
		return NULL;
	h->rule = rules_find(rules, json_get_text(vote, "rule", ""));
	snprintf(h->done, sizeof(h->done), "%s", json_get_text(vote, "done", ""));
	h->ranks = ranks > 0 && ranks <= INT_MAX ? (unsigned)ranks : 0;
	h->judged = json_is_true(json_object_get(vote, "judged"));
	h->decides = !decision_from_json(json_object_get(vote, "decision"), &h->decision);
	return h;
}
