/* SPDX-License-Identifier: MIT */
/* The node table over a real directory: who is who, for how long, and where. */
#include "tests/unit/tree.h"

/* --- identity --- */

static void lookups_are_counted(void **state)
{
	uint64_t id;

	(void)state;
	begin(100);
	make_file(top, "a", "");
	id = id_of(root, "a");
	assert_int_equal(id_of(root, "a"), id);
	assert_int_equal(id_of(root, "a"), id);
	tree_forget(t, id, 2);
	assert_true(known(id));
	tree_forget(t, id, 1);
	assert_false(known(id));
	assert_int_equal(en->metrics.nodes, 1);
	end();
}

static void a_reference_outlives_the_lookups(void **state)
{
	struct node *n;
	uint64_t id;

	(void)state;
	begin(100);
	make_file(top, "a", "");
	id = id_of(root, "a");
	n = node_get(t, id);
	tree_forget(t, id, 99); /* more than there were */
	assert_int_equal(n->id, id);
	assert_true(known(id));
	node_put(t, n);
	assert_false(known(id));
	end();
}

static void the_root_is_never_forgotten(void **state)
{
	uint64_t ino;

	(void)state;
	begin(100);
	tree_forget(t, NODE_ROOT, UINT64_MAX);
	assert_true(known(NODE_ROOT));
	assert_int_equal(fd_of(NODE_ROOT, &ino), 0);
	assert_int_equal(ino, en->backing.ino);
	end();
}

static void unknown_ids_are_refused(void **state)
{
	static const uint64_t ids[] = {0,	   2,	       1024,	   1ull << 32 | 5,
				       7ull << 32, UINT64_MAX, UINT32_MAX, 0xFFFFFFFF00000000ull};
	size_t i;

	(void)state;
	begin(100);
	for (i = 0; i < ARRAY_SIZE(ids); i++) {
		assert_null(node_get(t, ids[i]));
		tree_forget(t, ids[i], 1);
	}
	end();
}

