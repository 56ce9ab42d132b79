/* SPDX-License-Identifier: MIT */
/*
 * The daemon polls the device for a moment before it sleeps there. After it has polled in vain it
 * sleeps at once for a number of requests, and then polls again.
 */
#include "tests/unit/unit.h"

#include <linux/fuse.h>
#include <poll.h>
#include <unistd.h>

#include "fs/receive.h"

#define REQUEST_BYTES 1024

static struct receiver rc;
static int device[2];
static bool ready;     /* polling finds a request */
static unsigned looks; /* polls that did not sleep */

/* In place of libc's, also for receive.c. */
int poll(struct pollfd *p, nfds_t nr, int timeout)
{
	assert_int_equal(nr, 1);
	if (!timeout)
		looks++;
	p->revents = timeout || ready ? POLLIN : 0;
	return timeout || ready;
}

static int setup(void **state)
{
	(void)state;
	assert_int_equal(pipe(device), 0);
	receiver_init(&rc, REQUEST_BYTES);
	rc.fd = device[0];
	rc.may_spin = true;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	receiver_finish(&rc);
	close(device[0]);
	close(device[1]);
	return 0;
}

/* Receives one request. True if the daemon polled before. */
static bool polled(bool found)
{
	struct fuse_in_header in = {.len = sizeof(in), .opcode = FUSE_STATFS};
	struct content_landing l;
	char mem[4096];

	ready = found;
	looks = 0;
	assert_int_equal(write(device[1], &in, sizeof(in)), sizeof(in));
	assert_int_equal(receive(&rc, mem, sizeof(mem), true, &l), sizeof(in));
	return looks;
}

static void polling_goes_on_while_it_finds_requests(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 100; i++)
		assert_true(polled(true));
}

static void the_daemon_sleeps_at_once_after_it_polled_in_vain(void **state)
{
	int slept = 0;

	(void)state;
	assert_true(polled(false));
	while (!polled(true))
		slept++;
	assert_in_range(slept, 8, 128);
	assert_true(polled(true));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(polling_goes_on_while_it_finds_requests, setup,
						teardown),
		cmocka_unit_test_setup_teardown(the_daemon_sleeps_at_once_after_it_polled_in_vain,
						setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
