/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/* Crash states: all that a crash may leave of data, names and attributes, and nothing else. */
#include "tests/unit/crash.h"

/* --- data --- */

/* Two places of a file overwritten, the second meaning that the first is there. */
static void write_in_place(bool barrier, bool mark)
{
	int fd;

	make_filled(top, "f", 'o', 8);
	r = record_start(&b);
	fd = make(top, "f");
	fill(fd, 'n', 2, 0);
	if (barrier)
		ok(backing_sync(&b, fd, true));
	fill(fd, 'n', 2, 6);
	if (mark)
		record_mark(r, 1);
	close(fd);
}

static int first_before_second(void *arg, const struct crash_state *s)
{
	(void)arg;
	return byte_at(s->backing, "f", 6 * BLOCK) == 'n' && byte_at(s->backing, "f", 0) != 'n';
}

static void writes_without_a_barrier_have_no_order(void **state)
{
	(void)state;
	write_in_place(false, false);
	assert_caught(first_before_second, NULL);
}

static void writes_with_a_barrier_are_in_order(void **state)
{
	(void)state;
	write_in_place(true, true);
	assert_never_caught(first_before_second, NULL);
}

/* Which combinations of blocks, files and so on were seen: a bit for each. */
static int note_blocks(void *arg, const struct crash_state *s)
{
	unsigned *seen = arg, bits = 0, i;

	for (i = 0; i < 4; i++)
		if (byte_at(s->backing, "f", i * BLOCK) == 'n')
			bits |= 1u << i;
	*seen |= 1u << bits;
	return 0;
}

static void writes_tear_between_blocks(void **state)
{
	unsigned seen = 0;
	int fd;

	(void)state;
	make_filled(top, "f", 'o', 4);
	r = record_start(&b);
	fd = make(top, "f");
	fill(fd, 'n', 4, 0);
	ok(backing_sync(&b, fd, false));
	close(fd);
	assert_never_caught(note_blocks, &seen);
	assert_true(seen & 1u << 0);
	assert_true(seen & 1u << 15);
	assert_true(seen & 1u << 1);
	assert_true(seen & 1u << 3);
	assert_true(seen & 1u << 7);
	assert_true(seen & ~(1u << 0 | 1u << 1 | 1u << 3 | 1u << 7 | 1u << 15));
}

/* Unaligned writes to one block: the page has all of the earlier ones. */
static int parts_in_order(void *arg, const struct crash_state *s)
{
	int i;

	(void)arg;
	for (i = 1; i < 4; i++)
		if (byte_at(s->backing, "f", i * 100) == 'n' &&
		    byte_at(s->backing, "f", i * 100 - 1) != 'n')
			return 1;
	return 0;
}

static void writes_to_one_block_are_in_order(void **state)
{
	char part[100];
	int fd, i;

	(void)state;
	memset(part, 'n', sizeof(part));
	r = record_start(&b);
	fd = make(top, "f");
	ok(backing_sync(&b, top, false));
	for (i = 0; i < 4; i++)
		ok(backing_write(&b, fd, part, 100, i * 100, 0));
	close(fd);
	assert_never_caught(parts_in_order, NULL);
}

static int note_sizes(void *arg, const struct crash_state *s)
{
	bool *seen = arg;
	struct statx stx;

	if (peek_stat(s->backing, "f", &stx)) {
		seen[0] = true; /* no name */
		return 0;
	}
	seen[1] |= stx.stx_size == 0;
	seen[2] |= stx.stx_size == 2 * BLOCK && !byte_at(s->backing, "f", 0);
	seen[3] |= content(s->backing, "f", 2) == 'n';
	seen[4] |= stx.stx_size == BLOCK && byte_at(s->backing, "f", 0) == 'n';
	return 0;
}

static void new_files_may_be_empty_or_zeros(void **state)
{
	bool seen[5] = {0};

	(void)state;
	r = record_start(&b);
	make_filled(top, "f", 'n', 2);
	assert_never_caught(note_sizes, seen);
	assert_true(seen[0] && seen[1] && seen[2] && seen[3] && seen[4]);
}

/* Truncated and written anew in place: no block of before may come after the new end. */
static int no_old_tail(void *arg, const struct crash_state *s)
{
	(void)arg;
	return byte_at(s->backing, "f", 0) == 'n' && byte_at(s->backing, "f", BLOCK) == 'o';
}

