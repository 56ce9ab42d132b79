/* SPDX-License-Identifier: MIT */
/*
 * What nodes tell each other of a checkpoint's files: it is heard as it was told, and short where
 * the ranks do the same.
 */
#include "tests/unit/unit.h"

#include <stdlib.h>

#include "engine/base/cleanup.h"
#include "engine/format/commit.h"
#include "engine/record/events.h"
#include "engine/rule/rule.h"

#define MOST 57344

static void add(json_t *events, int kind, const char *path, int rank)
{
	json_array_append_new(events, json_pack("[i, s, i]", kind, path, rank));
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All of them, sorted. */
static char *sorted(const json_t *events)
{
	size_t nr = json_array_size(events), i, size;
	char **texts = calloc(nr + 1, sizeof(*texts)), *all;
	FILE *f = open_memstream(&all, &size);

	for (i = 0; i < nr; i++)
		texts[i] = json_dumps(json_array_get(events, i), JSON_COMPACT);
	qsort(texts, nr, sizeof(*texts), by_text);
	for (i = 0; i < nr; i++) {
		fprintf(f, "%s\n", texts[i]);
		free(texts[i]);
	}
	fclose(f);
	free(texts);
	return all;
}

/* Tells them in as many reports as it takes. How many lines that were. */
static size_t tell_and_hear(json_t *events, unsigned *reports)
{
	json_t *heard = json_array(), *left = json_deep_copy(events), *told, *some;
	char *before, *after;
	size_t nr, lines = 0;

	for (*reports = 0; json_array_size(left); ++*reports) {
		nr = events_tell(left, MOST, &told);
		assert_true(nr && (nr == 1 || json_dumpb(told, NULL, 0, JSON_COMPACT) <= MOST));
		lines += json_array_size(told);
		some = events_heard(told);
		json_array_extend(heard, some);
		while (nr--)
			json_array_remove(left, 0);
		json_decref(some);
		json_decref(told);
	}
	before = sorted(events);
	after = sorted(heard);
	assert_string_equal(before, after);
	free(before);
	free(after);
	json_decref(left);
	json_decref(heard);
	return lines;
}

static void ranks_that_do_the_same_are_one_line(void **state)
{
	json_t *events = json_array();
	unsigned i, reports;
	char path[128];

	(void)state;
	for (i = 0; i < 100000; i++) {
		unsigned rank = (unsigned)(i * 77773ul % 100000); /* in no order */

		snprintf(path, sizeof(path), "bf16_zero_pp_rank_%u_mp_rank_00_optim_states.pt",
			 rank);
		add(events, EVIDENCE_CLOSE, path, (int)rank);
	}
	/* That of rank 16 has the number twice. */
	assert_int_equal(tell_and_hear(events, &reports), 2);
	assert_int_equal(reports, 1);
	json_decref(events);
}

static void what_differs_by_more_is_told_as_it_is(void **state)
{
	static const char *const paths[] = {"__3_0.distcp",
					    "__0_0.distcp",
					    ".metadata",
					    "a/3/3",
					    "03",
					    "x33",
					    "rank3",
					    "3",
					    "\x01"
					    "3",
					    "\xc3\xa4"
					    "3"};
	json_t *events = json_array();
	unsigned i, reports;
	int rank;

	(void)state;
	for (rank = -1; rank < 34; rank += rank == 3 ? 30 : 1)
		for (i = 0; i < ARRAY_SIZE(paths); i++) {
			add(events, EVIDENCE_CLOSE, paths[i], rank);
			add(events, EVIDENCE_RENAME, paths[i], rank);
			add(events, NR_EVIDENCE_KINDS, paths[i], -1);
		}
	tell_and_hear(events, &reports);
	assert_int_equal(reports, 1);
	json_decref(events);
}

static void long_ones_take_several_reports(void **state)
{
	json_t *events = json_array();
	unsigned i, reports;
	char path[128];

	(void)state;
	for (i = 0; i < 5000; i++) {
		snprintf(path, sizeof(path), "model-%08x.safetensors", i * 2654435761u);
		add(events, EVIDENCE_CLOSE, path, 7);
	}
	tell_and_hear(events, &reports);
	assert_true(reports > 2 && reports < 10);
	json_decref(events);
}

/* Else a file would be there again. */
static void a_removal_stays_behind_what_it_removes(void **state)
{
	json_t *events = json_array(), *told, *heard;

	(void)state;
	add(events, EVIDENCE_CLOSE, "shard-0", 0);
	add(events, EVIDENCE_UNLINK, "shard-1", 1);
	add(events, EVIDENCE_CLOSE, "shard-1", 1);
	add(events, EVIDENCE_UNLINK, "shard-0", 0);
	add(events, EVIDENCE_CLOSE, "shard-2", 2);
	assert_int_equal(events_tell(events, MOST, &told), 5);
	heard = events_heard(told);
	assert_true(json_equal(events, heard));
	json_decref(told);
	json_decref(heard);
	json_decref(events);
}

static void what_is_no_event_is_left_out(void **state)
{
	static const char *const texts[] = {"[1, 2, 3]",
					    "[0, \"\", 1]",
					    "[0, \"x\", -2]",
					    "[0, \"x\", 4294967296]",
					    "[-1, \"x\", 0]",
					    "[99, \"x\", 0]",
					    "[0, 7, [1, 2]]",
					    "[0, \"x\", [1]]",
					    "[0, \"x\", [2, 1]]",
					    "{}",
					    "7",
					    "[]",
					    "[0, \"\\u0001\", [-5, -1]]",
					    "[0, \"\\u0001\", [\"a\", 2147483647, \"b\"]]",
					    "null"};
	json_t *told = json_array(), *heard;
	unsigned i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(texts); i++) {
		json_t *o = json_loads(texts[i], JSON_DECODE_ANY, NULL);

		assert_non_null(o);
		json_array_append_new(told, o);
	}
	/* [a, 2147483647] is from 0 on, and a lot. */
	heard = events_heard(told);
	assert_true(json_array_size(heard) < EVENTS_MAX / 256);
	json_decref(heard);
	json_array_remove(told, 13);
	heard = events_heard(told);
	assert_int_equal(json_array_size(heard), 0);
	json_decref(heard);
	json_decref(told);
	heard = events_heard(NULL);
	assert_int_equal(json_array_size(heard), 0);
	json_decref(heard);
}

static void what_gets_too_long_is_left_out(void **state)
{
	char pattern[COMMIT_PATH_MAX] = "";
	json_t *told, *heard;
	struct told_event e;

	(void)state;
	memset(pattern, EVENTS_RANK, sizeof(pattern) - 1);
	told = json_pack("[[i, s, [i, i, i, i]]]", EVIDENCE_CLOSE, pattern, 9, 10, INT_MAX - 1,
			 INT_MAX - 1);
	heard = events_heard(told);
	assert_int_equal(json_array_size(heard), 1);
	assert_true(events_get(heard, 0, &e) && e.rank == 9 && e.path[0] == '9');
	assert_int_equal(strlen(e.path), COMMIT_PATH_MAX - 1);
	json_decref(heard);
	json_decref(told);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_that_do_the_same_are_one_line),
		cmocka_unit_test(what_differs_by_more_is_told_as_it_is),
		cmocka_unit_test(long_ones_take_several_reports),
		cmocka_unit_test(a_removal_stays_behind_what_it_removes),
		cmocka_unit_test(what_is_no_event_is_left_out),
		cmocka_unit_test(what_gets_too_long_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
