/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/* Saves, renames and removals in any order, cut off at every instant. */
#include "tests/unit/save_crash.h"

enum { NAMES = 3, OPS = 12, MOST_WORDS = 4 * NAMES * OPS };

static const char *const some_names[NAMES] = {"a.pt", "b.pt", "c.pt.tmp"};

/* What the program knows of a name: what it is now, and what a crash may leave. */
static struct {
	int now;
	unsigned maybe;
	bool saved; /* last by a save, not by a rename or an unlink */
} known[NAMES];

static struct expected words[MOST_WORDS + 1];
static int nr_words, last_mark;
static uint64_t rng;

static unsigned pick(unsigned below)
{
	return (unsigned)(next_random(&rng) % below);
}

/* From here on all of what is known holds. */
static void say(void)
{
	int i;

	last_mark++;
	for (i = 0; i < NAMES; i++) {
		assert_true(nr_words < MOST_WORDS);
		words[nr_words++] = (struct expected){some_names[i], last_mark, known[i].maybe};
	}
	promise(last_mark);
}

static void random_save(int i, int version, bool sync)
{
	size_t size = 16 + pick(pick(4) ? 70000 : 300000);

	known[i].now = version;
	known[i].maybe |= V(version);
	known[i].saved = true;
	say();
	assert_int_equal(save(&m, some_names[i], version, size, sync), 0);
	if (sync)
		known[i].maybe = V(version);
}

static void random_rename(int from, int to)
{
	if (from == to || known[from].now == ABSENT)
		return;
	known[to].now = known[from].now;
	known[to].maybe |= V(known[from].now);
	known[from].now = ABSENT;
	known[from].maybe |= V(ABSENT);
	known[from].saved = known[to].saved = false;
	say();
	assert_int_equal(file_rename(&m, some_names[from], some_names[to]), 0);
}

static void random_unlink(int i)
{
	if (known[i].now == ABSENT)
		return;
	known[i].now = ABSENT;
	known[i].maybe |= V(ABSENT);
	known[i].saved = false;
	say();
	assert_int_equal(file_unlink(&m, some_names[i]), 0);
}

static void wait_for(int i)
{
	assert_int_equal(name_wait(&m, some_names[i]), 0);
	if (known[i].saved)
		known[i].maybe = V(known[i].now);
}

static void random_op(int version)
{
	int i = (int)pick(NAMES), k;

	switch (pick(8)) {
	case 0:
		random_rename(i, (int)pick(NAMES));
		break;
	case 1:
		random_unlink(i);
		break;
	case 2:
		wait_for(i);
		break;
	case 3:
		for (k = 0; k < NAMES; k++)
			wait_for(k);
		assert_int_equal(dir_sync(&m), 0);
		for (k = 0; k < NAMES; k++)
			known[k].maybe = V(known[k].now);
		break;
	default:
		random_save(i, version, pick(3) == 0);
	}
	say();
	for (k = 0; k < NAMES; k++)
		assert_int_equal(version_in(&m, some_names[k]), known[k].now);
}

static void anything_in_any_order(void **state)
{
	int seed, i;

	recover_every = 5;
	for (seed = 1; seed <= 5; seed++) {
		rng = (uint64_t)seed;
		memset(known, 0, sizeof(known));
		nr_words = last_mark = 0;
		known[0].now = OLD;
		make_version(m.top, some_names[0], OLD, SIZE);
		for (i = 0; i < NAMES; i++) {
			known[i].maybe = V(known[i].now);
			words[nr_words++] = (struct expected){some_names[i], 0, known[i].maybe};
		}
		begin(words);
		for (i = 0; i < OPS; i++)
			random_op(SECOND + i);
		words[nr_words].name = NULL;
		assert_survives();
		record_free(r);
		setup(state);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(anything_in_any_order),
	};
	int failed;

	umask(0);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	print_message("%zu states checked\n", nr_checked);
	return failed;
}