static void what_follows_a_truncate_does_not_precede_it(void **state)
{
	bool created;
	int fd;

	(void)state;
	make_filled(top, "f", 'o', 3);
	r = record_start(&b);
	fd = backing_create(&b, top, "f", O_WRONLY | O_TRUNC, 0644, &created);
	ok(fd);
	assert_false(created);
	fill(fd, 'n', 1, 0);
	close(fd);
	/* A whole block needs no past; so the truncate may be lost, unlike in the next. */
	assert_caught(no_old_tail, NULL);
	record_free(r);
	assert_int_equal(unlinkat(top, "f", 0), 0);
	make_filled(top, "f", 'o', 3);
	r = record_start(&b);
	fd = backing_create(&b, top, "f", O_WRONLY | O_TRUNC, 0644, &created);
	ok(backing_write(&b, fd, "nnn", 3, 0, 0));
	close(fd);
	assert_never_caught(no_old_tail, NULL);
}

static int second_promised(void *arg, const struct crash_state *s)
{
	(void)arg;
	return s->mark &&
	       (byte_at(s->backing, "f", 0) != 'n' || byte_at(s->backing, "f", 2 * BLOCK) != 'n');
}

/* RWF_DSYNC makes that write durable, and no other. */
static void dsync_writes_are_durable_alone(void **state)
{
	char block[BLOCK];
	int fd, flags;

	(void)state;
	memset(block, 'n', sizeof(block));
	for (flags = 0; flags < 2; flags++) {
		make_filled(top, "f", 'o', 3);
		r = record_start(&b);
		fd = make(top, "f");
		ok(backing_write(&b, fd, block, BLOCK, 0, flags ? RWF_DSYNC : 0));
		ok(backing_write(&b, fd, block, BLOCK, 2 * BLOCK, RWF_SYNC));
		close(fd);
		record_mark(r, 1);
		if (flags)
			assert_never_caught(second_promised, NULL);
		else
			assert_caught(second_promised, NULL);
		record_free(r);
		r = NULL;
		assert_int_equal(unlinkat(top, "f", 0), 0);
	}
}

/* A sync covers what had returned when it was called. */
static void a_sync_does_not_cover_what_ran_beside_it(void **state)
{
	size_t i;
	int fd;

	(void)state;
	make_filled(top, "f", 'o', 3);
	r = record_start(&b);
	fd = make(top, "f");
	fill(fd, 'n', 3, 0);
	ok(backing_sync(&b, fd, false));
	record_mark(r, 1);
	close(fd);
	record_stop(r);
	for (i = r->nr_initial; i < r->nr_ops; i++)
		if (r->ops[i].kind == RECORD_SYNC)
			r->ops[i].to--;
	assert_caught(second_promised, NULL);
}

/* --- names --- */

static int note_names(void *arg, const struct crash_state *s)
{
	bool *seen = arg;
	bool old = exists(s->backing, "a/f"), new = exists(s->backing, "b/f");

	seen[old + 2 * new] = true;
	return s->mark && old; /* which was gone for good */
}

static void a_file_that_moves_has_a_name(void **state)
{
	bool seen[4] = {0};
	int from, to;

	(void)state;
	assert_int_equal(mkdirat(top, "a", 0755), 0);
	assert_int_equal(mkdirat(top, "b", 0755), 0);
	from = openat(top, "a", O_RDONLY | O_DIRECTORY);
	to = openat(top, "b", O_RDONLY | O_DIRECTORY);
	make_filled(from, "f", 'o', 1);
	r = record_start(&b);
	ok(backing_rename(&b, from, "f", to, "f", 0));
	assert_never_caught(note_names, seen);
	assert_true(!seen[0] && seen[1] && seen[2] && seen[3]);
	/* The old one gone for good: the new one is there. */
	record_free(r);
	ok(backing_rename(&b, to, "f", from, "f", 0));
	memset(seen, 0, sizeof(seen));
	r = record_start(&b);
	ok(backing_rename(&b, from, "f", to, "f", 0));
	ok(backing_sync(&b, from, false));
	record_mark(r, 1);
	ok(backing_mkdir(&b, top, "later", 0755));
	assert_never_caught(note_names, seen);
	assert_true(!seen[0] && seen[1] && seen[2] && seen[3]);
	close(from);
	close(to);
}

