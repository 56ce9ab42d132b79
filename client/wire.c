/* SPDX-License-Identifier: MIT */
#include "client/wire.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#define RECEIVE_S 10 /* the daemon waits as long for the connection */

static int wire_ioctl(int fd, unsigned long request, void *arg)
{
	return ioctl(fd, request, arg) < 0 ? -errno : 0;
}

static long mount_id_of(int fd)
{
	char path[64], line[128];
	long id = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	if (!f)
		return -1;
	while (id < 0 && fgets(line, sizeof(line), f))
		sscanf(line, "mnt_id: %ld", &id);
	fclose(f);
	return id;
}

/* All filesystems of FUSE have one magic; only the table of mounts says which one this is. */
static bool wire_is_ckptfs(int fd)
{
	long wanted, id;
	bool is = false;
	struct statfs st;
	char *line = NULL;
	size_t size = 0;
	FILE *f;

	if (fstatfs(fd, &st) || st.f_type != FUSE_SUPER_MAGIC)
		return false;
	wanted = mount_id_of(fd);
	f = wanted < 0 ? NULL : fopen("/proc/self/mountinfo", "re");
	while (f && getline(&line, &size, f) > 0) {
		const char *type = strstr(line, " - ");

		if (sscanf(line, "%ld", &id) == 1 && id == wanted && type)
			is = !strncmp(type + 3, CKPTFS_FSTYPE " ", sizeof(CKPTFS_FSTYPE));
	}
	free(line);
	if (f)
		fclose(f);
	return is;
}

static const struct ckpt_wire system_wire = {.ioctl = wire_ioctl, .is_ckptfs = wire_is_ckptfs};

const struct ckpt_wire *ckpt_wire = &system_wire;

/* By way of /proc: the path of a mount may be too long for the address of a socket. */
static int connect_to(int dir, const char *name, int type)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct timeval limit = {.tv_sec = RECEIVE_S};
	int fd, err;

	if (snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/%s", dir, name) >=
	    (int)sizeof(a.sun_path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (!connect(fd, (struct sockaddr *)&a, sizeof(a)))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static int receive_fd(int socket)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c;
	ssize_t n;
	int fd;

	do
		n = recvmsg(socket, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	c = CMSG_FIRSTHDR(&m);
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
	    c->cmsg_len != CMSG_LEN(sizeof(int)))
		return -EPROTO;
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

int ckpt_wire_receive(int dir, const char *name)
{
	int socket = connect_to(dir, name, SOCK_STREAM), fd;

	if (socket == -EPROTOTYPE)
		socket = connect_to(dir, name, SOCK_SEQPACKET);
	if (socket < 0)
		return socket;
	fd = receive_fd(socket);
	close(socket);
	return fd;
}
