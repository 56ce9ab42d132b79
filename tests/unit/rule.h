/* SPDX-License-Identifier: MIT */
/* The built-in rules and rules of one's own, for the tests of these. */
#ifndef TESTS_UNIT_RULE_H
#define TESTS_UNIT_RULE_H

#include "tests/unit/unit.h"

#include "engine/rule/rule.h"

static inline struct rules *rules_of(const char *own)
{
	json_t *json = own ? json_loads(own, JSON_REJECT_DUPLICATES, NULL) : NULL;
	struct error e = {0};
	struct rules *rs;
	int err;

	assert_true(!own || json);
	err = rules_create(&rs, json, "test.json", &e);
	if (err)
		fail_msg("%s", e.text);
	json_decref(json);
	return rs;
}

static struct rules *presets;

static inline int create_presets(void **state)
{
	(void)state;
	presets = rules_of(NULL);
	return 0;
}

static inline int destroy_presets(void **state)
{
	(void)state;
	rules_destroy(presets);
	return 0;
}

static inline const char *name_of(const struct rule *r)
{
	return r ? r->name : "none";
}

/* @arg: the only name that is there. */
static inline bool is_beside(void *arg, const char *name)
{
	return arg && !strcmp(arg, name);
}

#endif
