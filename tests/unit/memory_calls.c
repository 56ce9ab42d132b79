/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/*
 * The filesystem in memory does what tmpfs does, in random sequences of the calls that a backing
 * gets.
 */
#include "tests/unit/unit.h"

#include <linux/falloc.h>
#include <sys/mount.h>
#include <sys/uio.h>
#include <sys/xattr.h>

#include "engine/base/cleanup.h"
#include "tests/backing/memory.h"
#include "tests/backing/util.h"

enum { SEQUENCES = 400, CALLS = 120, HELD = 8, BYTES = 3 * 4096 };

static struct backing sides[2]; /* tmpfs, memory */
static struct {
	int fd[2];
} held[HELD]; /* the same inode on both sides; [0]: the top directory */
static uint64_t rng;
static char calls[CALLS * 80];

static unsigned pick(unsigned below)
{
	return (unsigned)(next_random(&rng) % below);
}

static const char *pick_name(void)
{
	static const char *const names[] = {"a", "b", "c", "d", "e", ".", "..", "no-such"};

	return names[pick(pick(4) ? 5 : ARRAY_SIZE(names))];
}

#define SAID(...) snprintf(calls + strlen(calls), sizeof(calls) - strlen(calls), __VA_ARGS__)

/* Makes one call on both sides. @call uses `side`, `b`, `arg` and what else is there. */
#define BOTH(results, call) \
	do { \
		int side; \
		for (side = 0; side < 2; side++) { \
			const struct backing_ops *ops = sides[side].ops; \
			void *arg = sides[side].ops_arg; \
			(results)[side] = (ssize_t)(ops->call); \
		} \
	} while (0)

static void assert_same(const ssize_t results[2])
{
	if (results[0] == results[1])
		return;
	fputs(calls, stderr);
	fail_msg("tmpfs: %zd, memory: %zd", results[0], results[1]);
}

static void take_fds(const ssize_t fds[2])
{
	unsigned i = 1 + pick(HELD - 1);
	int side;

	if ((fds[0] < 0) != (fds[1] < 0) || (fds[0] < 0 && fds[0] != fds[1]))
		assert_same(fds);
	for (side = 0; side < 2 && fds[0] >= 0; side++) {
		close(held[i].fd[side]);
		held[i].fd[side] = (int)fds[side];
	}
}

static void call_open(const int *dir, const int *fd)
{
	static const int flags[] = {O_RDWR,
				    O_PATH,
				    O_RDONLY | O_DIRECTORY,
				    O_RDONLY,
				    O_WRONLY | O_TRUNC,
				    O_RDWR | O_CREAT | O_EXCL,
				    O_WRONLY | O_APPEND};
	const char *name = pick_name();
	int how = flags[pick(ARRAY_SIZE(flags))];
	ssize_t r[2];

	if (pick(3) && strcmp(name, "..")) { /* that of the top is another's */
		SAID("open %s %#o\n", name, (unsigned)how);
		BOTH(r, open(arg, dir[side], name, how | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
			     how & O_CREAT ? 0640 : 0, 0));
	} else {
		how &= ~(O_CREAT | O_EXCL);
		SAID("reopen %#o\n", (unsigned)how);
		BOTH(r, reopen(arg, fd[side], how | O_CLOEXEC | O_NONBLOCK));
	}
	take_fds(r);
}

static void call_name(const int *dir, const int *new_dir, const int *fd)
{
	static const unsigned flags[] = {0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE,
					 RENAME_EXCHANGE | RENAME_NOREPLACE};
	const char *name = pick_name(), *new_name = pick_name();
	unsigned how = flags[pick(ARRAY_SIZE(flags))];
	ssize_t r[2];

	switch (pick(7)) {
	case 0:
		SAID("mkdir %s\n", name);
		BOTH(r, mkdir(arg, dir[side], name, 0755));
		break;
	case 1:
		SAID("mknod %s\n", name);
		BOTH(r, mknod(arg, dir[side], name, S_IFSOCK | 0600, 0));
		break;
	case 2:
		SAID("symlink %s\n", name);
		BOTH(r, symlink(arg, new_name, dir[side], name));
		break;
	case 3:
		SAID("link %s\n", name);
		BOTH(r, link(arg, fd[side], dir[side], name));
		break;
	case 4:
		how = pick(3) ? 0 : AT_REMOVEDIR;
		SAID("unlink %s %u\n", name, how);
		BOTH(r, unlink(arg, dir[side], name, (int)how));
		break;
	default:
		SAID("rename %s %s %u\n", name, new_name, how);
		BOTH(r, rename(arg, dir[side], name, new_dir[side], new_name, how));
	}
	assert_same(r);
}

