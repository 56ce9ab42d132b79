/* SPDX-License-Identifier: MIT */
/* Paths resolved without touching a mount, and what mountinfo says of them. */
#include "tests/unit/unit.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "fs/mountinfo.h"

static char dir[PATH_MAX];

static void path_in_dir(char out[PATH_MAX], const char *name)
{
	assert_true(snprintf(out, PATH_MAX, "%s/%s", dir, name) < PATH_MAX);
}

static void resolves(const char *path, const char *expected)
{
	char out[PATH_MAX];
	int err = mountinfo_resolve(path, out);

	if (err)
		fail_msg("%s: %s", path, strerror(-err));
	assert_string_equal(out, expected);
}

static void resolves_below(const char *name, const char *expected)
{
	char in[PATH_MAX], out[PATH_MAX];

	path_in_dir(in, name);
	path_in_dir(out, expected);
	resolves(in, out);
}

static void plain_paths(void **state)
{
	(void)state;
	resolves("/", "/");
	resolves("///", "/");
	resolves("/..", "/");
	resolves("/../../proc/.", "/proc");
	resolves("/proc//sys/", "/proc/sys");
	resolves_below("a/b", "a/b");
	resolves_below("a/./b/../b//", "a/b");
	resolves_below("none/such", "none/such"); /* whether it exists is another question */
	resolves_below("none/../a", "a");
}

static void relative_paths(void **state)
{
	char expected[PATH_MAX], out[PATH_MAX];

	(void)state;
	assert_int_equal(chdir(dir), 0);
	path_in_dir(expected, "a/b");
	resolves("a/b", expected);
	resolves("./a/b", expected);
	resolves(".", dir);
	assert_int_equal(chdir("a"), 0);
	resolves("b", expected);
	resolves("../a/b", expected);
	resolves("../../../../../../../../../../../../..", "/");
	assert_int_equal(mountinfo_resolve("", out), -ENOENT);
	assert_int_equal(chdir("/"), 0);
}

static void symlinks(void **state)
{
	char out[PATH_MAX], in[PATH_MAX];

	(void)state;
	resolves_below("to-a", "a");
	resolves_below("to-a/b", "a/b");
	resolves_below("to-b", "a/b");
	resolves_below("to-b/..", "a"); /* of where it leads to */
	resolves_below("to-b/../../to-a", "a");
	resolves_below("absolute", "a/b");
	resolves_below("absolute/x", "a/b/x");
	resolves_below("dangling", "none/such");
	resolves_below("a/up/a", "a");
	path_in_dir(in, "loop");
	assert_int_equal(mountinfo_resolve(in, out), -ELOOP);
	path_in_dir(in, "ping");
	assert_int_equal(mountinfo_resolve(in, out), -ELOOP);
	path_in_dir(in, "grows");
	assert_true(mountinfo_resolve(in, out) < 0);
}

static void too_long_paths(void **state)
{
	static char path[3 * PATH_MAX];
	char out[PATH_MAX];

	(void)state;
	memset(path, '/', sizeof(path) - 1);
	assert_int_equal(mountinfo_resolve(path, out), -ENAMETOOLONG);
	memset(path, 'x', sizeof(path) - 1);
	assert_int_equal(mountinfo_resolve(path, out), -ENAMETOOLONG);
	path[PATH_MAX - 1] = '\0';
	assert_int_equal(mountinfo_resolve(path, out),
			 -ENAMETOOLONG); /* relative: too long with cwd */
	path[0] = '/';
	assert_int_equal(mountinfo_resolve(path, out), -ENAMETOOLONG);
	path[PATH_MAX - 2] = '\0';
	path[200] = '/';
	assert_int_equal(mountinfo_resolve(path, out), 0);
}

/* What exists resolves as realpath(3) does. */
static void random_paths_resolve_as_libc_does(void **state)
{
	static const char *const parts[] = {"a",    "b",    "..",	".",   "",
					    "to-a", "to-b", "absolute", "up",  "deep",
					    "file", "loop", "ping",	"back"};
	uint64_t random = 99;
	int i, good = 0;

	(void)state;
	for (i = 0; i < 1500; i++) {
		char path[PATH_MAX], expected[PATH_MAX], out[PATH_MAX];
		size_t n = 1 + next_random(&random) % 7;

		strcpy(path, dir);
		while (n--) {
			strcat(path, "/");
			strcat(path,
			       parts[next_random(&random) % (sizeof(parts) / sizeof(*parts))]);
		}
		if (realpath(path, expected)) {
			resolves(path, expected);
			good++;
		} else if (errno == ELOOP) {
			assert_int_equal(mountinfo_resolve(path, out), -ELOOP);
		}
	}
	assert_true(good > 150);
}

