/* SPDX-License-Identifier: MIT */
/* The node table keeps no more descriptors than its budget, and finds again what it had closed. */
#include "tests/unit/tree.h"

enum { MANY = 200, BUDGET = 7 };

static uint64_t many_files(uint64_t ids[MANY])
{
	char name[16];
	int i;

	for (i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		make_file(top, name, "");
		ids[i] = id_of(root, name);
	}
	return ids[0];
}

static void pins_stay_in_their_budget(void **state)
{
	uint64_t ids[MANY], ino;
	char name[16];
	int before, i;

	(void)state;
	begin(BUDGET);
	before = count_fds();
	many_files(ids);
	assert_int_equal(en->metrics.pinned_fds, BUDGET);
	assert_int_equal(count_fds(), before + BUDGET);
	for (i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		assert_int_equal(fd_of(ids[i], &ino), 0); /* found again by name */
		assert_int_equal(ino, ino_of(name));
		assert_true(en->metrics.pinned_fds <= BUDGET);
	}
	for (i = 0; i < MANY; i++)
		tree_forget(t, ids[i], 1);
	assert_int_equal(count_fds(), before);
	assert_int_equal(en->metrics.nodes, 1);
	end();
}

static void an_evicted_node_is_found_only_where_it_was(void **state)
{
	uint64_t ids[MANY], ino;

	(void)state;
	begin(BUDGET);
	many_files(ids);
	/* Moved through the mount: its new place is known. */
	assert_int_equal(renameat(top, "f0", top, "moved"), 0);
	tree_moved(t, &en->backing, root, "moved");
	assert_int_equal(fd_of(ids[0], &ino), 0);
	assert_int_equal(ino, ino_of("moved"));
	/* Moved, replaced or removed behind our back. */
	assert_int_equal(renameat(top, "f1", top, "elsewhere"), 0);
	assert_int_equal(fd_of(ids[1], &ino), -ESTALE);
	make_file(top, "other", "");
	assert_int_equal(renameat(top, "other", top, "f2"), 0);
	assert_int_equal(fd_of(ids[2], &ino), -ESTALE);
	assert_int_equal(unlinkat(top, "f3", 0), 0);
	assert_int_equal(fd_of(ids[3], &ino), -ESTALE);
	/* Seen there again, it is known again. */
	assert_int_equal(id_of(root, "elsewhere"), ids[1]);
	assert_int_equal(fd_of(ids[1], &ino), 0);
	end();
}

static void a_pin_in_use_is_not_evicted(void **state)
{
	struct node_fd held;
	uint64_t ids[MANY];
	struct node *n;
	struct stat st;

	(void)state;
	begin(1);
	make_file(top, "a", "");
	n = node_get(t, id_of(root, "a"));
	assert_int_equal(tree_fd(t, &en->backing, n, &held), 0);
	many_files(ids);
	assert_int_equal(fstat(held.fd, &st), 0);
	assert_int_equal(st.st_ino, ino_of("a"));
	assert_int_equal(unlinkat(top, "a", 0), 0);
	assert_int_equal(fstat(held.fd, &st), 0);
	assert_int_equal(st.st_nlink, 0);
	tree_fd_put(t, &held);
	node_put(t, n);
	end();
}

static void an_open_handle_serves_as_a_pin(void **state)
{
	uint64_t ids[MANY], a, ino, inode;
	struct handle *h;
	struct node *n;
	int err;

	(void)state;
	begin(BUDGET);
	make_file(top, "a", "");
	a = id_of(root, "a");
	inode = ino_of("a");
	n = node_get(t, a);
	h = handle_create(t, n, openat(top, "a", O_RDONLY), O_RDONLY);
	assert_non_null(h);
	node_put(t, n);
	assert_int_equal(en->metrics.open_handles, 1);
	many_files(ids);
	assert_int_equal(unlinkat(top, "a", 0), 0);
	assert_int_equal(fd_of(a, &ino), 0);
	assert_int_equal(ino, inode);
	tree_forget(t, a, 1);
	assert_true(known(a)); /* the handle holds it */
	handle_get(t, h->id);
	handle_put(t, h, &err);
	assert_true(known(a));
	handle_put(t, h, &err);
	assert_int_equal(err, 0);
	assert_false(known(a));
	assert_int_equal(en->metrics.open_handles, 0);
	end();
}

static void released_handles_are_unknown(void **state)
{
	struct handle *h, *used;
	uint64_t id, next;
	struct node *n;
	int err;

	(void)state;
	begin(BUDGET);
	make_file(top, "a", "");
	n = node_get(t, id_of(root, "a"));
	h = handle_create(t, n, openat(top, "a", O_RDONLY), O_RDONLY);
	assert_non_null(h);
	id = h->id;
	assert_null(handle_get(t, 0));
	assert_null(handle_get(t, (uint32_t)id));
	assert_null(handle_get(t, id + 1));
	assert_null(handle_get(t, UINT64_MAX));
	used = handle_get(t, id);
	assert_ptr_equal(used, h);
	handle_put(t, h, &err);
	assert_int_equal(en->metrics.open_handles, 1);
	handle_put(t, used, &err);
	assert_null(handle_get(t, id));
	h = handle_create(t, n, openat(top, "a", O_RDONLY), O_RDONLY);
	assert_non_null(h);
	next = h->id;
	assert_true(next != id);
	assert_null(handle_get(t, id));
	handle_put(t, h, &err);
	assert_null(handle_get(t, next));
	assert_int_equal(en->metrics.open_handles, 0);
	node_put(t, n);
	end();
}

static void nothing_is_left_open(void **state)
{
	uint64_t ids[MANY];
	struct node *n;
	int before = count_fds();

	(void)state;
	begin(BUDGET);
	many_files(ids);
	n = node_get(t, ids[5]);
	assert_non_null(handle_create(t, n, openat(top, "f5", O_RDONLY), O_RDONLY));
	node_put(t, n);
	end(); /* with lookups and a handle that the kernel never gave back */
	assert_int_equal(count_fds(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pins_stay_in_their_budget),
		cmocka_unit_test(an_evicted_node_is_found_only_where_it_was),
		cmocka_unit_test(a_pin_in_use_is_not_evicted),
		cmocka_unit_test(an_open_handle_serves_as_a_pin),
		cmocka_unit_test(released_handles_are_unknown),
		cmocka_unit_test(nothing_is_left_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
