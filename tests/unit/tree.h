/* SPDX-License-Identifier: MIT */
/* The node table over a real directory, for the tests of it. */
#ifndef TESTS_UNIT_TREE_H
#define TESTS_UNIT_TREE_H

#include "tests/unit/engine_stub.h"

#include "engine/base/cleanup.h"
#include "fs/tree.h"

static struct engine *en;
static struct tree *t;
static struct node *root;
static int top;

static inline void begin(unsigned budget)
{
	en = engine_stub();
	top = en->backing.root_fd;
	t = tree_create(en, budget);
	assert_non_null(t);
	root = node_get(t, NODE_ROOT);
	assert_non_null(root);
}

static inline void end(void)
{
	node_put(t, root);
	tree_destroy(t);
	engine_stub_free(en);
}

/* Looks up; the reference is dropped, the lookup stays. */
static inline uint64_t id_of(struct node *dir, const char *name)
{
	struct statx stx;
	struct node *n;
	uint64_t id;

	if (tree_lookup(t, &en->backing, dir, name, 0, &n, &stx))
		return 0;
	id = n->id;
	node_put(t, n);
	return id;
}

static inline bool known(uint64_t id)
{
	struct node *n = node_get(t, id);

	node_put(t, n);
	return n;
}

static inline int fd_of(uint64_t id, uint64_t *ino)
{
	struct node *n = node_get(t, id);
	struct node_fd nf;
	struct stat st;
	int err;

	assert_non_null(n);
	err = tree_fd(t, &en->backing, n, &nf);
	if (!err) {
		assert_int_equal(fstat(nf.fd, &st), 0);
		*ino = st.st_ino;
		tree_fd_put(t, &nf);
	}
	node_put(t, n);
	return err;
}

static inline uint64_t ino_of(const char *name)
{
	struct stat st;

	assert_int_equal(fstatat(top, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st.st_ino;
}

static inline void assert_path(uint64_t id, const char *name, const char *expected)
{
	char buf[PATH_MAX];

	tree_path(t, id, name, buf, sizeof(buf));
	assert_string_equal(buf, expected);
}

#endif
