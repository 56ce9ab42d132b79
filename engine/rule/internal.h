/* SPDX-License-Identifier: MIT */
/* Shared by the files of engine/rule. */
#ifndef ENGINE_RULE_INTERNAL_H
#define ENGINE_RULE_INTERNAL_H

#include "engine/rule/rule.h"

struct rules {
	json_t *own, *presets; /* the JSON of all rules; list[] points into it */
	size_t nr, nr_own;
	struct rule list[];
};

/* True if the work of a dead rank may count as done: see rules_next_bare. */
bool rule_has_cover(const struct rule *r);

/* As in JSON; the commit file has blanks instead of underscores. */
extern const char *const evidence_words[NR_EVIDENCE_KINDS];

extern const char presets_json[];

static inline bool evidence_has_pattern(enum evidence_kind kind)
{
	return kind <= EVIDENCE_FILE;
}

/* Parses @json, number @number of the rules in @where, into @r, which points into @json. */
int rule_parse(struct rule *r, const json_t *json, size_t number, const char *where,
	       struct error *e);

#endif
