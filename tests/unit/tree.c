/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/* The node table over a real directory: who is who, for how long, and with how many
 * descriptors. */
#include "tests/unit/engine_stub.h"

#include <pthread.h>

#include "engine/base/cleanup.h"
#include "fs/tree.h"

static struct engine *en;
static struct tree *t;
static struct node *root;
static int top;

static void begin(unsigned budget)
{
	en = engine_stub();
	top = en->backing.root_fd;
	t = tree_create(en, budget);
	assert_non_null(t);
	root = node_get(t, NODE_ROOT);
	assert_non_null(root);
}

static void end(void)
{
	node_put(t, root);
	tree_destroy(t);
	engine_stub_free(en);
}

/* Looks up; the reference is dropped, the lookup stays. */
static uint64_t id_of(struct node *dir, const char *name)
{
	struct statx stx;
	struct node *n;
	uint64_t id;

	if (tree_lookup(t, dir, name, 0, &n, &stx))
		return 0;
	id = n->id;
	node_put(t, n);
	return id;
}

static bool known(uint64_t id)
{
	struct node *n = node_get(t, id);

	node_put(t, n);
	return n;
}

static int fd_of(uint64_t id, uint64_t *ino)
{
	struct node *n = node_get(t, id);
	struct node_fd nf;
	struct stat st;
	int err;

	assert_non_null(n);
	err = tree_fd(t, n, &nf);
	if (!err) {
		assert_int_equal(fstat(nf.fd, &st), 0);
		*ino = st.st_ino;
		tree_fd_put(t, &nf);
	}
	node_put(t, n);
	return err;
}

static uint64_t ino_of(const char *name)
{
	struct stat st;

	assert_int_equal(fstatat(top, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st.st_ino;
}

static void assert_path(uint64_t id, const char *name, const char *expected)
{
	char buf[PATH_MAX];

	tree_path(t, id, name, buf, sizeof(buf));
	assert_string_equal(buf, expected);
}

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
	assert_int_equal(tree_adopt(t, root, "a", fd, false, &n, &stx), 0);
	assert_int_equal(n->id, a);
	node_put(t, n);
	/* The inode number, and the clock's tick, may be those of one that was just
	 * removed. */
	assert_int_equal(tree_adopt(t, root, "a", fd, true, &n, &stx), 0);
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
	assert_int_equal(tree_lookup(t, root, "none", 0, &n, &stx), -ENOENT);
	file = node_get(t, id_of(root, "a"));
	assert_int_equal(tree_lookup(t, file, "none", 0, &n, &stx), -ENOTDIR);
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
	tree_moved(t, d, "b");
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

/* --- pins --- */

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
	tree_moved(t, root, "moved");
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
	assert_int_equal(tree_fd(t, n, &held), 0);
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

/* --- deep trees --- */

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
	pthread_attr_setstacksize(&attr, 512 * 1024); /* as in requests.c */
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

/* --- many threads --- */

enum { THREADS = 8, NAMES = 12, STEPS = 4000 };

struct visitor {
	pthread_t thread;
	uint64_t seed;
	uint64_t ids[STEPS];
	int nr;
	int errors[200];
};

static void use_one(struct visitor *w, struct node *n)
{
	struct node_fd nf;
	struct stat st;
	int err = tree_fd(t, n, &nf);

	w->errors[-err]++;
	if (err)
		return;
	if (fstat(nf.fd, &st) || st.st_ino != n->ino)
		w->errors[EIO]++;
	tree_fd_put(t, &nf);
}

static void *work(void *arg)
{
	struct visitor *w = arg;
	int i;

	for (i = 0; i < STEPS; i++) {
		uint64_t r = next_random(&w->seed);
		char name[2] = {(char)('a' + r % NAMES)}, path[PATH_MAX];
		struct statx stx;
		struct node *n;

		if (tree_lookup(t, root, name, 0, &n, &stx)) {
			w->errors[ENOENT]++;
			continue;
		}
		if (n->ino != stx.stx_ino)
			w->errors[EIO]++;
		w->ids[w->nr++] = n->id;
		use_one(w, n);
		if (r >> 32 & 1) {
			int fd = openat(top, name, O_RDONLY), err;
			struct handle *h = handle_create(t, n, fd, O_RDONLY);

			use_one(w, n);
			handle_put(t, h, &err);
		}
		node_put(t, n);
		tree_path(t, w->ids[w->nr - 1], NULL, path, sizeof(path));
		if (r >> 33 & 1)
			tree_forget(t, w->ids[--w->nr], 1);
	}
	return NULL;
}

static void threads_agree(void **state)
{
	static struct visitor workers[THREADS];
	int before, i, j;

	(void)state;
	begin(1);
	before = count_fds();
	for (i = 0; i < NAMES; i++)
		make_file(top, (char[]){(char)('a' + i), '\0'}, "");
	for (i = 0; i < THREADS; i++) {
		workers[i].seed = 1 + (uint64_t)i;
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	for (i = 0; i < THREADS; i++) {
		for (j = 0; j < workers[i].nr; j++)
			tree_forget(t, workers[i].ids[j], 1);
		/* Nothing moves, so nothing may be lost sight of. */
		for (j = 1; j < 200; j++)
			if (workers[i].errors[j])
				fail_msg("%s %d times", strerror(j), workers[i].errors[j]);
	}
	assert_int_equal(en->metrics.nodes, 1);
	assert_int_equal(count_fds(), before);
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
		cmocka_unit_test(pins_stay_in_their_budget),
		cmocka_unit_test(an_evicted_node_is_found_only_where_it_was),
		cmocka_unit_test(a_pin_in_use_is_not_evicted),
		cmocka_unit_test(an_open_handle_serves_as_a_pin),
		cmocka_unit_test(released_handles_are_unknown),
		cmocka_unit_test(nothing_is_left_open),
		cmocka_unit_test(forgetting_from_the_top_frees_all),
		cmocka_unit_test(deep_trees_need_no_deep_stack),
		cmocka_unit_test(circles_are_stale),
		cmocka_unit_test(threads_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
