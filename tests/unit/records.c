/* SPDX-License-Identifier: MIT */
/*
 * What one node records of an end, another reads: each kind of record has one writer and one
 * reader.
 */
#include "tests/unit/unit.h"

#include "engine/coord/agreement.h"
#include "engine/unit/refusal.h"

#define NODE "0123456789abcdef0123456789abcdef"

static void an_end_is_read_as_it_was_written(void **state)
{
	const struct agree_prepare all[] = {
		{NODE, 0, 0, false},
		{NODE, 17, 0xffff, true},
		{"ab", AGREE_SLOT_MAX - 1, 5, false},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(all) / sizeof(*all); i++) {
		char text[AGREE_HEAD_MAX];
		struct agree_prepare p;

		agreement_write_prepare(text, &all[i]);
		assert_true(agreement_read_prepare(text, &p));
		assert_string_equal(p.node, all[i].node);
		assert_int_equal(p.length, all[i].length);
		assert_int_equal(p.voted, all[i].voted);
		assert_int_equal(p.died, all[i].died);
	}
}

static void what_is_no_end_is_refused(void **state)
{
	static const char *const texts[] = {"",
					    "prepare",
					    "prepare " NODE,
					    "prepare " NODE " 5",
					    "prepare " NODE " 5 1",
					    "prepare XY 5 1 ended",
					    "prepare " NODE " 5 1 lost",
					    "commit " NODE " 5 1 ended",
					    "prepare " NODE " 4000000000 1 ended"};
	struct agree_prepare p;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_false(agreement_read_prepare(texts[i], &p));
}

static void a_decision_has_its_payload(void **state)
{
	struct agree_decision d;
	char head[AGREE_HEAD_MAX];

	(void)state;
	agreement_write_decision(head, true, NODE);
	assert_string_equal(head, "commit " NODE);
	assert_true(agreement_read_decision(head, &d) && d.commit);
	assert_string_equal(d.node, NODE);
	assert_string_equal(d.payload, "");
	agreement_write_decision(head, false, NODE);
	assert_string_equal(head, "abort " NODE);
	assert_true(agreement_read_decision("abort " NODE " {}", &d) && !d.commit);
	assert_string_equal(d.node, NODE);
	assert_string_equal(d.payload, "{}");
	assert_true(agreement_read_decision("abort ?", &d));
	assert_string_equal(d.node, "");
	assert_false(agreement_read_decision("prepare " NODE, &d));
}

static void a_reason_is_read_as_it_was_written(void **state)
{
	const struct refusal all[] = {
		{.err = EIO, .reason = "rank 3 has died", .node = "n1", .age_us = 12345},
		{.err = ECANCELED, .reason = "it was removed", .node = "n2", .dropped = true},
		{.err = 0, .reason = "it is ordinary", .node = "n\"3", .ordinary = true},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(all) / sizeof(*all); i++) {
		char *text = refusal_write(&all[i]);
		struct refusal r;

		assert_non_null(text);
		refusal_read(&r, text);
		assert_int_equal(r.err, all[i].err);
		assert_string_equal(r.reason, all[i].reason);
		assert_string_equal(r.node, all[i].node);
		assert_int_equal(r.dropped, all[i].dropped);
		assert_int_equal(r.ordinary, all[i].ordinary);
		assert_int_equal(r.age_us, all[i].age_us);
		refusal_finish(&r);
		free(text);
	}
}

/* Anybody may have recorded it. */
static void what_is_no_reason_is_a_failure(void **state)
{
	static const char *const texts[] = {NULL,
					    "",
					    "{",
					    "[]",
					    "5",
					    "{\"err\": -3}",
					    "{\"err\": 99999999999}",
					    "{\"reason\": 5}"};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct refusal r;

		refusal_read(&r, texts[i]);
		assert_int_equal(r.err, EIO);
		assert_true(*r.reason && *r.node);
		assert_false(r.dropped || r.ordinary);
		refusal_finish(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_end_is_read_as_it_was_written),
		cmocka_unit_test(what_is_no_end_is_refused),
		cmocka_unit_test(a_decision_has_its_payload),
		cmocka_unit_test(a_reason_is_read_as_it_was_written),
		cmocka_unit_test(what_is_no_reason_is_a_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
