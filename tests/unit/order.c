/* SPDX-License-Identifier: MIT */
/*
 * What follows a decided commit is done by two nodes at the same time, which know nothing of each
 * other, while a program goes on beside them, in any order of their steps: the pointer never goes
 * back, what was removed goes, and what has its name by then stays.
 */
#include "tests/unit/unit.h"

#include <pthread.h>

#include "engine/base/cleanup.h"
#include "engine/coord/coord.h"
#include "engine/format/names.h"
#include "engine/redo/order.h"
#include "engine/redo/trash.h"

#define NEW	"0123456789abcdef0123456789abcdef"
#define OLD	"00000000000000000000000000000001"
#define NEXT	"00000000000000000000000000000002"
#define STAGED	STAGING_PREFIX "00000000000000000000000000000003"
#define NODES	2
#define PARTIES (NODES + 1)
#define SEEDS	100

static char path[PATH_MAX];
static int top;
static struct caller owner;
static struct rules *rules;

static int setup(void **state)
{
	struct error e;

	(void)state;
	owner = (struct caller){.uid = getuid(), .gid = getgid()};
	top = open(scratch_dir(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(top >= 0);
	return rules_create(&rules, NULL, "", &e);
}

static int teardown(void **state)
{
	(void)state;
	rules_destroy(rules);
	close(top);
	return 0;
}

/* --- what is there --- */

static int append(void *fd, const void *data, size_t len)
{
	return write(*(int *)fd, data, len) == (ssize_t)len ? 0 : -EIO;
}

static void make_unit(const char *name, const char *generation)
{
	struct commit_header *h = calloc(1, sizeof(*h));
	struct commit_writer *w;
	char file[PATH_MAX];
	int fd;

	assert_non_null(h);
	assert_int_equal(mkdirat(top, name, 0755), 0);
	snprintf(file, sizeof(file), "%s/data", name);
	make_file(top, file, generation);
	snprintf(file, sizeof(file), "%s/%s", name, COMMIT_FILE);
	fd = openat(top, file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	strcpy(h->unit, "step-1");
	strcpy(h->generation, generation);
	strcpy(h->job, "job");
	strcpy(h->done, "asked");
	h->committed_ns = h->sequence = h->ranks = h->nodes = 1;
	assert_int_equal(commit_writer_create(&w, h, append, &fd), 0);
	assert_int_equal(commit_writer_end(w), 0);
	commit_writer_destroy(w);
	close(fd);
	free(h);
}

static bool says(const char *name, const char *text)
{
	char found[64] = "";
	__cleanup_fd int fd = openat(top, name, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && read(fd, found, sizeof(found) - 1) >= 0 && !strcmp(found, text);
}

static bool is_there(const char *name)
{
	return !faccessat(top, name, F_OK, AT_SYMLINK_NOFOLLOW);
}

static void begin(void)
{
	char command[PATH_MAX + 64];

	snprintf(command, sizeof(command), "find '%s' -mindepth 1 -delete", path);
	assert_int_equal(system(command), 0);
	make_unit("step-1", OLD);
	make_unit("step-2", NEW);
	make_file(top, "latest", "step-1");
	make_file(top, STAGED, "step-2");
}

static void open_it(struct backing *b)
{
	struct error e;

	assert_int_equal(backing_open(b, path, &e), 0);
}

/* --- one alone --- */

static struct order_pointer pointer(const char *was)
{
	struct order_pointer p = {.name = "latest", .staging = STAGED};

	snprintf(p.was, sizeof(p.was), "%s", was);
	return p;
}

static int point(struct backing *b, const char *was, bool only_look)
{
	struct order_pointer p = pointer(was);

	return order_point(&(struct order_place){.backing = b,
						 .owner = &owner,
						 .rules = rules,
						 .dir = b->root_fd,
						 .unit = "step-2",
						 .id = NEW,
						 .only_look = only_look},
			   &p);
}

static int remove_it(struct backing *b, const char *name, const char *generation, char trash[])
{
	struct order_removal r;

	snprintf(r.name, sizeof(r.name), "%s", name);
	snprintf(r.generation, sizeof(r.generation), "%s", generation);
	return order_remove(&(struct order_place){.backing = b,
						  .owner = &owner,
						  .rules = rules,
						  .dir = b->root_fd,
						  .unit = "step-2",
						  .id = NEW},
			    &r, trash);
}

static void a_pointer(void **state)
{
	char was[ORDER_WAS_MAX], then[ORDER_WAS_MAX];
	struct backing b;

	(void)state;
	open_it(&b);
	begin();
	assert_int_equal(order_look(&b, b.root_fd, "latest", was), 0);
	assert_true(order_was_ok(was));
	assert_int_equal(point(&b, was, true), 1);
	assert_true(says("latest", "step-1"));
	assert_int_equal(point(&b, was, false), 1);
	assert_true(says("latest", "step-2") && !is_there(STAGED));
	assert_int_equal(point(&b, was, false), 0);

	/* It was changed, or removed, since; or there was none, and there is one. */
	begin();
	make_file(top, "latest", "step-0");
	assert_int_equal(point(&b, was, false), 0);
	assert_true(says("latest", "step-0"));
	assert_int_equal(point(&b, "nothing", false), 0);
	assert_int_equal(unlinkat(top, "latest", 0), 0);
	assert_int_equal(point(&b, was, false), 0);
	assert_false(is_there("latest"));
	assert_int_equal(point(&b, "nothing", false), 1);
	assert_true(says("latest", "step-2"));

	/* A link is not what a file of that content is; a directory is not to be replaced. */
	begin();
	assert_int_equal(unlinkat(top, "latest", 0), 0);
	assert_int_equal(symlinkat("step-1", top, "latest"), 0);
	assert_int_equal(order_look(&b, b.root_fd, "latest", then), 0);
	assert_true(order_was_ok(then) && strcmp(was, then));
	assert_int_equal(point(&b, was, false), 0);
	assert_int_equal(point(&b, then, false), 1);
	begin();
	assert_int_equal(unlinkat(top, "latest", 0), 0);
	assert_int_equal(mkdirat(top, "latest", 0755), 0);
	assert_int_equal(order_look(&b, b.root_fd, "latest", then), 0);
	assert_string_equal(then, "another");
	assert_true(point(&b, then, false) < 0);

	/* Another user's. */
	if (!getuid()) {
		begin();
		assert_int_equal(fchownat(top, STAGED, 1234, 1234, 0), 0);
		assert_int_equal(point(&b, was, false), 0);
		assert_true(says("latest", "step-1"));
	}
	backing_close(&b);
}

static void a_removal(void **state)
{
	char trash[STAGING_MAX];
	struct backing b;

	(void)state;
	open_it(&b);
	begin();
	assert_int_equal(remove_it(&b, "step-1", OLD, trash), 0); /* latest names it */
	make_file(top, "latest", "step-2");
	assert_int_equal(symlinkat("step-1", top, "best"), 0); /* a link does */
	assert_int_equal(remove_it(&b, "step-1", OLD, trash), 0);
	assert_int_equal(unlinkat(top, "best", 0), 0);
	assert_int_equal(remove_it(&b, "step-1", NEXT, trash), 0); /* another generation */
	assert_int_equal(remove_it(&b, "step-3", OLD, trash), 0);
	assert_int_equal(remove_it(&b, "latest", OLD, trash), 0);
	make_file(top, "latest", "elsewhere");
	assert_int_equal(remove_it(&b, "step-2", NEW, trash), 0); /* what was committed */
	if (!getuid()) { /* another user's: the text of a list or record is the owner's */
		assert_int_equal(fchownat(top, "step-1", 1234, 1234, 0), 0);
		assert_int_equal(remove_it(&b, "step-1", OLD, trash), 0);
		assert_int_equal(fchownat(top, "step-1", 0, 0, 0), 0);
	}
	assert_true(says("step-1/data", OLD) && says("step-2/data", NEW));
	assert_int_equal(remove_it(&b, "step-1", OLD, trash), 1);
	assert_false(is_there("step-1"));
	assert_int_equal(remove_it(&b, "step-1", OLD, trash), 0);
	backing_close(&b);
}

/* --- several --- */

struct party {
	struct backing backing;
	const struct backing_ops *next;
	pthread_t thread;
	int nr, result;
	bool ended;
};

static struct party parties[PARTIES];
static int whose;
static uint64_t order;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;

/* Lock held. */
static void next_turn(void)
{
	int i, left = 0, pick;

	for (i = 0; i < PARTIES; i++)
		left += !parties[i].ended;
	if (!left)
		return;
	pick = (int)(next_random(&order) % (unsigned)left);
	for (i = 0; i < PARTIES; i++)
		if (!parties[i].ended && !pick--)
			whose = i;
	pthread_cond_broadcast(&turned);
}

/* Somebody is chosen to do the next step, and all others wait. */
static void wait_for_turn(struct party *p)
{
	MUTEX_SCOPE(&lock);
	next_turn();
	while (whose != p->nr)
		pthread_cond_wait(&turned, &lock);
}

static int open_in_turn(void *arg, int dir, const char *name, int flags, mode_t mode,
			uint64_t resolve)
{
	struct party *p = container_of((struct backing *)arg, struct party, backing);

	wait_for_turn(p);
	return p->next->open(&p->backing, dir, name, flags, mode, resolve);
}

static int rename_in_turn(void *arg, int dir, const char *name, int new_dir, const char *new_name,
			  unsigned flags)
{
	struct party *p = container_of((struct backing *)arg, struct party, backing);

	wait_for_turn(p);
	return p->next->rename(&p->backing, dir, name, new_dir, new_name, flags);
}

static char was[ORDER_WAS_MAX];

static void redo(struct party *p)
{
	char trash[STAGING_MAX], name[STAGING_MAX + 16];

	p->result = point(&p->backing, was, false);
	if (p->result >= 0)
		p->result = remove_it(&p->backing, "step-1", OLD, trash);
	if (p->result == 1) {
		trash_name(name, trash);
		trash_remove(&p->backing, NULL, p->backing.root_fd, name);
	}
}

static bool all_redone(void)
{
	MUTEX_SCOPE(&lock);
	return parties[0].ended && parties[1].ended;
}

/* It points elsewhere when it sees what it pointed to, and saves once more what it removed. */
static void go_on(struct party *p)
{
	bool pointed = false, saved = false, last;

	do {
		last = all_redone();
		wait_for_turn(p);
		if (!pointed && says("latest", "step-2")) {
			assert_int_equal(renameat(top, "newer", top, "latest"), 0);
			pointed = true;
		}
		if (!saved && !is_there("step-1")) {
			assert_int_equal(renameat(top, "next", top, "step-1"), 0);
			saved = true;
		}
	} while (!last && !(pointed && saved));
	p->result = pointed && saved ? 0 : -ENOENT;
}

static void *take_part(void *party)
{
	struct party *p = party;

	{
		MUTEX_SCOPE(&lock);
		while (whose != p->nr)
			pthread_cond_wait(&turned, &lock);
	}
	if (p->nr < NODES)
		redo(p);
	else
		go_on(p);
	MUTEX_SCOPE(&lock);
	p->ended = true;
	next_turn();
	return NULL;
}

static void race(uint64_t seed)
{
	static struct backing_ops ops;
	int i;

	begin();
	make_unit("next", NEXT);
	make_file(top, "newer", "nothing");
	memset(parties, 0, sizeof(parties));
	order = seed;
	whose = -1;
	for (i = 0; i < PARTIES; i++) {
		struct party *p = &parties[i];

		p->nr = i;
		open_it(&p->backing);
		p->next = p->backing.ops;
		ops = *p->next;
		ops.open = open_in_turn;
		ops.rename = rename_in_turn;
		if (i < NODES)
			p->backing.ops = &ops;
	}
	for (i = 0; i < PARTIES; i++)
		assert_int_equal(pthread_create(&parties[i].thread, NULL, take_part, &parties[i]),
				 0);
	{
		MUTEX_SCOPE(&lock);
		next_turn();
	}
	for (i = 0; i < PARTIES; i++)
		pthread_join(parties[i].thread, NULL);
	for (i = 0; i < PARTIES; i++) {
		if (parties[i].result < 0)
			fail_msg("seed %llu: %d got %s", (unsigned long long)seed, i,
				 strerror(-parties[i].result));
		backing_close(&parties[i].backing);
	}
	if (!says("latest", "nothing") || !says("step-1/data", NEXT) || is_there(STAGED))
		fail_msg("seed %llu", (unsigned long long)seed);
}

static void two_and_a_program(void **state)
{
	struct backing b;
	uint64_t seed;

	(void)state;
	open_it(&b);
	begin();
	assert_int_equal(order_look(&b, b.root_fd, "latest", was), 0);
	backing_close(&b);
	for (seed = 1; seed <= SEEDS; seed++)
		race(seed);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_pointer),
		T(a_removal),
		T(two_and_a_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
