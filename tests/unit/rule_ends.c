/* SPDX-License-Identifier: MIT */
/* Rules know the end of every save, and say what is missing to it and who is waited for. */
#include "tests/unit/rule.h"

static const char *const words[NR_EVIDENCE_KINDS] = {
	"close",	"rename",   "unlink", "every rank", "file",  "all closed",
	"next sibling", "exited 0", "quiet",  "lone",	    "asked",
};

/* @arg: what holds, with " + " between. */
static bool is_told(void *arg, const struct evidence *ev)
{
	char want[300], text[2048];

	snprintf(want, sizeof(want), " + %s%s%s + ", words[ev->kind], ev->pattern ? " " : "",
		 ev->pattern ? ev->pattern : "");
	snprintf(text, sizeof(text), " + %s + ", (const char *)arg);
	return strstr(text, want) != NULL;
}

static const struct {
	const char *rule, *holds, *done; /* NULL: the same as holds; "": not */
} ends[] = {
	{"torch-dcp", "rename .metadata", NULL},
	{"torch-dcp", "all closed + quiet + next sibling + exited 0", ""},
	{"torch-dcp", "every rank __{rank}.metadata", NULL},
	{"torch-dcp", "every rank __{rank}.metadata + lone", ""},
	{"torchtitan", "rename .metadata", NULL},
	{"deepspeed", "close ../latest", ""},
	{"deepspeed", "close ../latest + all closed + quiet", ""},
	{"deepspeed", "close ../latest + every rank *optim_states.pt", NULL},
	{"deepspeed", "close ../latest + every rank *optim_states.pt + lone", ""},
	{"deepspeed", "close ../latest + every rank *optim_states.pt + lone + all closed", ""},
	{"deepspeed", "close ../latest + every rank *optim_states.pt + lone + all closed + quiet",
	 "close ../latest + every rank *optim_states.pt"},
	{"deepspeed", "close ../latest + next sibling", NULL},
	{"deepspeed", "close ../latest + exited 0", NULL},
	{"deepspeed", "next sibling", ""},
	{"megatron", "close ../latest_checkpointed_iteration.txt", NULL},
	{"megatron", "rename .metadata + all closed + quiet", ""},
	{"hf-trainer", "close trainer_state.json", ""},
	{"hf-trainer", "close trainer_state.json + every rank rng_state_{rank}.pth", NULL},
	{"hf-trainer", "close trainer_state.json + next sibling", NULL},
	{"hf-trainer", "close trainer_state.json + exited 0", NULL},
	{"hf-trainer", "close trainer_state.json + all closed + quiet", ""},
	{"hf-trainer", "close trainer_state.json + lone + all closed", ""},
	{"hf-trainer", "close trainer_state.json + all closed + quiet + lone", NULL},
	{"hf-trainer", "every rank rng_state_{rank}.pth + next sibling + exited 0", ""},
	{"hf-trainer", "every rank random_states_{rank}.pkl + quiet", NULL},
	{"hf-trainer", "every rank random_states_{rank}.pkl + next sibling", NULL},
	{"hf-trainer", "file random_states_0.pkl + next sibling", ""},
	{"hf-trainer", "file random_states_0.pkl + next sibling + lone", NULL},
	{"hf-trainer", "file random_states_0.pkl + exited 0", ""},
	{"hf-trainer", "every rank random_states_{rank}.pkl + exited 0", NULL},
	{"hf-trainer", "file random_states_0.pkl + exited 0 + lone", NULL},
	{"accelerate", "every rank random_states_{rank}.pkl", ""},
	{"accelerate", "every rank random_states_{rank}.pkl + quiet", NULL},
	{"accelerate", "every rank random_states_{rank}.pkl + quiet + lone", ""},
	{"accelerate", "next sibling + exited 0", ""},
	{"accelerate", "every rank random_states_{rank}.pkl + next sibling", NULL},
	{"accelerate", "file random_states_0.pkl + next sibling", ""},
	{"accelerate", "file random_states_0.pkl + next sibling + lone", NULL},
	{"accelerate", "file random_states_0.pkl + exited 0", ""},
	{"accelerate", "every rank random_states_{rank}.pkl + exited 0", NULL},
	{"accelerate", "file random_states_0.pkl + exited 0 + lone", NULL},
	{"lightning", "close meta.pt", NULL},
	{"lightning", "rename meta.pt", NULL},
	{"lightning", "close latest", ""},
	{"lightning", "close latest + every rank checkpoint/*optim_states.pt", NULL},
	{"lightning", "close latest + next sibling", NULL},
	{"lightning", "close latest + exited 0", NULL},
	{"lightning", "rename .metadata + quiet", ""},
	{"nemo", "unlink ../{name}-unfinished", NULL},
	{"nemo", "unlink ../{name%.ckpt}-unfinished", NULL},
	{"nemo", "unlink ../{name%-EMA}-unfinished", NULL},
	{"nemo", "unlink ../{name%-EMA.ckpt}-unfinished", NULL},
	{"nemo", "all closed + quiet", ""},
	{"orbax", "rename .", NULL},
	{"orbax", "close commit_success.txt", NULL},
	{"orbax", "all closed + quiet", ""},
	{"orbax-in-place", "close commit_success.txt", NULL},
	{"sharded-export", "close *.index.json", ""},
	{"sharded-export", "close *.index.json + all closed", NULL},
	{"single-file", "all closed", NULL},
	{"single-file", "quiet + exited 0", ""},
	{"tensorflow", "all closed", NULL},
	/* Of every rule, whatever else it says. */
	{"torch-dcp", "asked", NULL},
	{"torch-dcp", "all closed + exited 0 + quiet", ""},
	{"torch-dcp", "all closed + exited 0 + quiet + lone", NULL},
	{"hf-trainer", "all closed + exited 0 + quiet + lone", NULL},
};

