/* SPDX-License-Identifier: MIT */
/* A walk over a directory: which entries it gives, and how it ends. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/backing/dirwalk.h"
#include "engine/base/message.h"
#include "tests/backing/faults.h"

#define MANY 3000 /* several buffers full */

static struct backing b;
static struct faults *f;
static char path[] = "/tmp/ckptfs-dirwalk-XXXXXX";
static int top;

static int setup(void **state)
{
	struct error e;

	(void)state;
	strcpy(path + strlen(path) - 6, "XXXXXX");
	assert_non_null(mkdtemp(path));
	assert_int_equal(backing_open(&b, path, &e), 0);
	f = faults_attach(&b);
	top = backing_pin(&b, b.root_fd, ".");
	top = top < 0 ? backing_reopen(&b, b.root_fd, O_PATH | O_DIRECTORY) : top;
	assert_true(top >= 0);
	return 0;
}

static int teardown(void **state)
{
	char command[64];

	(void)state;
	close(top);
	faults_detach(f);
	backing_close(&b);
	snprintf(command, sizeof(command), "rm -rf %s", path);
	return system(command);
}

static void make(const char *name)
{
	bool created;
	int fd = backing_create(&b, top, name, O_WRONLY | O_EXCL, 0600, &created);

	assert_true(fd >= 0);
	close(fd);
}

static void make_many(void)
{
	char name[32];

	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "file-with-a-longer-name-%d", i);
		make(name);
	}
}

static unsigned count(struct dirwalk *w, bool (*next)(struct dirwalk *))
{
	unsigned nr = 0;

	while (next(w))
		nr++;
	return nr;
}

static void gives_each_entry_once(void **state)
{
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	static bool seen[MANY];
	unsigned i;

	(void)state;
	make_many();
	assert_int_equal(dirwalk_begin(&w, &b, top), 0);
	while (dirwalk_next(&w)) {
		assert_int_equal(sscanf(w.name, "file-with-a-longer-name-%u", &i), 1);
		assert_false(seen[i]);
		seen[i] = true;
	}
	assert_int_equal(w.err, 0);
	for (i = 0; i < MANY; i++)
		assert_true(seen[i]);
	dirwalk_rewind(&w);
	assert_int_equal(count(&w, dirwalk_next), MANY);
}

static void tells_type_and_inode(void **state)
{
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	struct statx stx;

	(void)state;
	assert_int_equal(backing_mkdir(&b, top, "sub", 0700), 0);
	dirwalk_begin(&w, &b, top);
	assert_true(dirwalk_next(&w));
	assert_string_equal(w.name, "sub");
	assert_true(w.type == DT_DIR || w.type == DT_UNKNOWN);
	assert_int_equal(backing_stat_at(&b, w.fd, w.name, &stx), 0);
	assert_int_equal(w.ino, stx.stx_ino);
	assert_false(dirwalk_next(&w));
}

static void leaves_reserved_names_out_where_asked(void **state)
{
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;

	(void)state;
	make("shard.pt");
	make(".ckptfs-0123456789abcdef0123456789abcdef");
	dirwalk_begin(&w, &b, top);
	assert_int_equal(count(&w, dirwalk_next), 2);
	dirwalk_rewind(&w);
	assert_true(dirwalk_next_visible(&w));
	assert_string_equal(w.name, "shard.pt");
	assert_false(dirwalk_next_visible(&w));
}

/* A listing that is cut short looks like a short one: only w.err tells. */
static void an_error_is_not_the_end(void **state)
{
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	unsigned nr;

	(void)state;
	make_many();
	faults_add(f, &(struct fault){.calls = CALL_GETDENTS, .skip = 1, .err = EIO});
	dirwalk_begin(&w, &b, top);
	nr = count(&w, dirwalk_next);
	assert_true(nr > 0 && nr < MANY);
	assert_int_equal(w.err, -EIO);
	assert_false(dirwalk_next(&w));
}

static void goes_on_after_an_interruption(void **state)
{
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;

	(void)state;
	make("a");
	faults_add(f, &(struct fault){.calls = CALL_GETDENTS, .times = 1, .err = EINTR});
	dirwalk_begin(&w, &b, top);
	assert_int_equal(count(&w, dirwalk_next), 1);
	assert_int_equal(w.err, 0);
}

static void a_directory_that_is_gone_is_empty(void **state)
{
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	int pin;

	(void)state;
	assert_int_equal(backing_mkdir(&b, top, "sub", 0700), 0);
	pin = backing_pin(&b, top, "sub");
	dirwalk_begin(&w, &b, pin);
	close(pin);
	assert_int_equal(backing_unlink(&b, top, "sub", true), 0);
	assert_false(dirwalk_next(&w));
	assert_int_equal(w.err, 0);
}

static void what_cannot_be_opened_has_no_entries(void **state)
{
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	int pin;

	(void)state;
	make("file");
	pin = backing_pin(&b, top, "file");
	assert_int_equal(dirwalk_begin(&w, &b, pin), -ENOTDIR);
	assert_false(dirwalk_next(&w));
	dirwalk_rewind(&w);
	assert_int_equal(w.err, -ENOTDIR);
	assert_int_equal(dirwalk_begin_fd(&w, &b, -EACCES), -EACCES);
	close(pin);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(gives_each_entry_once),
		T(tells_type_and_inode),
		T(leaves_reserved_names_out_where_asked),
		T(an_error_is_not_the_end),
		T(goes_on_after_an_interruption),
		T(a_directory_that_is_gone_is_empty),
		T(what_cannot_be_opened_has_no_entries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
