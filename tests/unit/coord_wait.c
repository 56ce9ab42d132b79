/* SPDX-License-Identifier: MIT */
/*
 * Waiting for a record, leases, kinds with numbers, and whether a backing is fit for all of that.
 */
#include "tests/unit/crash.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include "engine/base/clock.h"
#include "engine/coord/coord.h"
#include "engine/format/format.h"
#include "tests/backing/faults.h"

#define GEN  "0123456789abcdef0123456789abcdef"
#define NODE "fedcba9876543210fedcba9876543210"

static struct caller me;
static struct faults *faults;
static char first[COORD_TEXT_MAX], message_log[PATH_MAX];
static size_t first_len;

static int setup_tree(void **state)
{
	struct error e;

	setup(state);
	me = (struct caller){.uid = geteuid(), .gid = getegid(), .pid = 0};
	faults = NULL;
	return format_init(top, "here", &e);
}

static int teardown_tree(void **state)
{
	if (faults)
		faults_detach(faults);
	return teardown(state);
}

static int record(const char *kind, const char *text)
{
	return coord_dir_ops.record(&b, &me, GEN, kind, text, strlen(text), first, &first_len);
}

/* --- kinds --- */

static void kinds_have_numbers(void **state)
{
	static const char *const good[] = {"name",
					   "open",
					   "prepare",
					   "next",
					   "decision",
					   "log.0.0",
					   "log.0.9999999999",
					   "log.1.17",
					   "log.7.3",
					   "log.1234567890.1234567890"};
	static const char *const bad[] = {
		"",	    "log",	"log.",	    "log.1",	 "log.1.",
		"log.01.1", "log.1.01", "log.-1.1", "log.1.2.3", "log.12345678901.1",
		"log.1.1x", "join.1",	"Log.1.2",  "open.1",	 "logs.1.2"};
	char buf[8];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(good); i++)
		if (!coord_kind_ok(good[i]) || record(good[i], good[i]) != 1)
			fail_msg("%s", good[i]);
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		if (coord_kind_ok(bad[i]) || record(bad[i], "x") != -EINVAL ||
		    coord_dir_ops.read(&b, me.uid, GEN, bad[i], buf, sizeof(buf)) != -EINVAL)
			fail_msg("%s", bad[i]);
	assert_int_equal(coord_dir_ops.forget(&b, &me, GEN), 0);
	for (i = 0; i < ARRAY_SIZE(good); i++)
		assert_int_equal(coord_dir_ops.read(&b, me.uid, GEN, good[i], buf, sizeof(buf)),
				 -ENOENT);
}

static bool stands(struct backing *at, const char *kind)
{
	char buf[64];

	return coord_dir_ops.read(at, me.uid, GEN, kind, buf, sizeof(buf)) >= 0;
}

/* Who joins, and then finds that `open` stands, is not forgotten; and who is, is decided. */
static int open_goes_first(void *arg, const struct crash_state *s)
{
	struct backing *at = s->backing;
	bool open, rest, decision;

	(void)arg;
	open = stands(at, "open");
	rest = stands(at, "log.0.1") && stands(at, "log.1.1") && stands(at, "log.1.2");
	decision = stands(at, "decision");
	return (open && !rest) || (rest && !decision);
}

static void a_crash_while_forgetting_leaves_none_open(void **state)
{
	static const char *const all[] = {"open", "log.0.1", "log.1.1", "log.1.2", "decision"};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(all); i++)
		assert_int_equal(record(all[i], "x"), 1);
	r = record_start(&b);
	assert_int_equal(coord_dir_ops.forget(&b, &me, GEN), 0);
	assert_never_caught(open_goes_first, NULL);
	assert_true(report.checked > 5);
}

/* --- waiting --- */

static struct coord_key keys[] = {{.gen = GEN, .kind = "log.0.7"},
				  {.gen = GEN, .kind = "decision"}};

static int wait_until_s(int wake, unsigned seconds)
{
	keys[0].owner = keys[1].owner = me.uid;
	return coord_dir_ops.wait(&b, keys, 2, wake, clock_mono_ns() + seconds * NSEC_PER_SEC);
}

static void *record_decision(void *arg)
{
	(void)arg;
	while (record("decision", "abort") < 0)
		;
	return NULL;
}

