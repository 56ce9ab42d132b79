/* SPDX-License-Identifier: MIT */
/*
 * Changes to a committed checkpoint: what happens between the two opens of a file that the kernel
 * makes, and errors.
 */
#include "tests/unit/one_checkpoint.h"
#include "engine/calls/directory.h"
#include "engine/cluster/fail.h"

static int setup(void **state)
{
	(void)state;
	return setup_with(",quiet_s=3600");
}

static int landed(void)
{
	return version_at(m.top, UNIT "/" PART);
}

/* An open of the file as the kernel sends it, once. */
static int open_once(int flags)
{
	struct at at = at_begin(&m, UNIT "/" PART);
	struct generation *g = NULL;
	struct statx stx;
	struct node *n;
	int err = tree_lookup(m.fs.tree, &m.en.backing, at.dir, at.name, 0, &n, &stx);

	assert_int_equal(err, 0);
	err = route_open(&m.fs, &m.user, n, flags, &g);
	assert_null(g);
	tree_forget(m.fs.tree, n->id, 1);
	node_put(m.fs.tree, n);
	at_end(&m, &at);
	return err;
}

static bool is_closed(struct checkpoint *cp)
{
	LOCK_SCOPE(&m.en.units->lock);
	return checkpoint_is_closed_locked(cp);
}

/*
 * The first open makes the change, and is sent again: whatever ends the checkpoint between the two,
 * waits.
 */
static void between_two_opens_nothing_is_committed(void **state)
{
	static const int flags[] = {O_WRONLY | O_TRUNC, O_RDWR};
	size_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		struct checkpoint *cp;
		struct file file;

		assert_int_equal(open_once(flags[i]), -ESTALE);
		cp = pending(UNIT);
		assert_non_null(cp);
		assert_int_equal(checkpoint_ask(cp), 0);
		assert_false(is_closed(cp));
		assert_int_equal(landed(), 3 + (int)i);

		assert_int_equal(file_open(&m, &file, UNIT "/" PART, flags[i]), 0);
		assert_int_equal(file_fill(&file, 4 + (int)i, 5000), 0);
		assert_false(is_closed(cp));
		assert_int_equal(file_close(&file), 0);
		checkpoint_put(cp);
		assert_int_equal(checkpoint_wait(&m, UNIT), 0);
		assert_int_equal(landed(), 4 + (int)i);
	}
}

/* Of another thread: it goes on to wait, or has done all. */
struct next {
	pthread_t thread;
	sem_t waits;
	atomic_bool done;
	int err;
};

static void *save_next(void *next)
{
	struct next *n = next;

	waiting = &n->waits;
	n->err = save(&m, UNIT "/" PART, 6, 5000, false);
	atomic_store(&n->done, true);
	sem_post(&n->waits);
	return NULL;
}

/* What does not wait, but has many steps, asks less often whether it is to go on. */
#define ASKS 10

/*
 * The end of a save is seen by the next one, also while the committer is busy with another
 * checkpoint.
 */
static void the_next_save_begins_after_the_end_of_the_last(void **state)
{
	struct next next = {.err = -1};
	unsigned asks;

	(void)state;
	faults_freeze(f, CALL_SYNC_DIR);
	assert_int_equal(make_checkpoint("step-2", 5), 0);
	faults_wait_frozen(f, 1);
	assert_int_equal(save_checkpoint(UNIT, 5), 0);

	assert_int_equal(sem_init(&next.waits, 0, 0), 0);
	assert_int_equal(pthread_create(&next.thread, NULL, save_next, &next), 0);
	for (asks = 0; asks < ASKS && !atomic_load(&next.done); asks++)
		assert_int_equal(sem_wait(&next.waits), 0);
	assert_false(atomic_load(&next.done));
	faults_thaw(f);
	assert_int_equal(pthread_join(next.thread, NULL), 0);
	sem_destroy(&next.waits);
	assert_int_equal(next.err, 0);
	assert_int_equal(landed(), 5);
	assert_int_equal(version_at(m.top, UNIT "/.metadata"), 5);
}