static int compare_ids(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void ids_are_never_used_again(void **state)
{
	enum { ROUNDS = 3000, FILES = 3 };
	static uint64_t ids[ROUNDS * FILES];
	char name[2] = "a";
	size_t i, nr = 0;

	(void)state;
	begin(100);
	for (i = 0; i < FILES; i++) {
		name[0] = (char)('a' + i);
		make_file(top, name, "");
	}
	for (i = 0; i < ROUNDS * FILES; i++) {
		name[0] = (char)('a' + i % FILES);
		ids[nr++] = id_of(root, name);
		if (i % FILES == FILES - 1) {
			tree_forget(t, ids[nr - 3], 1);
			tree_forget(t, ids[nr - 1], 1);
			tree_forget(t, ids[nr - 2], 1);
			assert_false(known(ids[nr - 1]));
		}
	}
	qsort(ids, nr, sizeof(ids[0]), compare_ids);
	for (i = 1; i < nr; i++)
		assert_int_not_equal(ids[i], ids[i - 1]);
	end();
}

static void hard_links_are_one_node(void **state)
{
	uint64_t a, b;

	(void)state;
	begin(100);
	make_file(top, "a", "");
	assert_int_equal(linkat(top, "a", top, "b", 0), 0);
	a = id_of(root, "a");
	assert_path(a, NULL, "a");
	b = id_of(root, "b");
	assert_int_equal(a, b);
	assert_path(a, NULL, "b"); /* where it was seen last */
	tree_forget(t, a, 2);
	assert_false(known(a));
	end();
}

static void a_replaced_name_is_another_node(void **state)
{
	uint64_t a, b, ino;

	(void)state;
	begin(100);
	make_file(top, "a", "old");
	a = id_of(root, "a");
	make_file(top, "new", "new");
	assert_int_equal(renameat(top, "new", top, "a"), 0);
	b = id_of(root, "a");
	assert_int_not_equal(a, b);
	assert_int_equal(fd_of(b, &ino), 0);
	assert_int_equal(ino, ino_of("a"));
	assert_int_equal(fd_of(a, &ino), 0); /* its pin keeps the old one reachable */
	assert_int_not_equal(ino, ino_of("a"));
	end();
}

static void a_fresh_file_is_nobody_known(void **state)
{
	struct node *n;
	struct statx stx;
	uint64_t a, b;
	int fd;

	(void)state;
	begin(100);
	make_file(top, "a", "");
	a = id_of(root, "a");
	fd = openat(top, "a", O_RDONLY);
	assert_int_equal(tree_adopt(t, &en->backing, root, "a", fd, false, &n, &stx), 0);
	assert_int_equal(n->id, a);
	node_put(t, n);
	/* The inode number, and the clock's tick, may be those of one that was just
	 * removed. */
	assert_int_equal(tree_adopt(t, &en->backing, root, "a", fd, true, &n, &stx), 0);
	b = n->id;
	assert_int_not_equal(b, a);
	node_put(t, n);
	assert_int_equal(id_of(root, "a"), b);
	tree_forget(t, a, 2);
	assert_false(known(a));
	assert_true(known(b));
	assert_int_equal(id_of(root, "a"), b);
	tree_forget(t, b, 3);
	assert_int_equal(en->metrics.nodes, 1);
	close(fd);
	end();
}

static void missing_names_are_told(void **state)
{
	struct node *n, *file;
	struct statx stx;

	(void)state;
	begin(100);
	make_file(top, "a", "");
	assert_int_equal(tree_lookup(t, &en->backing, root, "none", 0, &n, &stx), -ENOENT);
	file = node_get(t, id_of(root, "a"));
	assert_int_equal(tree_lookup(t, &en->backing, file, "none", 0, &n, &stx), -ENOTDIR);
	node_put(t, file);
	end();
}

/* --- places --- */

static void renames_move_the_place(void **state)
{
	struct node *d, *f;
	uint64_t id, dir;

	(void)state;
	begin(100);
	assert_int_equal(mkdirat(top, "d", 0755), 0);
	make_file(top, "a", "");
	id = id_of(root, "a");
	dir = id_of(root, "d");
	d = node_get(t, dir);
	assert_path(id, NULL, "a");
	assert_int_equal(renameat(top, "a", top, "d/b"), 0);
	tree_moved(t, &en->backing, d, "b");
	assert_path(id, NULL, "d/b");
	assert_path(dir, "new", "d/new");
	assert_path(NODE_ROOT, "x", "x");
	assert_path(NODE_ROOT, NULL, ".");
	node_put(t, d);
	/* The directory is a place for as long as something is in it. */
	tree_forget(t, dir, 1);
	assert_true(known(dir));
	f = node_get(t, id);
	tree_forget(t, id, 1);
	assert_true(known(dir));
	node_put(t, f);
	assert_false(known(id));
	assert_false(known(dir));
	end();
}

static void long_paths_are_cut_at_the_front(void **state)
{
	struct node *dirs[60];
	char name[101], buf[64];
	int i, at = top;

	(void)state;
	begin(100);
	at = dup(top);
	memset(name, 'x', 100);
	name[100] = '\0';
	dirs[0] = node_get(t, NODE_ROOT);
	for (i = 1; i < 60; i++) {
		int next;

		assert_int_equal(mkdirat(at, name, 0755), 0);
		next = openat(at, name, O_RDONLY | O_DIRECTORY);
		close(at);
		at = next;
		dirs[i] = node_get(t, id_of(dirs[i - 1], name));
	}
	close(at);
	tree_path(t, dirs[59]->id, "leaf", buf, sizeof(buf));
	assert_string_equal(buf, "leaf");
	tree_path(t, dirs[59]->id, NULL, buf, sizeof(buf));
	assert_string_equal(buf, ".");
	for (i = 0; i < 60; i++)
		node_put(t, dirs[i]);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lookups_are_counted),
		cmocka_unit_test(a_reference_outlives_the_lookups),
		cmocka_unit_test(the_root_is_never_forgotten),
		cmocka_unit_test(unknown_ids_are_refused),
		cmocka_unit_test(ids_are_never_used_again),
		cmocka_unit_test(hard_links_are_one_node),
		cmocka_unit_test(a_replaced_name_is_another_node),
		cmocka_unit_test(a_fresh_file_is_nobody_known),
		cmocka_unit_test(missing_names_are_told),
		cmocka_unit_test(renames_move_the_place),
		cmocka_unit_test(long_paths_are_cut_at_the_front),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
