/* SPDX-License-Identifier: MIT */
/* needs: root */
/* Acting as the caller, seen by the owners of files and by what is refused. */
#include "tests/unit/unit.h"

#include <grp.h>
#include <pthread.h>
#include <sys/fsuid.h>
#include <sys/wait.h>

#include "engine/backing/creds.h"

static int dir = -1;

static void owner_is(uid_t uid, gid_t gid)
{
	static int nr;
	char name[32];
	struct stat st;
	int fd;

	snprintf(name, sizeof(name), "file-%d", nr++);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL, 0666);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_uid, uid);
	assert_int_equal(st.st_gid, gid);
	close(fd);
}

static void files_belong_to_the_caller(void **state)
{
	const struct caller a = {1001, 1002, 0}, b = {1003, 1004, 0}, root = {0, 0, 0};

	(void)state;
	owner_is(0, 0);
	creds_become(&a);
	owner_is(1001, 1002);
	creds_become(&b);
	owner_is(1003, 1004);
	creds_become(&root);
	owner_is(0, 0);
	creds_become(&a);
	creds_restore();
	owner_is(0, 0);
	creds_restore();
	owner_is(0, 0);
}

static void permission_is_the_callers(void **state)
{
	const struct caller a = {1001, 1002, 0};
	int fd;

	(void)state;
	make_file(dir, "roots", "x");
	assert_int_equal(fchmodat(dir, "roots", 0600, 0), 0);
	creds_become(&a);
	fd = openat(dir, "roots", O_RDONLY);
	assert_int_equal(fd, -1);
	assert_int_equal(errno, EACCES);
	creds_restore();
	fd = openat(dir, "roots", O_RDONLY);
	assert_true(fd >= 0);
	close(fd);
}

/* A process with groups of its own, until the pipe is closed. */
static pid_t start_member(uid_t uid, gid_t gid, gid_t group, int *pipe_fd)
{
	int go[2], ready[2];
	char c = 0;
	pid_t pid;

	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		close(go[1]);
		if (setgroups(1, &group) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid) ||
		    write(ready[1], &c, 1) != 1)
			_exit(1);
		_exit(read(go[0], &c, 1) != 0);
	}
	close(go[0]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(ready[1]);
	*pipe_fd = go[1];
	return pid;
}

/* As a backing does on which root has no rights. */
static int only_for(uid_t uid)
{
	uid_t now = (uid_t)setfsuid((uid_t)-1);

	return now == uid ? (int)uid : -EACCES;
}

static int only_with_groups(void)
{
	return getgroups(0, NULL) > 0 ? 1 : -EACCES;
}