static void call_attr(const int *fd)
{
	static const char *const names[] = {"user.x", "user.y", "trusted.z", "other.x", "user."};
	static const int flags[] = {0, XATTR_CREATE, XATTR_REPLACE};
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = pick(1000)}};
	const char *name = names[pick(geteuid() ? 2 : 4)];
	char buf[2][BYTES];
	unsigned n = pick(4);
	ssize_t r[2];

	switch (pick(7)) {
	case 0:
		SAID("chmod\n");
		BOTH(r, chmod(arg, fd[side], 0600 + n));
		break;
	case 1:
		SAID("chown\n");
		BOTH(r, chown(arg, fd[side], geteuid() ? (uid_t)-1 : n, geteuid() ? getegid() : n));
		break;
	case 2:
		SAID("utimens\n");
		BOTH(r, utimens(arg, fd[side], times));
		break;
	case 3:
		SAID("setxattr %s\n", name);
		BOTH(r, setxattr(arg, fd[side], name, "abcd", n, flags[n % 3]));
		break;
	case 4:
		SAID("removexattr %s\n", name);
		BOTH(r, removexattr(arg, fd[side], name));
		break;
	case 5:
		SAID("getxattr %s\n", name);
		BOTH(r, getxattr(arg, fd[side], name, buf[side], n));
		if (r[0] > 0 && n)
			assert_memory_equal(buf[0], buf[1], (size_t)r[0]);
		break;
	default:
		SAID("readlink\n");
		BOTH(r, readlink(arg, fd[side], buf[side], BYTES));
		if (r[0] > 0)
			assert_memory_equal(buf[0], buf[1], (size_t)r[0]);
	}
	assert_same(r);
}

static void call_data(const int *fd, const int *out)
{
	static const int modes[] = {0, FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_ZERO_RANGE};
	off_t off = pick(BYTES), off_out = pick(BYTES);
	size_t len = 1 + pick(pick(2) ? 100 : BYTES);
	int mode = modes[pick(ARRAY_SIZE(modes))], what = (int)pick(9);
	char buf[2][BYTES];
	ssize_t r[2];

	memset(buf, 'a' + (int)pick(26), sizeof(buf));
	SAID("data %d: %lld, %zu, mode %d, to %lld\n", what, (long long)off, len, mode,
	     (long long)off_out);
	if (what == 0)
		BOTH(r, read(arg, fd[side], buf[side], len, off));
	else if (what <= 3)
		BOTH(r, write(arg, fd[side], buf[side], len, off, what == 1 ? RWF_APPEND : 0));
	else if (what == 4)
		BOTH(r, ftruncate(arg, fd[side], off));
	else if (what == 5)
		BOTH(r, truncate(arg, fd[side], off));
	else if (what == 6)
		BOTH(r, fallocate(arg, fd[side], mode, off, (off_t)len));
	else if (what == 7)
		BOTH(r, copy_range(arg, fd[side], off, out[side], off_out, len, 0));
	else
		BOTH(r, sync(arg, fd[side], (enum backing_sync)(len % 3)));
	assert_same(r);
	if (what == 0 && r[0] > 0)
		assert_memory_equal(buf[0], buf[1], (size_t)r[0]);
}

/* --- what is there in the end --- */

enum { LINES = 256, LINE = 200 };

struct seen {
	char lines[LINES][LINE];
	size_t nr;
};

__attribute__((format(printf, 2, 3))) static void say(struct seen *s, const char *fmt, ...)
{
	char *line = s->lines[s->nr];
	size_t len = strlen(line);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line + len, LINE - len, fmt, ap);
	va_end(ap);
}

static uint64_t sum(const char *data, ssize_t size)
{
	uint64_t h = 0;
	ssize_t i;

	for (i = 0; i < size; i++)
		h = mix(h, (unsigned char)data[i]);
	return h;
}

static void look_at(struct seen *s, struct backing *b, int pin)
{
	static const char *const xattrs[] = {"user.x", "user.y", "trusted.z"};
	char data[4 * BYTES], value[64];
	struct statx stx;
	size_t i;
	int fd;

	assert_int_equal(backing_stat(b, pin, &stx), 0);
	say(s, " %o %u %u:%u", stx.stx_mode, stx.stx_nlink, stx.stx_uid, stx.stx_gid);
	for (i = 0; i < ARRAY_SIZE(xattrs); i++)
		say(s, " %zd", backing_getxattr(b, pin, xattrs[i], value, sizeof(value)));
	if (S_ISDIR(stx.stx_mode))
		return;
	fd = S_ISREG(stx.stx_mode) ? backing_reopen(b, pin, O_RDONLY) : -1;
	say(s, " %llu", (unsigned long long)stx.stx_size);
	if (fd < 0)
		return;
	say(s, " %llx", (unsigned long long)sum(data, backing_read(b, fd, data, sizeof(data), 0)));
	close(fd);
}

