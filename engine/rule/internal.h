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

/* --- pattern.c --- */

/* A pattern without a slash applies to the last component, at any depth. */
bool patterns_fit_path(const json_t *patterns, const char *path);

/* File patterns apply to the whole path, so that a unit's parent does not look like a unit. */
bool patterns_fit_file(const json_t *patterns, const char *file);

/* True if @beside is true for one of @names, whose placeholders stand for the unit at @path. */
bool patterns_fit_beside(const json_t *names, const char *path,
			 bool (*beside)(void *arg, const char *name), void *arg);

#endif