static void ends_are_those_of_the_frameworks(void **state)
{
	char done[RULE_WORDS_MAX], missing[RULE_WORDS_MAX];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		const struct rule *r = rules_find(presets, ends[i].rule);
		const char *want = ends[i].done ? ends[i].done : ends[i].holds;
		int alternative;

		assert_non_null(r);
		alternative = rule_ended(r, is_told, (void *)ends[i].holds);
		done[0] = '\0';
		if (alternative >= 0)
			rule_evidence(r, alternative, done, sizeof(done));
		if (strcmp(done, want))
			fail_msg("%s with %s: '%s', not '%s'", ends[i].rule, ends[i].holds, done,
				 want);
		rule_missing(r, is_told, (void *)ends[i].holds, missing, sizeof(missing));
		assert_int_equal(!missing[0], alternative >= 0);
	}
}

static bool is_in_mask(void *arg, const struct evidence *ev)
{
	const struct rule *r = ((const void **)arg)[0];
	uint64_t held = *((const uint64_t **)arg)[1];

	return held >> (ev - r->evidence) & 1;
}

/* Whatever the rule: all of an alternative is enough, and nothing of it can be left out. */
static void every_piece_counts(void **state)
{
	const char *last = "";
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		const struct rule *r = rules_find(presets, ends[i].rule);
		unsigned a, bit;

		if (!strcmp(last, r->name))
			continue;
		last = r->name;
		for (a = 0; a < r->nr_alternatives; a++) {
			uint64_t held = r->alternatives[a];
			const void *arg[] = {r, &held};

			assert_true(rule_ended(r, is_in_mask, arg) >= 0);
			for (bit = 0; bit < r->nr_evidence; bit++) {
				held = r->alternatives[a] & ~(1ull << bit);
				if (held != r->alternatives[a])
					assert_true(rule_ended(r, is_in_mask, arg) != (int)a);
			}
		}
	}
}