static void look(struct seen *s, struct backing *b, int dir, const char *path)
{
	int fd = backing_reopen(b, dir, O_RDONLY | O_DIRECTORY);
	char buf[sizeof(struct dirent64)]; /* small: it takes several calls */
	ssize_t n, at;

	assert_true(fd >= 0);
	while ((n = backing_getdents(b, fd, buf, sizeof(buf))) > 0) {
		for (at = 0; at < n; at += ((struct dirent64 *)(void *)(buf + at))->d_reclen) {
			const struct dirent64 *d = (void *)(buf + at);
			bool dots = !strcmp(d->d_name, ".") || !strcmp(d->d_name, "..");
			__cleanup_fd int pin = backing_pin(b, fd, dots ? "." : d->d_name);
			char below[512];

			assert_true(pin >= 0);
			snprintf(below, sizeof(below), "%s/%s", path, d->d_name);
			say(s, "%s %d", below, d->d_type);
			look_at(s, b, pin);
			assert_true(++s->nr < LINES);
			if (d->d_type == DT_DIR && !dots)
				look(s, b, pin, below);
		}
	}
	assert_int_equal(n, 0);
	close(fd);
}

static int in_order(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void assert_same_trees(void)
{
	static struct seen seen[2];
	size_t i;
	int side;

	memset(seen, 0, sizeof(seen));
	for (side = 0; side < 2; side++) {
		look(&seen[side], &sides[side], sides[side].root_fd, "");
		qsort(seen[side].lines, seen[side].nr, LINE, in_order);
	}
	for (i = 0; i < LINES; i++) {
		if (!strcmp(seen[0].lines[i], seen[1].lines[i]))
			continue;
		fputs(calls, stderr);
		fail_msg("tmpfs: %s; memory: %s", seen[0].lines[i], seen[1].lines[i]);
	}
}

static void one_sequence(void)
{
	int i;

	*calls = '\0';
	for (i = 0; i < CALLS; i++) {
		const int *dir = held[pick(2) ? 0 : pick(HELD)].fd, *fd = held[pick(HELD)].fd;

		switch (pick(4)) {
		case 0:
			call_open(dir, fd);
			break;
		case 1:
			call_name(dir, held[pick(2) ? 0 : pick(HELD)].fd, fd);
			break;
		case 2:
			call_attr(fd);
			break;
		default:
			call_data(fd, held[pick(HELD)].fd);
		}
	}
	assert_same_trees();
}

/* A tmpfs where the test may mount one; else what is there serves. */
static void open_real(struct backing *b)
{
	const char *private = getenv("TEST_PRIVATE");
	char path[PATH_MAX];
	struct error e;

	scratch_dir(path);
	if (private && !strcmp(private, "1") && !geteuid())
		assert_int_equal(mount("ckptfs-test", path, "tmpfs", 0, NULL), 0);
	assert_int_equal(backing_open(b, path, &e), 0);
	features_probe(b->features, b->root_fd, true);
}

static void it_does_what_tmpfs_does(void **state)
{
	struct memory *m = memory_create();
	struct backing real;
	int seed, i, side;

	(void)state;
	open_real(&real);
	for (seed = 1; seed <= SEQUENCES; seed++) {
		rng = (uint64_t)seed;
		sides[0] = real;
		sides[0].ops_arg = &sides[0];
		assert_int_equal(backing_mkdir(&real, real.root_fd, "top", 0755), 0);
		sides[0].root_fd = openat(real.root_fd, "top", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		memory_open(m, &sides[1]);
		for (i = 0; i < HELD; i++)
			for (side = 0; side < 2; side++)
				held[i].fd[side] =
					i ? dup(sides[side].root_fd) : sides[side].root_fd;
		one_sequence();
		for (i = 1; i < HELD; i++)
			for (side = 0; side < 2; side++)
				close(held[i].fd[side]);
		close(sides[0].root_fd);
		backing_close(&sides[1]);
		assert_int_equal(memory_descriptors(m), 0);
		memory_reset(m);
		assert_int_equal(remove_tree(real.root_fd, "top"), 0);
	}
	backing_close(&real);
	memory_destroy(m);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_does_what_tmpfs_does),
	};

	umask(0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