static void one_of_them_is_enough(void **state)
{
	pthread_t thread;

	(void)state;
	assert_int_equal(wait_until_s(-1, 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, record_decision, NULL), 0);
	assert_int_equal(wait_until_s(-1, 3600), 1);
	pthread_join(thread, NULL);
	assert_int_equal(wait_until_s(-1, 0), 1); /* it was there before */
	keys[0].kind[0] = 'x';
	assert_int_equal(wait_until_s(-1, 0), -EINVAL);
	keys[0].kind[0] = 'l';
}

static void *wake(void *arg)
{
	eventfd_write(*(int *)arg, 1);
	return NULL;
}

static void who_waits_can_be_woken(void **state)
{
	int fd = eventfd(0, EFD_CLOEXEC);
	pthread_t thread;

	(void)state;
	assert_int_equal(record("open", "o"), 1);
	assert_int_equal(pthread_create(&thread, NULL, wake, &fd), 0);
	assert_int_equal(wait_until_s(fd, 3600), 0);
	pthread_join(thread, NULL);
	close(fd);
}

/* What is not to be believed is there: who reads it is told. */
static void what_is_not_believed_is_no_reason_to_wait(void **state)
{
	char path[256];

	(void)state;
	assert_int_equal(record("open", "o"), 1);
	snprintf(path, sizeof(path), ".ckptfs/txn/%u", (unsigned)me.uid);
	assert_int_equal(fchmodat(top, path, 0777, 0), 0);
	assert_int_equal(wait_until_s(-1, 3600), 1);
}

/* How often message @id was given. */
static unsigned said(const char *id)
{
	FILE *f = fopen(message_log, "r");
	char line[256];
	unsigned nr = 0;

	while (f && fgets(line, sizeof(line), f))
		nr += !strncmp(line, id, strlen(id)) && line[strlen(id)] == '\n';
	if (f)
		fclose(f);
	return nr;
}

static void an_outage_is_told_once(void **state)
{
	unsigned outages = said("COORD_OUTAGE"), ends = said("COORD_OUTAGE_OVER");

	(void)state;
	assert_int_equal(record("open", "o"), 1);
	faults = faults_attach(&b);
	faults_add(faults, &(struct fault){.calls = CALL_OPEN, .err = EIO});
	assert_int_equal(wait_until_s(-1, 3600), -EIO);
	assert_int_equal(wait_until_s(-1, 3600), -EIO);
	assert_int_equal(said("COORD_OUTAGE"), outages + 1);
	assert_int_equal(said("COORD_OUTAGE_OVER"), ends);
	faults_clear(faults);
	assert_int_equal(wait_until_s(-1, 0), 0);
	assert_int_equal(said("COORD_OUTAGE"), outages + 1);
	assert_int_equal(said("COORD_OUTAGE_OVER"), ends + 1);
}

/* --- leases --- */

static bool lease_is(const char *text)
{
	char buf[COORD_LEASE_MAX];
	ssize_t n = coord_dir_ops.lease_read(&b, NODE, buf, sizeof(buf));

	return n == (ssize_t)strlen(text) && !memcmp(buf, text, (size_t)n);
}

static int lease(const char *text)
{
	return coord_dir_ops.lease(&b, NODE, text, strlen(text));
}

static int lease_err(void)
{
	char buf[COORD_LEASE_MAX];

	return (int)coord_dir_ops.lease_read(&b, NODE, buf, sizeof(buf));
}

static int found(void *arg, const char *node)
{
	assert_string_equal(node, NODE);
	++*(int *)arg;
	return 0;
}

static void a_lease_is_rewritten_in_place(void **state)
{
	struct stat a, c;
	int nr = 0;

	(void)state;
	assert_int_equal(lease_err(), -ENOENT);
	assert_int_equal(lease("a longer text, number 1"), 0);
	assert_int_equal(fstatat(top, ".ckptfs/nodes/" NODE, &a, 0), 0);
	assert_true(lease_is("a longer text, number 1"));
	assert_int_equal(lease("shorter"), 0);
	assert_true(lease_is("shorter"));
	assert_int_equal(fstatat(top, ".ckptfs/nodes/" NODE, &c, 0), 0);
	assert_int_equal(a.st_ino, c.st_ino);
	assert_int_equal(a.st_size, c.st_size);
	assert_int_equal(mkdirat(top, ".ckptfs/nodes/other", 0700), 0);
	assert_int_equal(coord_dir_ops.lease_list(&b, found, &nr), 0);
	assert_int_equal(nr, 1);
	assert_int_equal(unlinkat(top, ".ckptfs/nodes/" NODE, 0), 0);
	assert_int_equal(lease("again"), 0); /* somebody took it for dead */
	assert_true(lease_is("again"));
	assert_int_equal(coord_dir_ops.lease_end(&b, NODE), 0);
	assert_int_equal(lease_err(), -ENOENT);
	assert_int_equal(coord_dir_ops.lease_end(&b, NODE), 0);
	assert_int_equal(coord_dir_ops.lease(&b, "../../x", "t", 1), -EINVAL);
	assert_int_equal(coord_dir_ops.lease(&b, NODE, "t ", 2), -EINVAL);
}

