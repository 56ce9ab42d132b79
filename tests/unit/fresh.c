/* SPDX-License-Identifier: MIT */
/*
 * A client of the backing that remembers where a name leads, and what is there: what another node
 * has made of a name in a checkpoint is found all the same.
 */
#include "tests/unit/one_checkpoint.h"

#include "engine/cluster/other_nodes.h"

#define NAME ".metadata" /* inherited, and not changed here */

/* What the client believes of NAME, in any directory: it leads to @pin, which is as @stx. */
static struct {
	struct backing_ops ops;
	const struct backing_ops *next;
	atomic_bool believes, believes_stx;
	bool lists; /* it believes listings */
	int pin;
	struct statx stx;
	pthread_t thread; /* the daemon's own list other directories */
	atomic_uint listings, pins;
	unsigned forgets_after; /* so many pins; 0: never */
} client;

static int c_open(void *arg, int dir, const char *name, int flags, mode_t mode, uint64_t resolve)
{
	if (flags & O_PATH && client.believes && !strcmp(name, NAME)) {
		client.pins++;
		if (!client.forgets_after || client.pins <= client.forgets_after)
			return client.next->reopen(arg, client.pin, O_PATH);
		client.believes = false;
	}
	return client.next->open(arg, dir, name, flags, mode, resolve);
}

static int c_stat(void *arg, int dir, const char *name, int flags, struct statx *stx)
{
	int err = client.next->stat(arg, dir, name, flags, stx);

	if (!err && client.believes_stx && stx->stx_ino == client.stx.stx_ino)
		*stx = client.stx;
	return err;
}

static int c_sync(void *arg, int fd, enum backing_sync what)
{
	struct stat st;

	if (!fstat(fd, &st) && st.st_ino == client.stx.stx_ino)
		client.believes_stx = false;
	return client.next->sync(arg, fd, what);
}

static ssize_t c_getdents(void *arg, int fd, void *buf, size_t size)
{
	ssize_t len = client.next->getdents(arg, fd, buf, size);

	if (pthread_equal(pthread_self(), client.thread)) {
		client.listings += !len;
		if (client.lists)
			client.believes = false;
	}
	return len;
}

static struct checkpoint *cp;

static int setup(void **state)
{
	struct file file;
	char path[PATH_MAX];

	(void)state;
	mnt_open(&m, scratch_dir(path), SMALL_CACHE "," LEAST_TIMEOUT ",quiet_s=3600");
	client.thread = pthread_self();
	client.next = m.en.backing.ops;
	client.ops = *client.next;
	client.ops.open = c_open;
	client.ops.stat = c_stat;
	client.ops.sync = c_sync;
	client.ops.getdents = c_getdents;
	m.en.backing.ops = &client.ops;
	m.en.backing.fuse = true;
	f = faults_attach(&m.en.backing);
	mnt_start(&m);
	assert_int_equal(make_checkpoint(UNIT, 3), 0);
	assert_int_equal(checkpoint_wait(&m, UNIT), 0);
	assert_int_equal(file_open(&m, &file, UNIT "/" PART, O_RDWR), 0);
	assert_int_equal(file_close(&file), 0);
	cp = pending(UNIT);
	assert_non_null(cp);
	return 0;
}

static int end(void **state)
{
	client.believes = client.believes_stx = false;
	checkpoint_put(cp);
	return teardown(state);
}

/* All that it could remember of NAME, it does; @forgets_after, @lists: until. */
static void believe(bool lists, unsigned forgets_after)
{
	client.believes = client.believes_stx = false;
	client.pin = openat(cp->fd, NAME, O_PATH);
	assert_true(client.pin >= 0);
	assert_int_equal(backing_stat(&m.en.backing, client.pin, &client.stx), 0);
	client.lists = lists;
	client.forgets_after = forgets_after;
	client.listings = client.pins = 0;
	client.believes = client.believes_stx = true;
}

/* As another node does; its inode. */
static uint64_t replace(void)
{
	int fd = openat(cp->fd, "new", O_CREAT | O_WRONLY, 0600);
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	close(fd);
	assert_int_equal(renameat(cp->fd, "new", cp->fd, NAME), 0);
	return st.st_ino;
}

static uint64_t found(void)
{
	int pin = backing_pin(&m.en.backing, cp->fd, NAME);
	struct stat st;

	assert_true(pin >= 0);
	assert_int_equal(fstat(pin, &st), 0);
	close(pin);
	return st.st_ino;
}

static void what_is_as_it_was_costs_no_listing(void **state)
{
	(void)state;
	believe(false, 0);
	assert_int_equal(accord_follow_name(cp, cp->fd, NAME), 0);
	assert_int_equal(found(), client.stx.stx_ino);
	assert_int_equal(client.listings, 0);
	close(client.pin);
}

static void what_was_replaced_is_found(void **state)
{
	uint64_t new;

	(void)state;
	believe(true, 0);
	new = replace();
	assert_int_not_equal(found(), new);
	assert_int_equal(accord_follow_name(cp, cp->fd, NAME), 0);
	assert_int_equal(found(), new);
	close(client.pin);
	/* And once more: that is not inherited any more. */
	believe(true, 0);
	client.believes_stx = false; /* it asks where it is forced to */
	new = replace();
	assert_int_not_equal(found(), new);
	assert_int_equal(accord_follow_name(cp, cp->fd, NAME), 0);
	assert_int_equal(found(), new);
	close(client.pin);
}

static void a_client_that_believes_no_listing_is_waited_for(void **state)
{
	uint64_t new;

	(void)state;
	believe(false, 5);
	new = replace();
	assert_int_equal(accord_follow_name(cp, cp->fd, NAME), 0);
	assert_int_equal(found(), new);
	assert_true(client.listings > 1);
	close(client.pin);
}

static void what_was_removed_is_absent(void **state)
{
	(void)state;
	believe(false, 0);
	assert_int_equal(unlinkat(cp->fd, NAME, 0), 0);
	assert_int_equal(accord_follow_name(cp, cp->fd, NAME), -ENOENT);
	close(client.pin);
}

/* Somebody's own hard links, which come and go. */
static void other_links_of_it_do_no_harm(void **state)
{
	(void)state;
	believe(false, 0);
	assert_int_equal(linkat(cp->fd, NAME, m.top, "mine", 0), 0);
	assert_int_equal(accord_follow_name(cp, cp->fd, NAME), 0);
	assert_int_equal(found(), client.stx.stx_ino);
	assert_int_equal(client.listings, 1);
	assert_int_equal(unlinkat(m.top, "mine", 0), 0);
	assert_int_equal(unlinkat(m.top, UNIT "/" NAME, 0), 0);
	believe(false, 0);
	assert_int_equal(accord_follow_name(cp, cp->fd, NAME), 0);
	assert_int_equal(found(), client.stx.stx_ino);
	assert_int_equal(client.listings, 1);
	close(client.pin);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, end)
	const struct CMUnitTest tests[] = {
		TEST(what_is_as_it_was_costs_no_listing),
		TEST(what_was_replaced_is_found),
		TEST(a_client_that_believes_no_listing_is_waited_for),
		TEST(what_was_removed_is_absent),
		TEST(other_links_of_it_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
