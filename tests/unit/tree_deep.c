/* SPDX-License-Identifier: MIT */
/* Deep trees are forgotten whole and found by small stacks; circles are stale. */
#include "tests/unit/tree.h"

#include <pthread.h>

/* A chain of directories, each in the one before. Returns the id of the last. */
static uint64_t make_chain(int depth, uint64_t *ids)
{
	struct node *dir = node_get(t, NODE_ROOT), *next;
	int at = dup(top), i, fd;
	uint64_t id = 0;

	for (i = 0; i < depth; i++) {
		assert_int_equal(mkdirat(at, "d", 0755), 0);
		fd = openat(at, "d", O_PATH | O_DIRECTORY);
		assert_true(fd >= 0);
		close(at);
		at = fd;
		id = id_of(dir, "d");
		assert_int_not_equal(id, 0);
		if (ids)
			ids[i] = id;
		next = node_get(t, id);
		node_put(t, dir);
		dir = next;
	}
	node_put(t, dir);
	close(at);
	return id;
}

static void forgetting_from_the_top_frees_all(void **state)
{
	enum { DEPTH = 300 };
	uint64_t ids[DEPTH];
	int before, i;

	(void)state;
	begin(1000);
	before = count_fds();
	make_chain(DEPTH, ids);
	for (i = 0; i < DEPTH; i++)
		tree_forget(t, ids[i], 1);
	assert_int_equal(en->metrics.nodes, 1);
	assert_int_equal(count_fds(), before);
	end();
}

static int deep_result;

static void *find_deepest(void *arg)
{
	uint64_t ino;

	deep_result = fd_of(*(uint64_t *)arg, &ino);
	return NULL;
}

/* A serving thread has a small stack; the depth of a tree is up to its users. */
static void deep_trees_need_no_deep_stack(void **state)
{
	uint64_t last;
	pthread_attr_t attr;
	pthread_t thread;

	(void)state;
	begin(1);
	last = make_chain(900, NULL); /* all that rmtree can remove again */
	make_file(top, "cold", "");
	id_of(root, "cold"); /* takes the only pin */
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 512 * 1024); /* as in requests_loop.c */
	assert_int_equal(pthread_create(&thread, &attr, find_deepest, &last), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
	assert_int_equal(deep_result, 0);
	end();
}

/* Two directories that trade places on the backing seem to be inside each other for a
 * moment. */
static void circles_are_stale(void **state)
{
	uint64_t a, b, ino;
	struct node *n;

	(void)state;
	begin(1);
	assert_int_equal(mkdirat(top, "a", 0755), 0);
	assert_int_equal(mkdirat(top, "a/b", 0755), 0);
	a = id_of(root, "a");
	n = node_get(t, a);
	b = id_of(n, "b");
	node_put(t, n);
	assert_int_equal(renameat(top, "a/b", top, "b"), 0);
	assert_int_equal(renameat(top, "a", top, "b/a"), 0);
	/* The kernel still has b, and looks into it. */
	n = node_get(t, b);
	assert_int_equal(id_of(n, "a"), a);
	node_put(t, n);
	make_file(top, "cold", "");
	id_of(root, "cold");
	assert_int_equal(fd_of(a, &ino), -ESTALE);
	assert_int_equal(fd_of(b, &ino), -ESTALE);
	/* And out again by a look from the top. */
	assert_int_equal(id_of(root, "b"), b);
	assert_int_equal(fd_of(a, &ino), 0);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forgetting_from_the_top_frees_all),
		cmocka_unit_test(deep_trees_need_no_deep_stack),
		cmocka_unit_test(circles_are_stale),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
