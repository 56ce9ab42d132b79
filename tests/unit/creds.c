/* SPDX-License-Identifier: MIT */
/* needs: root */
/* One call as somebody, seen by the owners of files and by what is refused. */
#include "tests/unit/unit.h"

#include <grp.h>
#include <pthread.h>
#include <sys/fsuid.h>
#include <sys/wait.h>

#include "engine/backing/creds.h"

static int dir = -1;

static int make(void)
{
	static int nr;
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "file-%d", nr++);
	fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL, 0666);
	return fd < 0 ? -errno : fd;
}

static void belongs_to(int fd, uid_t uid, gid_t gid)
{
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_uid, uid);
	assert_int_equal(st.st_gid, gid);
	close(fd);
}

/* Between calls. */
static void thread_is_the_daemon(void)
{
	assert_int_equal(setfsuid((uid_t)-1), 0);
	assert_int_equal(setfsgid((gid_t)-1), 0);
	assert_int_equal(getgroups(0, NULL), 0);
}

/* As @kind says of @user. */
#define ACT(kind, user, expr) \
	({ \
		struct who who_ = who_##kind(user); \
		int result_ = ACT_AS(&who_, expr); \
		thread_is_the_daemon(); \
		result_; \
	})

static void files_belong_to_whom_the_call_names(void **state)
{
	const struct caller a = {.uid = 1001, .gid = 1002, .pid = 0},
			    b = {.uid = 1003, .gid = 1004, .pid = 0},
			    root = {.uid = 0, .gid = 0, .pid = 0},
			    nobody = {.uid = (uid_t)-1, .gid = (gid_t)-1, .pid = 0};
	const struct who zero = {0};

	(void)state;
	belongs_to(ACT(for, NULL, make()), 0, 0);
	belongs_to(ACT(as, &a, make()), 1001, 1002);
	belongs_to(ACT(owner, &b, make()), 1003, 1004);
	belongs_to(ACT(as, &root, make()), 0, 0);
	belongs_to(ACT(for, &a, make()), 0, 0);
	belongs_to(ACT(as, &nobody, make()), 0, 0); /* a request that no process made */
	belongs_to(ACT_AS(&zero, make()), 0, 0);
}