static const char *missing_of(const char *rule, const char *holds)
{
	static char buf[RULE_WORDS_MAX];

	rule_missing(rules_find(presets, rule), is_told, (void *)holds, buf, sizeof(buf));
	return buf;
}

static void what_is_missing_is_said(void **state)
{
	char small[12];

	(void)state;
	assert_string_equal(missing_of("torch-dcp", ""),
			    "the rename to .metadata; or __N.metadata of every rank; or "
			    "`ckptfs commit`");
	/* The nearest first; none that needs all of another and more. */
	assert_string_equal(missing_of("deepspeed", "close ../latest + all closed"),
			    "*optim_states.pt of every rank; or the next checkpoint beside it; or "
			    "the exit of every writer with status 0; or `ckptfs commit`");
	assert_string_equal(
		missing_of("accelerate", "all closed"),
		"random_states_N.pkl of every rank and a while without writes "
		"(quiet_s); or random_states_N.pkl of every rank and the next "
		"checkpoint beside it; or random_states_N.pkl of every rank and the exit of "
		"every writer with status 0; or `ckptfs commit`");
	assert_string_equal(
		missing_of("sharded-export", "lone"),
		"the close of *.index.json and the close of every file; or the close of "
		"every file and the exit of every writer with status 0 and a while "
		"without writes (quiet_s); or `ckptfs commit`");
	/* In a world of one the files are there, but there may come more. */
	assert_contains(missing_of("deepspeed", "lone + close ../latest + all closed + "
						"every rank *optim_states.pt"),
			"a while without writes (quiet_s); or the next");
	assert_contains(missing_of("orbax", ""), "the rename to its final name");
	assert_contains(missing_of("nemo", ""), "the removal of {name}-unfinished beside it");
	assert_contains(missing_of("hf-trainer", ""),
			"random_states_N.pkl of every rank and the next");
	assert_string_equal(missing_of("torch-dcp", "asked"), "");
	rule_missing(rules_find(presets, "torch-dcp"), is_told, (void *)"", small, sizeof(small));
	assert_string_equal(small, "the rename ");
	rule_evidence(rules_find(presets, "torch-dcp"), 0, small, sizeof(small));
	assert_string_equal(small, "rename .met");
}

static const struct wait {
	const char *rule, *holds, *begun; /* @begun: of some ranks only */
	enum rule_wait waits;
} waits[] = {
	{"torch-dcp", "all closed", "", RULE_WAITS},
	{"torch-dcp", "all closed + exited 0", "", RULE_WAITS},
	{"torch-dcp", "all closed", "every rank __{rank}.metadata", RULE_WAITS_FOR_PARTS},
	{"torch-dcp", "exited 0", "every rank __{rank}.metadata", RULE_WAITS_FOR_PARTS},
	{"deepspeed", "all closed", "every rank *optim_states.pt", RULE_WAITS},
	{"deepspeed", "close ../latest", "every rank *optim_states.pt", RULE_WAITS_FOR_JOB},
	{"hf-trainer", "close trainer_state.json", "", RULE_WAITS_FOR_JOB},
	{"hf-trainer", "close trainer_state.json + lone", "", RULE_WAITS_FOR_JOB},
	{"hf-trainer", "close trainer_state.json + lone + all closed", "", RULE_WAITS_FOR_TIME},
	{"hf-trainer", "", "every rank rng_state_{rank}.pth", RULE_WAITS},
	{"accelerate", "all closed", "", RULE_WAITS},
	{"accelerate", "", "every rank random_states_{rank}.pkl", RULE_WAITS_FOR_PARTS},
	{"accelerate", "every rank random_states_{rank}.pkl", "every rank random_states_{rank}.pkl",
	 RULE_WAITS_FOR_TIME},
	{"sharded-export", "close *.index.json", "", RULE_WAITS_FOR_PARTS},
	{"sharded-export", "all closed", "", RULE_WAITS},
};

