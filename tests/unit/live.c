/* SPDX-License-Identifier: MIT */
/*
 * The table of generations finds what is on it, in the order of age, as a plain list of them does.
 */
#include "tests/unit/unit.h"

#include "engine/format/names.h"
#include "engine/save/units.h"

#define MANY  3000 /* more than a few times the buckets that it begins with */
#define FEW   60
#define STEPS 20000

static struct units us;
static struct checkpoint cp;
static struct generation *all[MANY]; /* what is on the table, oldest first */
static size_t nr;
static uint64_t seed = 88172645463325252ull;

static size_t below(size_t n)
{
	return next_random(&seed) % n;
}

static struct inode_id a_directory(size_t i)
{
	return (struct inode_id){.dev = 5, .ino = 100 + i, .btime_ns = 7};
}

/* A name out of @nr_names, in one of three directories. */
static void choose_name(size_t nr_names, struct inode_id *dir, char name[NAME_MAX + 1])
{
	*dir = a_directory(below(3));
	snprintf(name, NAME_MAX + 1, "f%zu", below(nr_names));
}

static struct generation *make(uint64_t number, const struct inode_id *dir, const char *name)
{
	struct generation *g = calloc(1, sizeof(*g));
	enum live_key key;

	assert_non_null(g);
	g->units = &us;
	g->id = (struct inode_id){.dev = 5, .ino = number, .btime_ns = 9};
	g->checkpoint = number % 2 ? &cp : NULL;
	snprintf(g->staging, sizeof(g->staging), STAGING_PREFIX "%032llx",
		 (unsigned long long)number);
	snprintf(g->target.name, sizeof(g->target.name), "%s", name);
	g->target.dir_id = *dir;
	list_init(&g->link);
	list_init(&g->sealed);
	list_init(&g->beside);
	for (key = 0; key < LIVE_KEYS; key++)
		list_init(&g->found_by[key].link);
	return g;
}

static void add(uint64_t number, size_t nr_names)
{
	struct inode_id dir;
	char name[NAME_MAX + 1];

	choose_name(nr_names, &dir, name);
	all[nr] = make(number, &dir, name);
	live_add(&us.live, all[nr]);
	assert_true(live_has(all[nr++]));
}

/* Takes all[i] out of the list of the test; the others stay in order. */
static struct generation *take(size_t i)
{
	struct generation *g = all[i];

	memmove(&all[i], &all[i + 1], (--nr - i) * sizeof(*all));
	return g;
}

static void remove_one(size_t i)
{
	struct generation *g = take(i);

	live_remove(&us.live, g);
	assert_false(live_has(g));
	assert_ptr_not_equal(live_find_inode(&us.live, &g->id), g);
	assert_null(live_find_staging(&us.live, g->staging));
	free(g);
}

static void renew(size_t i)
{
	struct generation *g = take(i);

	all[nr++] = g;
	live_renew(&us.live, g);
}

static void begin(void **state)
{
	(void)state;
	memset(&us, 0, sizeof(us));
	assert_int_equal(live_init(&us.live), 0);
	list_init(&cp.files);
	cp.units = &us;
	nr = 0;
}

static void end(void)
{
	while (nr)
		remove_one(below(nr));
	assert_true(list_empty(&us.live.all));
	assert_true(list_empty(&us.live.sealed));
	assert_true(list_empty(&cp.files));
	assert_int_equal(live_nr(&us.live), 0);
	live_finish(&us.live);
}

/* Those that the table has under the name of @g are those that the list has, in its order. */
static void check_name(const struct generation *g)
{
	const struct inode_id *dir = &g->target.dir_id;
	const char *name = g->target.name;
	const struct generation *found = live_oldest(&us.live, dir, name), *last = NULL;
	size_t i;

	for (i = 0; i < nr; i++) {
		if (!same_inode(&all[i]->target.dir_id, dir) || strcmp(all[i]->target.name, name))
			continue;
		assert_ptr_equal(found, all[i]);
		assert_ptr_equal(live_older(&us.live, found), last);
		last = found;
		found = live_newer(&us.live, found);
	}
	assert_null(found);
	assert_ptr_equal(live_newest(&us.live, dir, name), last);
}