static int try_to_read(const char *name)
{
	int fd = openat(dir, name, O_RDONLY);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static void permission_is_of_whom_the_call_names(void **state)
{
	const struct caller a = {.uid = 1001, .gid = 1002, .pid = 0};

	(void)state;
	make_file(dir, "roots", "x");
	assert_int_equal(fchmodat(dir, "roots", 0600, 0), 0);
	assert_int_equal(ACT(as, &a, try_to_read("roots")), -EACCES);
	assert_int_equal(ACT(for, &a, try_to_read("roots")), 0);
	assert_int_equal(ACT(owner, &a, try_to_read("roots")), 0); /* then as the daemon */
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

static void make_for_group(const char *name)
{
	make_file(dir, name, "x");
	assert_int_equal(fchownat(dir, name, 0, 4242, 0), 0);
	assert_int_equal(fchmodat(dir, name, 0640, 0), 0);
}

static void groups_are_added_when_needed(void **state)
{
	int hold;
	pid_t pid = start_member(1001, 1002, 4242, &hold);
	const struct caller member = {.uid = 1001, .gid = 1002, .pid = pid},
			    nobody = {.uid = 1001, .gid = 1002, .pid = 0},
			    wrong_uid = {.uid = 1009, .gid = 1002, .pid = pid},
			    wrong_gid = {.uid = 1001, .gid = 1009, .pid = pid};

	(void)state;
	make_for_group("groups");
	assert_int_equal(ACT(as, &nobody, try_to_read("groups")), -EACCES);
	assert_int_equal(ACT(as, &wrong_uid, try_to_read("groups")), -EACCES);
	assert_int_equal(ACT(as, &wrong_gid, try_to_read("groups")), -EACCES);
	assert_int_equal(ACT(as, &member, try_to_read("groups")), 0);
	/* They do not stay for whoever comes next. */
	assert_int_equal(ACT(as, &nobody, try_to_read("groups")), -EACCES);
	assert_int_equal(ACT(as, &member, try_to_read("groups")), 0);
	assert_int_equal(ACT(as, &wrong_uid, try_to_read("groups")), -EACCES);
	belongs_to(ACT(as, &member, make()), 1001, 1002);
	close(hold);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	/* What the process made is worked on after its end, too. */
	assert_int_equal(ACT(as, &member, try_to_read("groups")), 0);
}

/* Where a refusal would not be seen: without them a directory's set-group-ID bit is dropped. */
static void groups_are_there_from_the_start_if_asked_for(void **state)
{
	int hold;
	pid_t pid = start_member(1001, 1002, 4242, &hold);
	struct caller member = {.uid = 1001, .gid = 1002, .pid = pid},
		      nobody = {.uid = 1001, .gid = 1002, .pid = 0};
	struct who with = who_as(&member), without = who_as(&nobody);

	(void)state;
	with.groups = without.groups = true;
	assert_int_equal(ACT_AS(&with, getgroups(0, NULL)), 1);
	assert_int_equal(ACT_AS(&without, getgroups(0, NULL)), 0);
	belongs_to(ACT_AS(&without, make()), 1001, 1002);
	thread_is_the_daemon();
	close(hold);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void what_the_daemon_is_refused_is_done_on_behalf(void **state)
{
	int hold;
	pid_t pid = start_member(1001, 1002, 4242, &hold);
	const struct caller member = {.uid = 1001, .gid = 1002, .pid = pid},
			    other = {.uid = 1005, .gid = 1006, .pid = 0},
			    root = {.uid = 0, .gid = 0, .pid = 0};

	(void)state;
	assert_int_equal(ACT(for, NULL, only_for(1001)), -EACCES);
	assert_int_equal(ACT(for, &root, only_for(1001)), -EACCES);
	assert_int_equal(ACT(for, &member, only_for(1001)), 1001);
	assert_int_equal(ACT(for, &member, only_for(0)), 0);
	assert_int_equal(ACT(for, &member, only_for(1005)), -EACCES);
	assert_int_equal(ACT(for, &member, only_with_groups()), 1);
	/* A caller never is the daemon. */
	assert_int_equal(ACT(as, &other, only_for(0)), -EACCES);
	assert_int_equal(ACT(owner, &other, only_for(0)), 0);
	/* Its groups serve also when it has ended, if they were needed before. */
	close(hold);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(ACT(for, &member, only_with_groups()), 1);
	assert_int_equal(ACT(for, &other, only_for(1001)), -EACCES);
	assert_int_equal(ACT(for, &other, only_with_groups()), -EACCES);
}

/* A program's call is made once, if nothing but its result can be told. */
static int count_refused(int *calls, int err)
{
	(*calls)++;
	return err;
}

static void only_a_refusal_is_tried_again(void **state)
{
	const struct caller a = {.uid = 1001, .gid = 1002, .pid = 0};
	int calls = 0;

	(void)state;
	assert_int_equal(ACT(for, &a, count_refused(&calls, -ENOENT)), -ENOENT);
	assert_int_equal(calls, 1);
	assert_int_equal(ACT(as, &a, count_refused(&calls, -EPERM)), -EPERM);
	assert_int_equal(calls, 2); /* it has no groups */
	assert_int_equal(ACT(for, NULL, count_refused(&calls, -EPERM)), -EPERM);
	assert_int_equal(calls, 3);
	assert_int_equal(ACT(for, &a, count_refused(&calls, -EPERM)), -EPERM);
	assert_int_equal(calls, 5);
	assert_int_equal(ACT(owner, &a, count_refused(&calls, -EACCES)), -EACCES);
	assert_int_equal(calls, 7);
}

static void *in_new_thread(void *arg)
{
	const struct caller *c = arg;

	thread_is_the_daemon();
	belongs_to(ACT(as, c, make()), c->uid, c->gid);
	assert_int_equal(ACT(as, c, try_to_read("for-members")), -EACCES);
	return NULL;
}

static void threads_start_as_the_daemon(void **state)
{
	int hold;
	pid_t pid = start_member(1001, 1002, 4242, &hold);
	struct caller member = {.uid = 1001, .gid = 1002, .pid = pid},
		      same_without = {.uid = 1001, .gid = 1002, .pid = 0},
		      other = {.uid = 1005, .gid = 1006, .pid = 0};
	struct caller *const next[] = {&same_without, &other};
	pthread_t thread;
	size_t i;

	(void)state;
	make_for_group("for-members");
	for (i = 0; i < 2; i++) {
		assert_int_equal(ACT(as, &member, try_to_read("for-members")), 0);
		assert_int_equal(pthread_create(&thread, NULL, in_new_thread, next[i]), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
	}
	close(hold);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static mode_t made_with(mode_t mode, mode_t mask, const char *name)
{
	struct who who = who_for(NULL);
	mode_t before;
	struct stat st;
	int fd;

	who.umask = mask;
	mode = creds_mask(&who, mode, &before);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL, mode);
	creds_unmask(before);
	assert_int_equal(umask(022), 022);
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
		cmocka_unit_test(files_belong_to_whom_the_call_names),
		cmocka_unit_test(permission_is_of_whom_the_call_names),
		cmocka_unit_test(groups_are_added_when_needed),
		cmocka_unit_test(groups_are_there_from_the_start_if_asked_for),
		cmocka_unit_test(what_the_daemon_is_refused_is_done_on_behalf),
		cmocka_unit_test(only_a_refusal_is_tried_again),
		cmocka_unit_test(threads_start_as_the_daemon),
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