static bool wait_holds(void *wait, const struct evidence *ev)
{
	return is_told((void *)((const struct wait *)wait)->holds, ev);
}

static bool wait_begun(void *wait, const struct evidence *ev)
{
	return wait_holds(wait, ev) || is_told((void *)((const struct wait *)wait)->begun, ev);
}

static void who_is_waited_for(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		enum rule_wait got = rule_waits(rules_find(presets, waits[i].rule), wait_holds,
						wait_begun, (void *)&waits[i]);

		if (got != waits[i].waits)
			fail_msg("%s with %s, %s: %d, not %d", waits[i].rule, waits[i].holds,
				 waits[i].begun, (int)got, (int)waits[i].waits);
	}
}

/*
 * Which ends a framework brings about only after all ranks are done (presets.c says how), and whose
 * death those without leave uncovered. Of every alternative of every built-in rule for directories.
 */
static const struct {
	const char *rule, *end;
	enum { NOBODY, OF_FILE, AFTER_ALL } covers;
} covers[] = {
	{"orbax", "rename .", AFTER_ALL},
	{"orbax", "close commit_success.txt", AFTER_ALL},
	{"orbax-in-place", "close commit_success.txt", AFTER_ALL},
	{"nemo", "unlink ../{name}-unfinished", AFTER_ALL},
	{"nemo", "unlink ../{name%.ckpt}-unfinished", AFTER_ALL},
	{"nemo", "unlink ../{name%-EMA}-unfinished", AFTER_ALL},
	{"nemo", "unlink ../{name%-EMA.ckpt}-unfinished", AFTER_ALL},
	{"megatron", "close ../latest_checkpointed_iteration.txt", AFTER_ALL},
	{"hf-trainer", "close trainer_state.json + every rank rng_state_{rank}.pth", OF_FILE},
	{"hf-trainer", "close trainer_state.json + next sibling", NOBODY},
	{"hf-trainer", "close trainer_state.json + exited 0", NOBODY},
	{"hf-trainer", "close trainer_state.json + all closed + quiet + lone", NOBODY},
	{"hf-trainer", "every rank random_states_{rank}.pkl + quiet", OF_FILE},
	{"hf-trainer", "every rank random_states_{rank}.pkl + next sibling", OF_FILE},
	{"hf-trainer", "file random_states_0.pkl + next sibling + lone", NOBODY},
	{"hf-trainer", "every rank random_states_{rank}.pkl + exited 0", OF_FILE},
	{"hf-trainer", "file random_states_0.pkl + exited 0 + lone", NOBODY},
	{"accelerate", "every rank random_states_{rank}.pkl + quiet", OF_FILE},
	{"accelerate", "every rank random_states_{rank}.pkl + next sibling", OF_FILE},
	{"accelerate", "file random_states_0.pkl + next sibling + lone", NOBODY},
	{"accelerate", "every rank random_states_{rank}.pkl + exited 0", OF_FILE},
	{"accelerate", "file random_states_0.pkl + exited 0 + lone", NOBODY},
	{"lightning", "close meta.pt", AFTER_ALL},
	{"lightning", "rename meta.pt", AFTER_ALL},
	{"lightning", "close latest + every rank checkpoint/*optim_states.pt", OF_FILE},
	{"lightning", "close latest + next sibling", AFTER_ALL},
	{"lightning", "close latest + exited 0", NOBODY},
	{"deepspeed", "close ../latest + every rank *optim_states.pt", OF_FILE},
	{"deepspeed", "close ../latest + next sibling", AFTER_ALL},
	{"deepspeed", "close ../latest + exited 0", NOBODY},
	{"torchtitan", "rename .metadata", AFTER_ALL},
	{"torchtitan", "every rank __{rank}.metadata", OF_FILE},
	{"torch-dcp", "rename .metadata", AFTER_ALL},
	{"torch-dcp", "every rank __{rank}.metadata", OF_FILE},
	{"torch-checkpointing", "rename .", AFTER_ALL},
	{"sharded-export", "close *.index.json + all closed", NOBODY},
};

