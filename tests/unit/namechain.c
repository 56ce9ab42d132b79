/* SPDX-License-Identifier: MIT */
/*
 * The records of a name, removed: by whoever, cut off at every instant, and while others add to
 * them.
 */
#include "tests/unit/coord.h"

#include "engine/record/namechain.h"

#define OLD   "000000000000000000000000000000aa"
#define NEW   "000000000000000000000000000000bb"
#define ONE   "00000000000000000000000000000001"
#define TWO   "00000000000000000000000000000002"
#define THREE "00000000000000000000000000000003"

static char name[COORD_GEN_MAX];

static struct namechain by(const char *node)
{
	return (struct namechain){&coord_dir_ops, &b, &me, node};
}

static struct namechain_end look(const char *node)
{
	const struct namechain ch = by(node);
	struct namechain_end end;

	assert_int_equal(namechain_follow(&ch, name, NULL, &end), 0);
	return end;
}

static int add(const char *node, const struct namechain_end *end, const char *gen)
{
	const struct namechain ch = by(node);

	return namechain_add(&ch, end, gen, false);
}

static int close_after(const char *node, const struct namechain_end *end)
{
	const struct namechain ch = by(node);

	return namechain_close(&ch, end);
}

static int remove_it(const char *node)
{
	const struct namechain ch = by(node);

	return namechain_remove(&ch, name);
}

static int setup_chain(void **state)
{
	struct namechain_end end;
	int err = setup_tree(state);

	namechain_first(name, 42, "step-1");
	end = look(ONE);
	assert_int_equal(end.nr, 0);
	assert_int_equal(add(ONE, &end, OLD), 1);
	return err;
}

static void a_name_begins_anew(void **state)
{
	struct namechain_end end = look(ONE);

	(void)state;
	assert_int_equal(end.nr, 1);
	assert_string_equal(end.last, OLD);
	assert_int_equal(close_after(ONE, &end), 1);
	assert_string_equal(look(TWO).closed, ONE);
	assert_int_equal(remove_it(ONE), 0);
	assert_int_equal(nr_files(), 0);
	end = look(TWO);
	assert_int_equal(end.nr, 0);
	assert_int_equal(add(TWO, &end, NEW), 1);
	assert_string_equal(look(ONE).last, NEW);
}

static void either_it_is_closed_or_added_to(void **state)
{
	struct namechain_end end = look(ONE);

	(void)state;
	assert_int_equal(close_after(ONE, &end), 1);
	assert_int_equal(add(TWO, &end, NEW), 0);
	assert_int_equal(remove_it(ONE), 0);
	end = look(ONE);
	assert_int_equal(add(TWO, &end, OLD), 1);
	end = look(ONE);
	assert_int_equal(add(TWO, &end, NEW), 1);
	assert_int_equal(close_after(ONE, &end), 0);
	assert_string_equal(look(ONE).last, NEW);
}

/* Of several that go on for one that is dead, one does. */
static void one_goes_on(void **state)
{
	struct namechain_end end = look(ONE);

	(void)state;
	assert_int_equal(close_after(ONE, &end), 1);
	end = look(TWO);
	assert_int_equal(close_after(TWO, &end), 1);
	assert_int_equal(close_after(THREE, &end), 0);
	end = look(TWO);
	assert_string_equal(end.closed, TWO);
	assert_int_equal(close_after(TWO, &end), 1);
	assert_int_equal(remove_it(TWO), 0);
	assert_int_equal(nr_files(), 0);
}

static void who_was_held_up_adds_nothing(void **state)
{
	struct namechain_end held_up = look(TWO), end = look(ONE);

	(void)state;
	assert_int_equal(close_after(ONE, &end), 1);
	assert_int_equal(remove_it(ONE), 0);
	assert_int_equal(add(TWO, &held_up, NEW), 0);
	assert_int_equal(nr_files(), 0);
	end = look(ONE);
	assert_int_equal(add(ONE, &end, NEW), 1);
	assert_int_equal(add(TWO, &held_up, OLD), 0);
	end = look(TWO);
	assert_string_equal(end.last, NEW);
	assert_int_equal(end.nr, 1);
}

/* The one whose name it was before lives on under another, and ends by this chain. */
static void what_was_renamed_keeps_it(void **state)
{
	const struct namechain ch = by(ONE);
	struct namechain_end end = look(ONE);

	(void)state;
	assert_int_equal(record_gen(OLD, "open", "o"), 1);
	assert_int_equal(namechain_add(&ch, &end, OLD, true), 1);
	end = look(ONE);
	assert_true(end.renamed);
	assert_int_equal(namechain_add(&ch, &end, NEW, false), 1);
	assert_int_equal(namechain_rests(&ch, name, NEW), 0);
	assert_int_equal(record_gen(OLD, "decision", "d"), 1);
	assert_int_equal(namechain_rests(&ch, name, NEW), 1);
}

static unsigned nr_orphans;

static int note_orphan(void *chain, uid_t owner, const char *key)
{
	const struct namechain *ch = chain;
	char of[COORD_GEN_MAX];
	bool leads;
	int err = namechain_of(ch, key, of, &leads);

	(void)owner;
	if (err)
		return err == -ENOENT ? 0 : err; /* an attempt */
	nr_orphans += !leads;
	return leads ? 0 : namechain_drop(ch, key);
}

/*
 * What is left leads to what is over, or nowhere; another node removes that, and the name begins
 * anew. Nothing is left then.
 */
static int begins_anew(void *arg, const struct crash_state *s)
{
	const struct namechain ch = {&coord_dir_ops, s->backing, &me, TWO};
	struct namechain_end end;
	int err;

	(void)arg;
	s->backing->fuse = fuse;
	err = namechain_follow(&ch, name, NEW, &end);
	if (err || end.met)
		return 2;
	if (coord_dir_ops.list(s->backing, note_orphan, (void *)&ch))
		return 3;
	if (end.nr && (namechain_close(&ch, &end) != 1 || namechain_remove(&ch, name)))
		return 4;
	if (namechain_follow(&ch, name, NULL, &end) || end.nr)
		return 5;
	return namechain_add(&ch, &end, NEW, false) == 1 ? 0 : 6;
}

static void a_crash_leaves_what_others_remove(void **state)
{
	struct namechain_end end = look(ONE);

	(void)state;
	assert_int_equal(add(ONE, &end, THREE), 1);
	nr_orphans = 0;
	r = record_start(&b);
	end = look(ONE);
	assert_int_equal(close_after(ONE, &end), 1);
	assert_int_equal(remove_it(ONE), 0);
	assert_int_equal(nr_files(), 0);
	assert_never_caught(begins_anew, NULL);
	assert_true(report.checked > 5 && nr_orphans);
}

int main(void)
{
#define C(f) cmocka_unit_test_setup_teardown(f, setup_chain, teardown_tree)
	const struct CMUnitTest tests[] = {
		C(a_name_begins_anew),
		C(either_it_is_closed_or_added_to),
		C(one_goes_on),
		C(who_was_held_up_adds_nothing),
		C(what_was_renamed_keeps_it),
		C(a_crash_leaves_what_others_remove),
	};
	int failed;

	umask(0);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	fuse = true;
	return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
