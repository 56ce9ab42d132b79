/* SPDX-License-Identifier: MIT */
/* The log's datagrams: what they say, and that nobody who does not read them holds up who logs. */
#include "tests/unit/unit.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "engine/base/log.h"

#define MANY 3000 /* more than a socket's queue takes */

static char path[PATH_MAX];

static int listen_log(void)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	assert_true(strlen(path) < sizeof(sa.sun_path));
	memcpy(sa.sun_path, path, strlen(path));
	unlink(path);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

static int setup(void **state)
{
	scratch_dir(path);
	snprintf(path + strlen(path), sizeof(path) - strlen(path), "/log");
	setenv("CKPTFS_LOG_SOCKET", path, 1);
	log_to_syslog();
	(void)state;
	return 0;
}

/* The next message, NULL when there is none. */
static const char *next(int fd)
{
	static char buf[8192];
	ssize_t n = recv(fd, buf, sizeof(buf) - 1, 0);

	buf[n > 0 ? n : 0] = '\0';
	return n < 0 ? NULL : buf;
}

static void assert_next(int fd, int priority, const char *text)
{
	char wanted[8192];
	const char *got = next(fd);

	snprintf(wanted, sizeof(wanted), "<%d>ckptfs[%d]: %s", priority, (int)getpid(), text);
	assert_non_null(got);
	assert_string_equal(got, wanted);
}

static void messages_have_their_form(void **state)
{
	static char longest[10000];
	const char *got;
	int fd = listen_log();

	(void)state;
	log_error("it is %d", 5);
	log_warn("beware");
	log_info("100%% of %s", "%s");
	log_debug("not said at this level");
	assert_next(fd, 27, "it is 5 (3 messages were lost)"); /* by the test before this */
	assert_next(fd, 28, "beware");
	assert_next(fd, 30, "100% of %s");
	assert_null(next(fd));
	memset(longest, 'x', sizeof(longest) - 1);
	log_info("%s", longest);
	got = next(fd);
	assert_non_null(got);
	assert_true(strlen(got) > 4000);
	close(fd);
}

static void messages_to_nobody_are_counted(void **state)
{
	int fds = count_fds();

	(void)state;
	log_info("a");
	log_info("b");
	log_info("c");
	assert_int_equal(count_fds(), fds);
}

static void a_full_queue_holds_nobody_up(void **state)
{
	char told[64];
	int fd = listen_log(), i, nr = 0;

	(void)state;
	alarm(60); /* else this hangs */
	for (i = 0; i < MANY; i++)
		log_info("message %d", i);
	alarm(0);
	while (next(fd))
		nr++;
	assert_true(nr > 0 && nr < MANY);
	log_info("again");
	log_info("and again");
	snprintf(told, sizeof(told), "again (%d messages were lost)", MANY - nr);
	assert_next(fd, 30, told);
	assert_next(fd, 30, "and again");
	close(fd);
}

static void a_new_reader_is_found(void **state)
{
	int fd = listen_log();

	(void)state;
	log_info("one");
	assert_next(fd, 30, "one");
	close(fd);
	log_info("nobody reads this");
	fd = listen_log();
	log_info("two");
	assert_next(fd, 30, "two (1 messages were lost)");
	close(fd);
	fd = listen_log();
	log_info("three");
	assert_next(fd, 30, "three");
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_to_nobody_are_counted),
		cmocka_unit_test(messages_have_their_form),
		cmocka_unit_test(a_full_queue_holds_nobody_up),
		cmocka_unit_test(a_new_reader_is_found),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