/* @arg: the rank that has its files. */
static bool is_of_rank(void *arg, const struct evidence *ev, int rank)
{
	assert_int_equal(ev->kind, EVIDENCE_EVERY_RANK);
	return rank == *(int *)arg;
}

static bool covers_rank(const struct rule *r, unsigned alternative, int rank)
{
	int three = 3;

	return rule_covers(r, (int)alternative, rank, is_of_rank, &three);
}

/* The alternative of @r that is called @end; each ends so. */
static unsigned alternative_of(const struct rule *r, const char *end)
{
	char text[RULE_WORDS_MAX] = "";
	unsigned a;

	for (a = 0; a < r->nr_alternatives; a++) {
		rule_evidence(r, (int)a, text, sizeof(text));
		if (!strcmp(text, end))
			return a;
	}
	fail_msg("%s does not end by: %s", r->name, end);
	return 0;
}

static void dead_ranks_are_covered(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(covers) / sizeof(covers[0]); i++) {
		const struct rule *r = rules_find(presets, covers[i].rule);
		unsigned a = alternative_of(r, covers[i].end);

		if (covers_rank(r, a, 3) != (covers[i].covers != NOBODY) ||
		    covers_rank(r, a, 2) != (covers[i].covers == AFTER_ALL) ||
		    covers_rank(r, a, -1) != (covers[i].covers == AFTER_ALL))
			fail_msg("%s, %s: rank 3 %d, rank 2 %d, no rank %d", r->name, covers[i].end,
				 covers_rank(r, a, 3), covers_rank(r, a, 2), covers_rank(r, a, -1));
	}
}

/* No alternative is left out above; those that every rule has cover nobody. */
static void every_end_is_justified(void **state)
{
	size_t i, nr = 0, nr_there = 0;
	const char *last = "";

	(void)state;
	for (i = 0; i < sizeof(covers) / sizeof(covers[0]); i++, nr++) {
		const struct rule *r = rules_find(presets, covers[i].rule);

		if (!strcmp(last, r->name))
			continue;
		last = r->name;
		nr_there += r->nr_alternatives - 2;
		assert_false(covers_rank(r, r->nr_alternatives - 2, 3));
		assert_false(covers_rank(r, r->nr_alternatives - 1, 3));
	}
	assert_int_equal(nr, nr_there);
}

/* Of a rule that asks for two files of every rank, a dead rank has to have both. */
static bool has_first(void *arg, const struct evidence *ev, int rank)
{
	return rank == 3 && !strcmp(ev->pattern, (const char *)arg);
}

static void all_files_of_a_dead_rank_count(void **state)
{
	struct rules *rs =
		rules_of("[{\"name\": \"mine\", \"match\": [\"m\"], \"done\": [[{\"every_rank\": "
			 "\"a{rank}\"}, {\"every_rank\": \"b{rank}\"}], [{\"every_rank\": "
			 "\"a{rank}\"}]]}]");
	const struct rule *r = rules_find(rs, "mine");

	(void)state;
	assert_false(rule_covers(r, 0, 3, has_first, "a{rank}"));
	assert_false(rule_covers(r, 0, 3, has_first, "b{rank}"));
	assert_true(rule_covers(r, 1, 3, has_first, "a{rank}"));
	rules_destroy(rs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends_are_those_of_the_frameworks),
		cmocka_unit_test(every_piece_counts),
		cmocka_unit_test(what_is_missing_is_said),
		cmocka_unit_test(who_is_waited_for),
		cmocka_unit_test(dead_ranks_are_covered),
		cmocka_unit_test(every_end_is_justified),
		cmocka_unit_test(all_files_of_a_dead_rank_count),
	};

	return cmocka_run_group_tests(tests, create_presets, destroy_presets);
}