static int only_last(void *arg, const struct crash_state *s)
{
	(void)arg;
	return exists(s->backing, "x/d/f") + exists(s->backing, "y/d/f") +
			       exists(s->backing, "z/d/f") !=
		       1 ||
	       (s->mark && !exists(s->backing, "z/d/f"));
}

/* A directory always has one name; where it went is durable with the last step, so is the way. */
static void a_directory_that_moves_has_one_name(void **state)
{
	const char *const names[] = {"x", "y", "z"};
	int dirs[3], d, i;

	(void)state;
	for (i = 0; i < 3; i++) {
		assert_int_equal(mkdirat(top, names[i], 0755), 0);
		dirs[i] = openat(top, names[i], O_RDONLY | O_DIRECTORY);
	}
	assert_int_equal(mkdirat(dirs[0], "d", 0755), 0);
	d = openat(dirs[0], "d", O_RDONLY | O_DIRECTORY);
	make_filled(d, "f", 'o', 1);
	close(d);
	r = record_start(&b);
	ok(backing_rename(&b, dirs[0], "d", dirs[1], "d", 0));
	ok(backing_rename(&b, dirs[1], "d", dirs[2], "d", 0));
	ok(backing_sync(&b, dirs[2], false));
	record_mark(r, 1);
	close(make(top, "later"));
	for (i = 0; i < 3; i++)
		close(dirs[i]);
	assert_never_caught(only_last, NULL);
}

static int count_found(void *arg, const struct crash_state *s)
{
	bool *alone = arg;
	char name[16];
	int i, nr = 0;

	for (i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "other%d", i);
		nr += exists(s->backing, name);
	}
	*alone |= exists(s->backing, "f") && !nr;
	return 0;
}

/* With all that had to be before. */
static void a_name_may_be_all_that_is_left(void **state)
{
	char name[16];
	bool alone = false;
	int i;

	(void)state;
	r = record_start(&b);
	for (i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "other%d", i);
		close(make(top, name));
		if (i == 2)
			close(make(top, "tmp"));
		if (i == 5)
			ok(backing_rename(&b, top, "tmp", top, "f", 0));
	}
	assert_never_caught(count_found, &alone);
	assert_true(alone);
}

static int note_prefixes(void *arg, const struct crash_state *s)
{
	unsigned *seen = arg, bits = 0, i;
	char name[16];

	for (i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		bits |= exists(s->backing, name) ? 1u << i : 0;
	}
	if (!(bits & (bits + 1))) /* 0, 1, 11, 111, ... */
		*seen |= bits + 1;
	return 0;
}

static void all_may_be_there_up_to_any_op(void **state)
{
	char name[16];
	unsigned seen = 0;
	int i;

	(void)state;
	r = record_start(&b);
	for (i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		close(make(top, name));
	}
	assert_never_caught(note_prefixes, &seen);
	assert_int_equal(seen, 0x1ff);
}

static int first_is_somewhere(void *arg, const struct crash_state *s)
{
	(void)arg;
	return content(s->backing, "a", 1) != '1' && content(s->backing, "c", 1) != '1';
}

static void a_name_is_not_taken_before_it_is_free(void **state)
{
	(void)state;
	make_filled(top, "a", '1', 1);
	r = record_start(&b);
	ok(backing_rename(&b, top, "a", top, "c", 0));
	make_filled(top, "a", '2', 1);
	assert_never_caught(first_is_somewhere, NULL);
}

static int note_pairs(void *arg, const struct crash_state *s)
{
	bool *seen = arg;

	seen[exists(s->backing, "a") + 2 * exists(s->backing, "b")] = true;
	return 0;
}

static void names_come_in_any_order(void **state)
{
	bool seen[4] = {0};

	(void)state;
	r = record_start(&b);
	close(make(top, "a"));
	close(make(top, "b"));
	assert_never_caught(note_pairs, seen);
	assert_true(seen[0] && seen[1] && seen[2] && seen[3]);
}

/* Moved away, made again, exchanged, removed: each state is one that it went through. */
static int note_history(void *arg, const struct crash_state *s)
{
	unsigned *seen = arg;
	int a = content(s->backing, "a", 1), c = content(s->backing, "c", 1);

	if (a < 0 || c < 0)
		return 0; /* the name without its data */
	if ((a == '2' && c == '2') || (a == '1' && c == '1') || (!c && a != '1'))
		return 1;
	*seen |= a == '1' ? 1 : a == '2' ? 2 : 4;
	return 0;
}