static const struct backing_ops *next_ops;
static atomic_bool ends_step_2;

/* A thread without locks asks for a path: the end of step-2 is seen then. */
static ssize_t path_and_end(void *arg, int fd, char *buf, size_t size)
{
	struct checkpoint *cp = atomic_exchange(&ends_step_2, false) ? pending("step-2") : NULL;

	if (cp) {
		checkpoint_ask(cp);
		LOCK_SCOPE(&m.en.units->lock);
		checkpoint_look_for_end_locked(cp);
	}
	checkpoint_put(cp);
	return next_ops->path(arg, fd, buf, size);
}

/*
 * What all of its job have left is another's, who begins it anew; but if its end is seen in the
 * same moment, it is committed first.
 */
static void what_has_ended_is_not_superseded(void **state)
{
	struct caller user = m.user, other = {.uid = user.uid + 1, .gid = user.gid};
	static struct backing_ops ops;
	struct checkpoint *cp;
	struct process *p;

	(void)state;
	m.user.pid = 0; /* of whom nobody sees whether he lives */
	assert_int_equal(dir_make(&m, "step-2"), 0);
	assert_int_equal(save(&m, "step-2/" PART, 5, 5000, false), 0);
	m.user = user;
	cp = pending("step-2");
	p = units_process(m.en.units, &other);
	next_ops = m.en.backing.ops;
	ops = *next_ops;
	ops.path = path_and_end;
	m.en.backing.ops = &ops;
	ends_step_2 = true;
	assert_int_equal(checkpoint_enter(cp, p), -EEXIST);
	m.en.backing.ops = next_ops;
	assert_false(ends_step_2);
	assert_int_equal(cp->state, GENERATION_COMMITTED);
	assert_int_equal(version_at(m.top, "step-2/" PART), 5);
	process_put(p);
	checkpoint_put(cp);
}

/*
 * A job that has found what another has left, which fails in that moment, is not told so: it looks
 * for the name once more.
 */
static void what_fails_is_told_to_its_own_job(void **state)
{
	struct caller user = m.user, other = {.uid = user.uid + 1, .gid = user.gid};
	struct process *p, *own;
	struct checkpoint *cp;

	(void)state;
	m.user.pid = 0;
	own = units_process(m.en.units, &m.user);
	assert_int_equal(dir_make(&m, "step-2"), 0);
	m.user = user;
	cp = pending("step-2");
	checkpoint_fail(cp, -EIO, "a process has died");
	p = units_process(m.en.units, &other);
	assert_int_equal(checkpoint_enter(cp, p), -ESTALE);
	assert_int_equal(checkpoint_enter(cp, own), -EIO);
	process_put(own);
	process_put(p);
	checkpoint_put(cp);
}

/*
 * Whether it is a committed one cannot be seen: then it is not changed, least of all in its place.
 */
static void what_cannot_be_looked_at_is_not_changed(void **state)
{
	struct file file;

	(void)state;
	faults_add(f, &(struct fault){.calls = CALL_STAT, .name = COMMIT_FILE, .err = EIO});
	assert_int_equal(file_open(&m, &file, UNIT "/" PART, O_RDWR), -EIO);
	assert_int_equal(file_unlink(&m, UNIT "/" PART), -EIO);
	faults_clear(f);
	assert_null(pending(UNIT));
	assert_int_equal(landed(), 3);
}

/* Hidden names in the backing's top: what is staged. */
static unsigned staged(void)
{
	DIR *d = opendir(m.path);
	const struct dirent *entry;
	unsigned nr = 0;

	assert_non_null(d);
	while ((entry = readdir(d)))
		nr += name_is_reserved(entry->d_name);
	closedir(d);
	return nr;
}

static void change(int version)
{
	struct checkpoint *cp;

	assert_int_equal(save(&m, UNIT "/" PART, version, 5000, false), 0);
	cp = pending(UNIT);
	assert_int_equal(checkpoint_ask(cp), 0);
	checkpoint_put(cp);
	assert_int_equal(checkpoint_wait(&m, UNIT), 0);
	assert_int_equal(landed(), version);
}

