/* SPDX-License-Identifier: MIT */
#include "engine/capture/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

int handover_listen(const char *path, dev_t dev, const char *name)
{
	__cleanup_fd int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct stat st;

	if (dir < 0 || fstat(dir, &st))
		return -errno;
	if (st.st_dev != dev)
		return -ENOENT; /* another filesystem is mounted over it */
	/* The path of a mount may be too long for an address. */
	snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d/%s", dir, name);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 1))
		return -errno;
	return take_fd(&fd);
}

static int send_fd(int to, int fd)
{
	char byte = 0;
	struct iovec iov = {&byte, 1};
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	return sendmsg(to, &m, MSG_NOSIGNAL) == 1 ? 0 : -errno;
}

/* A pidfd of the process at the other end, also if its id has no meaning here. */
static int peer_pidfd(int connection, pid_t pid)
{
	int pidfd = -1;
	socklen_t len = sizeof(pidfd);

	if (!getsockopt(connection, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len))
		return pidfd;
	pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1; /* before kernel 6.5 */
	return pidfd >= 0 ? pidfd : pid > 0 ? -errno : -ESRCH;
}

/*
 * The next connection of a process of @uid, with its id in *@pid; others are refused. -ETIMEDOUT:
 * there was none until @until_ns.
 */
static int accept_from(int listening, uid_t uid, uint64_t until_ns, pid_t *pid)
{
	struct pollfd ready = {listening, POLLIN, 0};

	for (;;) {
		uint64_t now = clock_mono_ns();
		int wait_ms = now < until_ns ? (int)((until_ns - now) / NSEC_PER_MSEC) + 1 : 0;
		int nr = poll(&ready, 1, wait_ms);
		struct ucred peer = {.uid = (uid_t)-1};
		socklen_t len = sizeof(peer);

		if (nr <= 0)
			return nr < 0 ? -errno : -ETIMEDOUT;
		__cleanup_fd int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			return -errno;
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) || peer.uid != uid)
			continue;
		*pid = peer.pid;
		return take_fd(&fd);
	}
}

int handover_give(int listening, uid_t uid, int fd, int wait_ms, pid_t *pid)
{
	uint64_t until = clock_mono_ns() + (uint64_t)wait_ms * NSEC_PER_MSEC;
	__cleanup_fd int connection = accept_from(listening, uid, until, pid), pidfd = -1;
	int err;

	if (connection < 0)
		return connection;
	pidfd = peer_pidfd(connection, *pid);
	if (pidfd < 0)
		return pidfd;
	err = send_fd(connection, fd);
	return err ? err : take_fd(&pidfd);
}