static void mounts_are_found(void **state)
{
	struct mount_entry m;
	struct stat st;

	(void)state;
	assert_true(mountinfo_find_at("/proc", &m));
	assert_string_equal(m.type, "proc");
	assert_int_equal(stat("/proc", &st), 0);
	assert_int_equal(makedev(m.major, m.minor), st.st_dev);
	assert_false(mountinfo_find_at("/proc/self", &m));
	assert_false(mountinfo_find_at("", &m));
	assert_false(mountinfo_find_ckptfs("/proc/self", &m));
	assert_false(mountinfo_find_ckptfs(dir, &m));
}

/* mountinfo escapes blanks and backslashes; a name may be longer so than a path may be.
 */
static void odd_names_of_mounts_are_found(void **state)
{
	static const char blanks[] = " tab\there\\134 new\nline ";
	char path[PATH_MAX];
	struct mount_entry m;
	size_t len;
	int i;

	(void)state;
	if (geteuid() != 0 || unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		skip();
	path_in_dir(path, blanks);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(mount("so urce", path, "tmpfs", 0, NULL), 0);
	assert_true(mountinfo_find_at(path, &m));
	assert_string_equal(m.path, path);
	assert_string_equal(m.source, "so urce");
	assert_string_equal(m.type, "tmpfs");
	assert_int_equal(umount2(path, MNT_DETACH), 0);
	assert_false(mountinfo_find_at(path, &m));
	for (i = 0; i < 10; i++) {
		strcat(path, "/");
		len = strlen(path);
		memset(path + len, ' ', 200);
		path[len + 200] = '\0';
		assert_true(!mkdir(path, 0755) || i == 0);
		if (i == 0) {
			path_in_dir(path, "wide");
			assert_int_equal(mkdir(path, 0755), 0);
		}
	}
	assert_int_equal(mount("x", path, "tmpfs", 0, NULL), 0);
	assert_true(mountinfo_find_at(path, &m));
	assert_string_equal(m.path, path);
	assert_int_equal(umount2(path, MNT_DETACH), 0);
}

static void probes_answer(void **state)
{
	(void)state;
	assert_int_equal(mountinfo_probe("/", 5000), MOUNT_ALIVE);
	assert_int_equal(mountinfo_probe("/no/such/path", 5000), MOUNT_ALIVE); /* an answer, too */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}

static void link_to(const char *name, const char *target)
{
	char path[PATH_MAX];

	path_in_dir(path, name);
	assert_int_equal(symlink(target, path), 0);
}

static int setup(void **state)
{
	char path[PATH_MAX], scratch[PATH_MAX];

	(void)state;
	if (!realpath(scratch_dir(scratch), dir))
		return -1;
	path_in_dir(path, "a");
	mkdir(path, 0755);
	path_in_dir(path, "a/b");
	mkdir(path, 0755);
	path_in_dir(path, "deep");
	mkdir(path, 0755);
	path_in_dir(path, "file");
	close(open(path, O_CREAT | O_WRONLY, 0644));
	link_to("to-a", "a");
	link_to("to-b", "./to-a/b/");
	link_to("a/up", "..");
	link_to("a/b/back", "../../a/b");
	link_to("dangling", "none/such");
	link_to("loop", "loop");
	link_to("ping", "pong");
	link_to("pong", "a/../ping");
	link_to("grows", "grows/x");
	path_in_dir(path, "a/b");
	link_to("absolute", path);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_paths),
		cmocka_unit_test(relative_paths),
		cmocka_unit_test(symlinks),
		cmocka_unit_test(too_long_paths),
		cmocka_unit_test(random_paths_resolve_as_libc_does),
		cmocka_unit_test(mounts_are_found),
		cmocka_unit_test(odd_names_of_mounts_are_found),
		cmocka_unit_test(probes_answer),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
