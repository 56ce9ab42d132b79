/* SPDX-License-Identifier: MIT */
/* Any list of rules is taken, or refused with a message; what was taken judges any path. */
#include "tests/fuzz/fuzz.h"

#include "engine/rule/rule.h"

static const char *const paths[] = {"a",	 "step-10", "a/b/step-10.tmp", "../x", ".",
				    "rank_3.pt", ""};

#define NR_PATHS (sizeof(paths) / sizeof(paths[0]))

static bool is_beside(void *arg, const char *name)
{
	REQUIRE(*name && strlen(name) <= NAME_MAX);
	return name[0] & *(int *)arg;
}

/* @arg: a number whose bits say what holds. */
static bool holds(void *arg, const struct evidence *ev)
{
	REQUIRE(!ev->pattern == (ev->kind > EVIDENCE_FILE));
	return *(unsigned *)arg >> ev->kind & 1;
}

/* @arg: a number of ranks; those below have their files. */
static bool has_file(void *arg, const struct evidence *ev, int rank)
{
	REQUIRE(ev->kind == EVIDENCE_EVERY_RANK && rank >= 0);
	return rank < *(int *)arg;
}

static bool wants(const struct rule *r, unsigned alternative, enum evidence_kind kind)
{
	unsigned i;

	for (i = 0; i < r->nr_evidence; i++)
		if (r->alternatives[alternative] >> i & 1 && r->evidence[i].kind == kind)
			return true;
	return false;
}

/* Only after_all covers whoever died, and never what time, exits or a person bring about. */
static void judge_cover(const struct rule *r)
{
	int one = 1;
	unsigned a;

	REQUIRE(!(r->after_all >> r->nr_alternatives));
	for (a = 0; a < r->nr_alternatives; a++) {
		bool after_all = r->after_all >> a & 1;
		bool of_ranks = wants(r, a, EVIDENCE_EVERY_RANK);

		REQUIRE(!after_all ||
			!(wants(r, a, EVIDENCE_QUIET) || wants(r, a, EVIDENCE_ASKED) ||
			  wants(r, a, EVIDENCE_EXITED_0) || r->kind == RULE_FILE));
		REQUIRE(rule_covers(r, (int)a, 0, has_file, &one) == (after_all || of_ranks));
		REQUIRE(rule_covers(r, (int)a, 1, has_file, &one) == after_all);
		REQUIRE(rule_covers(r, (int)a, -1, has_file, &one) == after_all);
	}
}

static void judge(const struct rule *r)
{
	char missing[RULE_WORDS_MAX], done[64];
	unsigned facts, i;
	size_t p;
	int rank, ended;

	REQUIRE(r->nr_alternatives >= 3);
	judge_cover(r);
	for (facts = 0; facts < 1u << NR_EVIDENCE_KINDS; facts += 97) {
		ended = rule_ended(r, holds, &facts);
		rule_missing(r, holds, &facts, missing, sizeof(missing));
		REQUIRE((ended >= 0) == !missing[0]);
		if (ended >= 0)
			rule_evidence(r, ended, done, sizeof(done));
	}
	for (i = 0; i < r->nr_evidence; i++)
		for (p = 0; p < NR_PATHS; p++)
			if (!evidence_matches(&r->evidence[i], "step-10", paths[p], &rank))
				REQUIRE(rank == -1);
}

static void ask(const struct rules *rs)
{
	char out[NAME_MAX + 1];
	size_t p, q;
	int some = 1;

	for (p = 0; p < NR_PATHS; p++) {
		const struct rule *r = rules_single(rs, paths[p]);

		REQUIRE(!r || (r->kind == RULE_FILE && rules_find(rs, r->name) == r));
		r = rules_suggest(rs, paths[p]);
		REQUIRE(!r || r->kind == RULE_DIR);
		for (q = 0; q < NR_PATHS; q++) {
			r = rules_claim(rs, paths[p], paths[q], is_beside, &some);
			if (r)
				judge(r);
			if (rules_pointer_names(rs, paths[p], paths[q], strlen(paths[q]), out))
				REQUIRE(rules_is_pointer(rs, paths[p]) && *out);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *own = json_loadb((const char *)data, size, 0, NULL);
	struct error e = {0};
	struct rules *rs;
	size_t i;
	int err;

	if (!own)
		return 0;
	err = rules_create(&rs, own, "fuzz", &e);
	REQUIRE(err <= 0 && err == -e.err);
	REQUIRE(!err == !e.text[0] && !err == !!rs);
	if (rs) {
		const struct rule *bare = NULL;

		ask(rs);
		while ((bare = rules_next_bare(rs, bare)))
			REQUIRE(bare->kind == RULE_DIR && !bare->after_all);
		for (i = 0; i < json_array_size(own); i++) {
			const json_t *name = json_object_get(json_array_get(own, i), "name");

			judge(rules_find(rs, json_string_value(name)));
		}
	}
	rules_destroy(rs);
	json_decref(own);
	return 0;
}