static void check_one(struct generation *g)
{
	struct list *l;
	size_t sealed = 0, beside = 0;

	check_name(g);
	assert_ptr_equal(live_find_inode(&us.live, &g->id), g);
	assert_ptr_equal(live_find_staging(&us.live, g->staging), g);
	list_for_each (l, &us.live.sealed)
		sealed += container_of(l, struct generation, sealed) == g;
	assert_int_equal(sealed, g->state == GENERATION_SEALED);
	list_for_each (l, &cp.files)
		beside += container_of(l, struct generation, beside) == g;
	assert_int_equal(beside, g->checkpoint != NULL);
}

/* What is open comes first. */
static void check_files(void)
{
	bool open = true;
	struct list *l;

	list_for_each (l, &cp.files) {
		bool is = container_of(l, struct generation, beside)->state == GENERATION_OPEN;

		assert_true(open || !is);
		open = is;
	}
}

static void an_empty_table_finds_nothing(void **state)
{
	struct inode_id id = a_directory(1);

	begin(state);
	assert_null(live_oldest(&us.live, &id, "x"));
	assert_null(live_newest(&us.live, &id, "x"));
	assert_null(live_find_inode(&us.live, &id));
	assert_null(live_find_staging(&us.live, STAGING_PREFIX));
	end();
}

static void what_is_added_is_found_while_the_table_grows(void **state)
{
	size_t i;

	begin(state);
	for (i = 0; i < MANY; i++)
		add(i, MANY / 4);
	assert_int_equal(live_nr(&us.live), MANY);
	assert_true(us.live.found_by[LIVE_BY_NAME].nr_buckets >= MANY / 2);
	for (i = 0; i < MANY; i++) {
		assert_ptr_equal(live_find_inode(&us.live, &all[i]->id), all[i]);
		assert_ptr_equal(live_find_staging(&us.live, all[i]->staging), all[i]);
	}
	for (i = 0; i < MANY; i += 50)
		check_one(all[i]);
	end();
}

static void change_state(struct generation *g, enum generation_state state)
{
	if (machine_allows(&file_machine, g->state, state))
		generation_set_state(g, state);
}

static void it_stays_in_step_with_a_list(void **state)
{
	size_t i, step;

	begin(state);
	for (step = 0; step < STEPS; step++) {
		struct inode_id dir;
		char name[NAME_MAX + 1];

		if (!nr || (nr < FEW && below(6) == 0)) {
			add(step, 5);
			continue;
		}
		i = below(nr);
		switch (below(8)) {
		case 0:
			remove_one(i);
			continue;
		case 1:
			renew(i);
			break;
		case 2: /* and it is the newest of all, as with every rename of a unit */
			choose_name(5, &dir, name);
			live_rename(&us.live, all[i], &dir, name);
			assert_ptr_equal(live_newest(&us.live, &dir, name), all[i]);
			renew(i);
			break;
		default:
			change_state(all[i], below(GENERATION_DURABLE));
		}
		check_one(all[below(nr)]);
		check_files();
	}
	end();
}

/* Ino and device may be those of a file that is gone. */
static void inodes_that_only_differ_by_their_birth_are_two(void **state)
{
	struct inode_id id = {.dev = 5, .ino = 1, .btime_ns = 10};

	begin(state);
	add(1, 1);
	assert_null(live_find_inode(&us.live, &id));
	id.btime_ns = 9;
	assert_ptr_equal(live_find_inode(&us.live, &id), all[0]);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_table_finds_nothing),
		cmocka_unit_test(what_is_added_is_found_while_the_table_grows),
		cmocka_unit_test(it_stays_in_step_with_a_list),
		cmocka_unit_test(inodes_that_only_differ_by_their_birth_are_two),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
