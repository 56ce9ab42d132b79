/* SPDX-License-Identifier: MIT */
/* Whatever is sent to the control socket: one line of JSON comes back, or nothing. */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/metrics/failures.h"
#include "fs/control_socket.h"

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static socklen_t address_len = sizeof(address.sun_family); /* the kernel finds a name */

static int refuse_umount(struct fs *fs, struct error *e)
{
	return FAIL(e, EBUSY, UMOUNT_BUSY, fs->mountpoint, " by a \xff test");
}

/* A daemon without a mount. */
static bool start(void)
{
	static struct features features;
	static struct engine en;
	static struct fs fs;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	config_init(&en.config);
	en.failures = failures_create();
	en.notices = failures_create();
	en.backing.path = strdup("/backing\xff");
	en.backing.features = &features;
	failures_add(en.failures, 7, "open", "a\xff", EIO, "broken \xff");
	fs = (struct fs){.engine = &en, .mountpoint = "/mnt\xff", .label = "n1"};
	fs.requests = requests_create(&fs);
	REQUIRE(en.failures && en.notices && fs.requests);
	REQUIRE(!bind(fd, (struct sockaddr *)&address, address_len) && !listen(fd, 64));
	address_len = sizeof(address);
	REQUIRE(!getsockname(fd, (struct sockaddr *)&address, &address_len));
	REQUIRE(control_start(&fs, fd, refuse_umount));
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char answer[1 << 16];
	static bool started;
	size_t len = 0;
	ssize_t n;
	int fd;

	if (!started)
		started = start();
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	REQUIRE(fd >= 0 && !connect(fd, (struct sockaddr *)&address, address_len));
	/* The daemon may have answered, and closed, before it was sent everything. */
	n = send(fd, data, size, MSG_NOSIGNAL);
	REQUIRE(n == (ssize_t)size || errno == EPIPE || errno == ECONNRESET);
	shutdown(fd, SHUT_WR);
	/* What it did not read makes its close a reset, behind the answer. */
	while ((n = recv(fd, answer + len, sizeof(answer) - len, 0)) > 0)
		len += (size_t)n;
	if (len) {
		json_t *value = json_loadb(answer, len, 0, NULL);

		REQUIRE(answer[len - 1] == '\n' && json_is_object(value));
		json_decref(value);
	}
	close(fd);
	return 0;
}