static void changes_to_one_name_are_in_order(void **state)
{
	unsigned seen = 0;

	(void)state;
	make_filled(top, "a", '1', 1);
	r = record_start(&b);
	ok(backing_rename(&b, top, "a", top, "c", 0));
	make_filled(top, "a", '2', 1);
	if (backing_rename(&b, top, "a", top, "c", RENAME_EXCHANGE) == -EINVAL)
		skip();
	ok(backing_unlink(&b, top, "a", false));
	assert_never_caught(note_history, &seen);
	assert_int_equal(seen, 7);
}

static int two_files_kept(void *arg, const struct crash_state *s)
{
	struct statx stx;
	char value[8];

	(void)arg;
	if (content(s->backing, "kept/f", 2) != 'k' || peek_stat(s->backing, "kept/f", &stx))
		return 1;
	if (stx.stx_nlink != 2 || (stx.stx_mode & 07777) != 0604 || stx.stx_mtime.tv_sec != 12345)
		return 1;
	if (peek_read(s->backing, "kept/l", value, sizeof(value)) != 2 || memcmp(value, "to", 2))
		return 1;
	return 0;
}

static void what_was_there_stays(void **state)
{
	const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 12345}};
	int dir;

	(void)state;
	assert_int_equal(mkdirat(top, "kept", 0700), 0);
	dir = openat(top, "kept", O_RDONLY | O_DIRECTORY);
	make_filled(dir, "f", 'k', 2);
	assert_int_equal(linkat(dir, "f", top, "other", 0), 0);
	assert_int_equal(symlinkat("to", dir, "l"), 0);
	assert_int_equal(fchmodat(dir, "f", 0604, 0), 0);
	assert_int_equal(utimensat(dir, "f", times, 0), 0);
	close(dir);
	r = record_start(&b);
	make_filled(top, "new", 'n', 1);
	assert_never_caught(two_files_kept, NULL);
}

static int note_times(void *arg, const struct crash_state *s)
{
	bool *seen = arg;
	struct statx stx;

	if (s->mark && !peek_stat(s->backing, "f", &stx) && content(s->backing, "f", 1) == 'n')
		seen[stx.stx_mtime.tv_sec == 12345] = true;
	return 0;
}

static void fdatasync_is_not_for_times(void **state)
{
	const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 12345}};
	bool seen[2] = {0};
	int fd;

	(void)state;
	make_filled(top, "f", 'o', 1);
	assert_int_equal(utimensat(top, "f", times, 0), 0);
	r = record_start(&b);
	fd = make(top, "f");
	fill(fd, 'n', 1, 0);
	ok(backing_sync(&b, fd, true));
	close(fd);
	record_mark(r, 1);
	assert_never_caught(note_times, seen);
	assert_true(seen[0] && seen[1]);
}

static int all_there(void *arg, const struct crash_state *s)
{
	(void)arg;
	return s->mark && content(s->backing, "d/f", 2) != 'n';
}

static void syncfs_is_for_everything(void **state)
{
	int dir;

	(void)state;
	r = record_start(&b);
	ok(backing_mkdir(&b, top, "d", 0755));
	dir = backing_pin(&b, top, "d");
	make_filled(dir, "f", 'n', 2);
	ok(backing_sync_fs(&b, top));
	record_mark(r, 1);
	close(dir);
	assert_never_caught(all_there, NULL);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(writes_without_a_barrier_have_no_order),
		T(writes_with_a_barrier_are_in_order),
		T(writes_tear_between_blocks),
		T(writes_to_one_block_are_in_order),
		T(new_files_may_be_empty_or_zeros),
		T(what_follows_a_truncate_does_not_precede_it),
		T(dsync_writes_are_durable_alone),
		T(a_sync_does_not_cover_what_ran_beside_it),
		T(a_file_that_moves_has_a_name),
		T(a_directory_that_moves_has_one_name),
		T(names_come_in_any_order),
		T(a_name_may_be_all_that_is_left),
		T(all_may_be_there_up_to_any_op),
		T(a_name_is_not_taken_before_it_is_free),
		T(changes_to_one_name_are_in_order),
		T(what_was_there_stays),
		T(fdatasync_is_not_for_times),
		T(syncfs_is_for_everything),
	};

	umask(0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