/*
 * No room for one of the steps in which a change begins: it is asked for, and nothing is left of a
 * try.
 */
static void a_change_that_finds_no_room_for_its_links(void **state)
{
	static const struct fault steps[] = {
		{.calls = CALL_MKDIR},
		{.calls = CALL_LINK},
		{.calls = CALL_LINK, .skip = 1},
		{.calls = CALL_CHMOD},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		struct fault full = steps[i];
		struct file file;

		full.err = i % 2 ? EDQUOT : ENOSPC;
		faults_add(f, &full);
		assert_int_equal(file_open(&m, &file, UNIT "/" PART, O_RDWR), -full.err);
		faults_clear(f);
		assert_null(pending(UNIT));
		assert_int_equal(staged(), 0);
		assert_int_equal(landed(), 3 + 2 * (int)i);
		change(4 + 2 * (int)i);

		full.times = 1; /* there is some when it is tried again */
		faults_add(f, &full);
		change(5 + 2 * (int)i);
		faults_clear(f);
	}
}

/* As GlusterFS does while other nodes link the same files. */
static void links_that_are_refused_for_a_moment(void **state)
{
	static const int errs[] = {ENODATA, EPERM, ESTALE};
	struct file file;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(errs); i++) {
		const struct fault refused = {.calls = CALL_LINK, .err = errs[i]};
		struct fault once = refused;

		m.en.backing.fuse = true;
		once.times = 2;
		faults_add(f, &once);
		change(4 + (int)i);
		faults_clear(f);

		faults_add(f, &refused); /* of one that has no links it is said as it is */
		assert_int_equal(file_open(&m, &file, UNIT "/" PART, O_RDWR), -errs[i]);
		faults_clear(f);
		assert_null(pending(UNIT));
		assert_int_equal(staged(), 0);

		m.en.backing.fuse = false;
		faults_add(f, &once);
		assert_int_equal(file_open(&m, &file, UNIT "/" PART, O_RDWR), -errs[i]);
		faults_clear(f);
		assert_int_equal(landed(), 4 + (int)i);
	}
}

/* True if the commit file of @unit lists its part and its metadata. */
static bool lists_all(const char *unit)
{
	char path[PATH_MAX], text[8192];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/" COMMIT_FILE, unit);
	fd = openat(m.top, path, O_RDONLY);
	assert_true(fd >= 0);
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	assert_true(n > 0);
	text[n] = '\0';
	return strstr(text, PART) && strstr(text, "\".metadata\"");
}

/* Whichever listing of a directory the backing fails once, no commit file is short of a file. */
static void a_listing_that_fails_hides_no_file(void **state)
{
	char unit[32];
	unsigned i;

	(void)state;
	for (i = 0; i < 6; i++) {
		faults_add(f, &(struct fault){
				      .calls = CALL_GETDENTS, .skip = i, .times = 1, .err = EIO});
		snprintf(unit, sizeof(unit), "step-%u", 10 + i);
		assert_int_equal(make_checkpoint(unit, 5), 0);
		assert_int_equal(checkpoint_wait(&m, unit), 0);
		faults_clear(f);
		assert_true(lists_all(unit));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(between_two_opens_nothing_is_committed, setup,
						teardown),
		cmocka_unit_test_setup_teardown(the_next_save_begins_after_the_end_of_the_last,
						setup, teardown),
		cmocka_unit_test_setup_teardown(what_has_ended_is_not_superseded, setup, teardown),
		cmocka_unit_test_setup_teardown(what_fails_is_told_to_its_own_job, setup, teardown),
		cmocka_unit_test_setup_teardown(what_cannot_be_looked_at_is_not_changed, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_change_that_finds_no_room_for_its_links, setup,
						teardown),
		cmocka_unit_test_setup_teardown(links_that_are_refused_for_a_moment, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_listing_that_fails_hides_no_file, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