static void what_is_no_lease_is_not_believed(void **state)
{
	(void)state;
	assert_int_equal(mkfifoat(top, ".ckptfs/nodes/" NODE, 0600), 0);
	assert_int_equal(lease_err(), -EPERM);
	assert_int_equal(unlinkat(top, ".ckptfs/nodes/" NODE, 0), 0);
	if (geteuid())
		return;
	assert_int_equal(lease("mine"), 0);
	assert_int_equal(fchownat(top, ".ckptfs/nodes/" NODE, 1234, 1234, 0), 0);
	assert_int_equal(lease_err(), -EPERM);
	assert_int_equal(fchownat(top, "", 1234, 1234, AT_EMPTY_PATH),
			 0); /* whose the backing is */
	assert_true(lease_is("mine"));
}

/* --- is it fit? --- */

static const char *unfit(void)
{
	static char why[COORD_WHY_MAX];
	int err = coord_dir_test(&b, -1, why);
	struct stat st;

	if (err < 0)
		snprintf(why, sizeof(why), "%s", strerror(-err));
	assert_int_equal(err == 0, !*why);
	assert_int_equal(fstatat(top, ".ckptfs/nodes", &st, 0), 0);
	assert_int_equal(st.st_nlink, 2);
	return why;
}

static void a_local_directory_is_fit(void **state)
{
	DIR *d;

	(void)state;
	assert_string_equal(unfit(), "");
	d = fdopendir(openat(top, ".ckptfs/nodes", O_RDONLY | O_DIRECTORY));
	assert_non_null(d);
	while (readdir(d))
		assert_true(telldir(d) >= 0);
	rewinddir(d);
	assert_non_null(readdir(d));
	assert_non_null(readdir(d));
	assert_null(readdir(d)); /* nothing is left behind */
	closedir(d);
}

static void one_without_links_is_not(void **state)
{
	(void)state;
	faults = faults_attach(&b);
	faults_add(faults, &(struct fault){.calls = CALL_LINK, .err = EOPNOTSUPP});
	assert_contains(unfit(), "no hard links");
}

static void one_that_links_twice_is_not(void **state)
{
	(void)state;
	faults = faults_attach(&b);
	faults_add(faults, &(struct fault){.calls = CALL_LINK, .skip = 1, .err = EIO});
	assert_contains(unfit(), "where the name is taken");
}

static void one_whose_directories_cannot_be_synced_is_not(void **state)
{
	(void)state;
	faults = faults_attach(&b);
	faults_add(faults, &(struct fault){.calls = CALL_SYNC_DIR, .err = EINVAL});
	assert_contains(unfit(), "a directory cannot be synced");
}

static void one_that_finds_nothing_is_not(void **state)
{
	(void)state;
	faults = faults_attach(&b);
	faults_add(faults, &(struct fault){.calls = CALL_OPEN, .skip = 1, .err = ENOENT});
	assert_contains(unfit(), "is not found");
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup_tree, teardown_tree)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(kinds_have_numbers),
		T(a_crash_while_forgetting_leaves_none_open),
		T(one_of_them_is_enough),
		T(who_waits_can_be_woken),
		T(what_is_not_believed_is_no_reason_to_wait),
		T(an_outage_is_told_once),
		T(a_lease_is_rewritten_in_place),
		T(what_is_no_lease_is_not_believed),
		T(a_local_directory_is_fit),
		T(one_without_links_is_not),
		T(one_that_links_twice_is_not),
		T(one_whose_directories_cannot_be_synced_is_not),
		T(one_that_finds_nothing_is_not),
	};
	const char *log = getenv("CKPTFS_MESSAGE_LOG");

	umask(0);
	if (!log)
		setenv("CKPTFS_MESSAGE_LOG", "messages.log", 1);
	snprintf(message_log, sizeof(message_log), "%s", getenv("CKPTFS_MESSAGE_LOG"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
