/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/* Threads that look up, use and forget nodes at once find the same ones. */
#include "tests/unit/tree.h"

#include <pthread.h>

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
	int err = tree_fd(t, &en->backing, n, &nf);

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

		if (tree_lookup(t, &en->backing, root, name, 0, &n, &stx)) {
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
		cmocka_unit_test(threads_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
