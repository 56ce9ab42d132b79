/* SPDX-License-Identifier: MIT */
/*
 * A decided checkpoint gets its name by two nodes at the same time, which know nothing of each
 * other, in any order of their steps: it has the name in the end, and what had it before is in
 * trash or gone.
 */
#include "tests/unit/unit.h"

#include <pthread.h>

#include "engine/base/cleanup.h"
#include "engine/format/commit.h"
#include "engine/format/names.h"
#include "engine/redo/publish_dir.h"
#include "engine/redo/trash.h"

#define NEW	"0123456789abcdef0123456789abcdef"
#define OLD	"00000000000000000000000000000001"
#define OTHER	"00000000000000000000000000000002"
#define STAGING STAGING_PREFIX NEW
#define TRASH	TRASH_PREFIX NEW
#define NODES	2
#define SEEDS	40

static char path[PATH_MAX];
static int top;
static struct caller owner;

static int setup(void **state)
{
	(void)state;
	owner = (struct caller){.uid = getuid(), .gid = getgid()};
	top = open(scratch_dir(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(top >= 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(top);
	return 0;
}

/* --- directories --- */

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

/* Has @name this generation, with its file? NULL: is there nothing? */
static bool is(const char *name, const char *generation)
{
	char file[PATH_MAX], text[64] = "";
	int fd;

	if (!generation)
		return faccessat(top, name, F_OK, AT_SYMLINK_NOFOLLOW) && errno == ENOENT;
	snprintf(file, sizeof(file), "%s/data", name);
	fd = openat(top, file, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	if (fd >= 0)
		close(fd);
	return !strcmp(text, generation);
}

static void clear_all(void)
{
	char command[PATH_MAX + 64];

	snprintf(command, sizeof(command), "find '%s' -mindepth 1 -delete", path);
	assert_int_equal(system(command), 0);
}

/* --- one alone --- */

static void open_it(struct backing *b)
{
	struct error e;

	assert_int_equal(backing_open(b, path, &e), 0);
}

static int place(struct backing *b, bool only_look, bool *trashed)
{
	return publish_dir_place(&(struct placement){.backing = b,
						     .owner = &owner,
						     .dir = b->root_fd,
						     .staging = STAGING,
						     .name = "step-1",
						     .replaces = true,
						     .generation = OLD,
						     .only_look = only_look},
				 trashed);
}

/* What lies there before; "" for nothing. What comes of it, and what has the name then. */
static const struct row {
	const char *staged, *there, *trashed;
	int result;
	const char *then;
} rows[] = {
	{NEW, "", "", 0, NEW},		 {NEW, OLD, "", 0, NEW},
	{NEW, "", OLD, 0, NEW},	  /* between two renames */
	{OLD, NEW, "", 0, NEW},	  /* after the exchange */
	{"", NEW, OLD, 0, NEW},	  /* all but the removal */
	{"", NEW, "", 0, NEW},	  /* done */
	{OTHER, NEW, "", 0, NEW}, /* somebody's */
	{"", OLD, NEW, 0, NEW},	  /* another was at it too, and died */
	{"", "", NEW, 0, NEW},	  /* */
	{NEW, OTHER, "", -EBUSY, OTHER}, {NEW, NEW, "", -EBUSY, NEW}, /* copied behind our back */
	{"", OLD, "", -ENOENT, OLD},	 {"", "", "", -ENOENT, NULL},
	{"", OTHER, "", -ENOENT, OTHER}, {OTHER, OLD, "", -EBADMSG, OLD},
	{OLD, "", "", -EBADMSG, NULL},
};

static void from_anywhere(void **state)
{
	const struct row *row;
	bool trashed;
	struct backing b;
	int flags;

	(void)state;
	open_it(&b);
	for (flags = 0; flags < 2; flags++) {
		b.features->state[FEATURE_RENAME_FLAGS] = flags ? FEATURE_YES : FEATURE_TURNED_OFF;
		for (row = rows; row < rows + ARRAY_SIZE(rows); row++) {
			int err;

			clear_all();
			if (*row->staged)
				make_unit(STAGING, row->staged);
			if (*row->there)
				make_unit("step-1", row->there);
			if (*row->trashed)
				make_unit(TRASH, row->trashed);
			err = place(&b, true, &trashed);
			if (row->result)
				assert_int_equal(err, row->result);
			else
				assert_true(err == 0 || err == 1);
			assert_true(is(STAGING, *row->staged ? row->staged : NULL));
			assert_true(is("step-1", *row->there ? row->there : NULL));
			assert_int_equal(place(&b, false, &trashed), row->result);
			assert_true(is("step-1", row->then));
			assert_int_equal(trashed, !row->result && is(TRASH, OLD));
			if (!row->result)
				assert_int_equal(place(&b, true, &trashed), 0);
		}
	}
	backing_close(&b);
}

/* --- two --- */

struct party {
	struct backing backing;
	const struct backing_ops *next;
	pthread_t thread;
	int nr, result;
	bool ended;
};

static struct party parties[NODES];
static int whose;
static uint64_t order;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;

/* Lock held. */
static void next_turn(void)
{
	int i, left = 0, pick;

	for (i = 0; i < NODES; i++)
		left += !parties[i].ended;
	if (!left)
		return;
	pick = (int)(next_random(&order) % (unsigned)left);
	for (i = 0; i < NODES; i++)
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

static void *take_part(void *party)
{
	struct party *p = party;
	bool trashed = false;

	{
		MUTEX_SCOPE(&lock);
		while (whose != p->nr)
			pthread_cond_wait(&turned, &lock);
	}
	p->result = place(&p->backing, false, &trashed);
	if (!p->result && trashed)
		trash_remove(&p->backing, NULL, p->backing.root_fd, TRASH);
	MUTEX_SCOPE(&lock);
	p->ended = true;
	next_turn();
	return NULL;
}

static void race(bool exchange, const struct row *from, uint64_t seed)
{
	static struct backing_ops ops;
	int i;

	clear_all();
	if (*from->staged)
		make_unit(STAGING, from->staged);
	if (*from->there)
		make_unit("step-1", from->there);
	if (*from->trashed)
		make_unit(TRASH, from->trashed);
	memset(parties, 0, sizeof(parties));
	order = seed;
	whose = -1;
	for (i = 0; i < NODES; i++) {
		struct party *p = &parties[i];

		p->nr = i;
		open_it(&p->backing);
		p->backing.features->state[FEATURE_RENAME_FLAGS] =
			exchange ? FEATURE_YES : FEATURE_TURNED_OFF;
		p->next = p->backing.ops;
		ops = *p->next;
		ops.open = open_in_turn;
		ops.rename = rename_in_turn;
		p->backing.ops = &ops;
	}
	for (i = 0; i < NODES; i++)
		assert_int_equal(pthread_create(&parties[i].thread, NULL, take_part, &parties[i]),
				 0);
	{
		MUTEX_SCOPE(&lock);
		next_turn();
	}
	for (i = 0; i < NODES; i++)
		pthread_join(parties[i].thread, NULL);
	for (i = 0; i < NODES; i++) {
		if (parties[i].result)
			fail_msg("seed %llu: %d got %s", (unsigned long long)seed, i,
				 strerror(-parties[i].result));
		backing_close(&parties[i].backing);
	}
	if (!is("step-1", NEW) || !is(STAGING, NULL) || !is(TRASH, NULL))
		fail_msg("seed %llu", (unsigned long long)seed);
}

static void two_at_once(void **state)
{
	uint64_t seed;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows) && !rows[i].result; i++) {
		if (!strcmp(rows[i].staged, OTHER))
			continue;
		for (seed = 1; seed <= SEEDS; seed++) {
			race(true, &rows[i], seed);
			race(false, &rows[i], seed);
		}
	}
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(from_anywhere),
		T(two_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
