/* SPDX-License-Identifier: MIT */
/*
 * What the mount remembers: of processes and jobs that live nothing is forgotten because of others,
 * nor of directories that somebody has; and where it may forget, that changes nothing.
 */
#include "tests/unit/one_checkpoint.h"

#include "engine/calls/directory.h"
#include "engine/cluster/checkpoint_stage.h"
#include "engine/journal/journal_removal.h"
#include "engine/liveness/job_inside.h"
#include "engine/save/above.h"

#define MANY 600 /* more than twice any fixed number that was kept once */

static int setup(void **state)
{
	char path[PATH_MAX];

	(void)state;
	mnt_open(&m, scratch_dir(path), SMALL_CACHE);
	f = faults_attach(&m.en.backing);
	mnt_start(&m);
	return 0;
}

static struct inode_id inode_nr(uint64_t nr)
{
	return (struct inode_id){.dev = 7, .ino = nr, .btime_ns = 1};
}

/* One that lives, as far as the daemon knows. */
static struct process *a_process(pid_t tgid, const char *job)
{
	struct jobs *js = m.en.units->jobs;
	LOCK_SCOPE(&js->lock);
	struct process *p = process_create_locked(js, 1000);

	assert_non_null(p);
	p->tgid = tgid;
	p->start = 1;
	p->read = p->visible = true;
	snprintf(p->key, sizeof(p->key), "1000/slurm/%s/r0", job);
	list_append(&js->processes, &p->link);
	return p;
}

static void ends(struct process *p)
{
	{
		LOCK_SCOPE(&p->jobs->lock);
		p->gone = true;
	}
	process_put(p);
}

static void note_saver(struct process *p, const struct inode_id *dir)
{
	LOCK_SCOPE(&m.en.units->lock);
	removal_note_saver_locked(m.en.units, p, dir);
}

/*
 * A process that saves there does not lose its last checkpoint, however many others save
 * elsewhere.
 */
static void who_saves_where(void **state)
{
	struct process *p = a_process(1, "first"), *others[MANY];
	const struct inode_id dir = inode_nr(1);
	unsigned i;

	(void)state;
	assert_false(removal_waits(m.en.units, p, &dir, "step-1"));
	note_saver(p, &dir);
	for (i = 0; i < MANY; i++) {
		const struct inode_id other = inode_nr(100 + i);

		others[i] = a_process((pid_t)(100 + i), "other");
		note_saver(others[i], &other);
	}
	assert_true(removal_waits(m.en.units, p, &dir, "step-1"));
	for (i = 0; i < MANY; i++)
		ends(others[i]);
	ends(p);
}

static void show(const char *name, const struct inode_id *replaced)
{
	struct units *us = m.en.units;
	struct checkpoint *cp;
	char staging[STAGING_MAX];

	assert_int_equal(dir_make(&m, name), 0);
	cp = pending(name);
	assert_non_null(cp);
	memcpy(staging, cp->staging, sizeof(staging));
	{
		LOCK_SCOPE(&us->lock);
		list_del(&cp->link);
		cp->visible = false;
		cp->refs--;
		cp->replaces = true;
		cp->replaced = *replaced;
		atomic_fetch_sub(&us->nr_checkpoints, 1);
	}
	assert_int_equal(checkpoint_show(cp), 0);
	assert_int_equal(checkpoint_remove(cp, &m.user), 0);
	checkpoint_put(cp);
}

/*
 * A program that stands in a directory goes on in what its name stands for, however many others
 * are replaced.
 */
static void what_was_replaced(void **state)
{
	struct units *us = m.en.units;
	struct inode_id known, unknown = inode_nr(1);
	struct statx stx;
	struct node *n;
	unsigned i;

	(void)state;
	assert_int_equal(mkdirat(m.top, "there", 0700), 0);
	assert_int_equal(tree_lookup(m.fs.tree, &m.en.backing, m.root, "there", 0, &n, &stx), 0);
	known = node_inode(n);
	show("step-1", &known);
	show("step-2", &unknown);
	for (i = 0; i < MANY; i++) {
		const struct inode_id other = inode_nr(100 + i);

		show("step-3", &other);
	}
	assert_true(checkpoints_replaced(us, &known));
	assert_false(checkpoints_replaced(us, &unknown)); /* which no program can have */
	assert_in_range(us->replaced_dirs.nr, 1, MANY / 2);
	tree_forget(m.fs.tree, n->id, 1);
	node_put(m.fs.tree, n);
}

/* For what a former start of a job has left its ranks wait once, however many there are. */
static void what_a_job_remembers(void **state)
{
	struct process *rank = a_process(1, "job"), *later = a_process(2, "job"), *others[MANY];
	char name[16];
	struct known k;
	unsigned i;

	(void)state;
	assert_int_equal(known_init(&k, true), 0);
	assert_null(known_find(&k, rank, 5));
	*known_make(&k, rank, 5) = 17;
	ends(rank);
	for (i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "job%u", i);
		others[i] = a_process((pid_t)(100 + i), name);
		assert_int_equal(*known_make(&k, others[i], 5), 0);
	}
	assert_int_equal(*known_find(&k, later, 5), 17);
	assert_int_equal(k.entries.nr, MANY + 1);
	for (i = 0; i < MANY; i++)
		ends(others[i]);
	for (i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "job%u", MANY + i);
		others[i] = a_process((pid_t)(100 + i), name);
		known_make(&k, others[i], 5);
		ends(others[i]);
	}
	assert_true(k.entries.nr <= MANY + 2);
	assert_int_equal(*known_find(&k, later, 5), 17);
	ends(later);
	known_finish(&k);
}

/* --- caches: to have forgotten costs a look, no more --- */

static void sync_above(unsigned nr, unsigned costs)
{
	uint64_t before = faults_count(f, CALL_SYNC_DIR);
	char name[16];
	int fd;

	snprintf(name, sizeof(name), "above%u", nr);
	mkdirat(m.top, name, 0700);
	fd = openat(m.top, name, O_RDONLY | O_DIRECTORY);
	assert_true(fd >= 0);
	assert_int_equal(above_sync(m.en.units, &m.user, fd), 0);
	assert_int_equal(faults_count(f, CALL_SYNC_DIR) - before, costs);
	close(fd);
}

static void which_names_above_are_durable(void **state)
{
	unsigned i;

	(void)state;
	sync_above(0, 1);
	sync_above(0, 0);
	for (i = 1; i < MANY; i++)
		sync_above(i, 1);
	sync_above(0, 1); /* once more: it was forgotten */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(who_saves_where, setup, teardown),
		cmocka_unit_test_setup_teardown(what_was_replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_job_remembers, setup, teardown),
		cmocka_unit_test_setup_teardown(which_names_above_are_durable, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