static int try_open(void)
{
	int fd = openat(dir, "groups", O_RDONLY);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static void groups_are_added_when_needed(void **state)
{
	int hold;
	pid_t pid = start_member(1001, 1002, 4242, &hold);
	const struct caller member = {1001, 1002, pid}, nobody = {1001, 1002, 0},
			    wrong_uid = {1009, 1002, pid}, wrong_gid = {1001, 1009, pid};

	(void)state;
	make_file(dir, "groups", "x");
	assert_int_equal(fchownat(dir, "groups", 0, 4242, 0), 0);
	assert_int_equal(fchmodat(dir, "groups", 0640, 0), 0);
	assert_int_equal(AS_CALLER(&nobody, try_open()), -EACCES);
	assert_int_equal(AS_CALLER(&wrong_uid, try_open()), -EACCES);
	assert_int_equal(AS_CALLER(&wrong_gid, try_open()), -EACCES);
	assert_int_equal(AS_CALLER(&member, try_open()), 0);
	/* They do not stay for whoever comes next. */
	assert_int_equal(AS_CALLER(&nobody, try_open()), -EACCES);
	assert_int_equal(AS_CALLER(&member, try_open()), 0);
	assert_int_equal(AS_CALLER(&wrong_uid, try_open()), -EACCES);
	creds_restore();
	assert_int_equal(getgroups(0, NULL), 0);
	owner_is(0, 0);
	close(hold);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	/* A pid that is gone lends nothing. */
	assert_int_equal(AS_CALLER(&member, try_open()), -EACCES);
	creds_restore();
}

static void what_the_daemon_is_refused_is_done_on_behalf(void **state)
{
	int hold;
	pid_t pid = start_member(1001, 1002, 4242, &hold);
	const struct caller member = {1001, 1002, pid}, other = {1005, 1006, 0}, root = {0, 0, 0},
			    another_of_its = {1001, 1002, getpid()};

	(void)state;
	assert_int_equal(ON_BEHALF(only_for(1001)), -EACCES);
	creds_on_behalf(&member);
	assert_int_equal(ON_BEHALF(only_for(1001)), 1001);
	assert_int_equal(ON_BEHALF(only_for(0)), 0);
	assert_int_equal(ON_BEHALF(only_for(1005)), -EACCES);
	owner_is(0, 0);
	/* Who acts as somebody else does not act on behalf of anybody. */
	creds_become(&other);
	assert_int_equal(ON_BEHALF(only_for(1001)), -EACCES);
	/* ... not even of another process of the same user; but who is that one has its groups, and keeps them. */
	creds_become(&another_of_its);
	assert_int_equal(ON_BEHALF(only_with_groups()), -EACCES);
	creds_become(&member);
	assert_int_equal(getgroups(0, NULL), 0);
	assert_int_equal(ON_BEHALF(only_with_groups()), 1);
	owner_is(1001, 1002);
	creds_restore();
	assert_int_equal(getgroups(0, NULL), 0);
	/* Its groups serve also when it has ended, if they were needed before. */
	assert_int_equal(ON_BEHALF(only_with_groups()), 1);
	close(hold);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(ON_BEHALF(only_with_groups()), 1);
	assert_int_equal(getgroups(0, NULL), 0);
	creds_on_behalf(&other);
	assert_int_equal(ON_BEHALF(only_for(1001)), -EACCES);
	assert_int_equal(ON_BEHALF(only_with_groups()), -EACCES);
	creds_on_behalf(&root);
	assert_null(creds_behalf());
	creds_on_behalf(&member);
	creds_on_behalf(NULL);
	assert_null(creds_behalf());
	assert_int_equal(ON_BEHALF(only_for(1001)), -EACCES);
}

static void adding_in_vain_is_told(void **state)
{
	const struct caller a = {1001, 1002, 0}, root = {0, 0, getpid()};

	(void)state;
	creds_become(&a);
	assert_false(creds_add_groups(&a));
	owner_is(1001, 1002);
	creds_become(&root);
	assert_false(creds_add_groups(&root));
	creds_restore();
}

static void *new_thread(void *arg)
{
	const struct caller *c = arg;

	if (c)
		creds_become(c);
	else
		creds_restore();
	owner_is(c ? c->uid : 0, c ? c->gid : 0);
	return NULL;
}

/* Linux gives a new thread the credentials of the one that made it. */
static void threads_start_as_the_daemon(void **state)
{
	int hold;
	pid_t pid = start_member(1001, 1002, 4242, &hold);
	struct caller member = {1001, 1002, pid}, other = {1005, 1006, 0}, root = {0, 0, 0};
	struct caller *const first[] = {NULL, &other, &root};
	pthread_t thread;
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		assert_int_equal(AS_CALLER(&member, try_open()), 0); /* with its groups */
		assert_int_equal(pthread_create(&thread, NULL, new_thread, first[i]), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
	}
	creds_restore();
	close(hold);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static int open_in_thread;

static void *open_as_other(void *arg)
{
	open_in_thread = AS_CALLER((const struct caller *)arg, try_open());
	return NULL;
}

static void threads_inherit_no_groups(void **state)
{
	int hold;
	pid_t pid = start_member(1001, 1002, 4242, &hold);
	struct caller member = {1001, 1002, pid}, same_without = {1001, 1002, 0};
	pthread_t thread;

	(void)state;
	assert_int_equal(AS_CALLER(&member, try_open()), 0);
	assert_int_equal(pthread_create(&thread, NULL, open_as_other, &same_without), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(open_in_thread, -EACCES);
	creds_restore();
	close(hold);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static mode_t made_with(mode_t mode, mode_t mask, const char *name)
{
	struct stat st;
	int fd;

	mode = creds_umask(mode, mask);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL, mode);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	close(fd);
	return st.st_mode & 07777;
}

static void *with_own_umask(void *arg)
{
	(void)arg;
	assert_int_equal(made_with(0666, 077, "mask-a"), 0600);
	assert_int_equal(made_with(0666, 0, "mask-b"), 0666);
	assert_int_equal(made_with(0777, 027, "mask-c"), 0750);
	return NULL;
}

static void umasks_are_the_threads_own(void **state)
{
	pthread_t thread;
	mode_t before = umask(022);

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, with_own_umask, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(umask(before), 022);
}

static void quota_cannot_be_exceeded(void **state)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	unsigned long long effective = ~0ull;

	(void)state;
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		sscanf(line, "CapEff: %llx", &effective);
	fclose(f);
	assert_int_equal(effective >> 24 & 1, 0); /* CAP_SYS_RESOURCE */
}

static int setup(void **state)
{
	(void)state;
	dir = scratch_fd();
	return fchmod(dir, 0777) || creds_init(false) || !creds_init(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_belong_to_the_caller),
		cmocka_unit_test(permission_is_the_callers),
		cmocka_unit_test(groups_are_added_when_needed),
		cmocka_unit_test(what_the_daemon_is_refused_is_done_on_behalf),
		cmocka_unit_test(adding_in_vain_is_told),
		cmocka_unit_test(threads_start_as_the_daemon),
		cmocka_unit_test(threads_inherit_no_groups),
		cmocka_unit_test(umasks_are_the_threads_own),
		cmocka_unit_test(quota_cannot_be_exceeded),
	};

	umask(0);
	if (geteuid() != 0) {
		puts("needs root");
		return 77;
	}
	return cmocka_run_group_tests(tests, setup, NULL);
}
