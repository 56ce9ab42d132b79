/* SPDX-License-Identifier: MIT */
#include "fs/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/cleanup.h"

/* The n-th possible run directory of @uid; "": it does not apply. False: behind the last. */
static bool candidate(int n, uid_t uid, char out[RUNDIR_PATH_MAX])
{
	const char *given = getenv("CKPTFS_RUN_DIR"), *xdg = getenv("XDG_RUNTIME_DIR");

	switch (n) {
	case 0:
		snprintf(out, RUNDIR_PATH_MAX, "%s", given ? given : "");
		return true;
	case 1:
		snprintf(out, RUNDIR_PATH_MAX, "%s", uid == 0 ? "/run/ckptfs" : "");
		return true;
	case 2:
		snprintf(out, RUNDIR_PATH_MAX, "%s%s", xdg && uid && uid == geteuid() ? xdg : "",
			 xdg && uid && uid == geteuid() ? "/ckptfs" : "");
		return true;
	case 3:
		snprintf(out, RUNDIR_PATH_MAX, "/run/user/%u/ckptfs", uid);
		return true;
	case 4:
		snprintf(out, RUNDIR_PATH_MAX, "/tmp/ckptfs-%u", uid);
		return true;
	default:
		return false;
	}
}

int rundir_make(char out[RUNDIR_PATH_MAX], struct error *e)
{
	struct stat st;
	int n = 0;

	while (candidate(n, geteuid(), out) && (!*out || n == 3))
		n++;
	if (strlen(out) + sizeof("/4095-1048575.sock") >
	    sizeof(((struct sockaddr_un *)0)->sun_path))
		return FAIL(e, ENAMETOOLONG, RUN_DIR, out,
			    "its path is too long for a unix socket");
	if (mkdir(out, 0755) && errno != EEXIST)
		return FAIL(e, errno, RUN_DIR, out, strerror(errno));
	if (lstat(out, &st))
		return FAIL(e, errno, RUN_DIR, out, strerror(errno));
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022)
		return FAIL(e, EPERM, RUN_DIR, out,
			    "it is not a directory that only its owner, you, may write");
	return 0;
}

/* 0 with *fd locked. -EBUSY: another process holds it. Else -errno. */
static int try_label(const char *dir, const char *label, int *fd)
{
	char path[PATH_MAX];
	struct stat by_path, by_fd;

	snprintf(path, sizeof(path), "%s/node-%s.lock", dir, label);
	*fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (*fd < 0)
		return -errno;
	/* The holder removes the file at its end: then this file has no name any more. */
	if (!flock(*fd, LOCK_EX | LOCK_NB) && !fstat(*fd, &by_fd) && !stat(path, &by_path) &&
	    by_fd.st_ino == by_path.st_ino)
		return 0;
	close(take_fd(fd));
	return -EBUSY;
}

int rundir_take_label(const char *dir, const char *wanted, char label[128], int *lock_fd,
		      struct error *e)
{
	char host[65] = "localhost";
	int n, err;

	if (*wanted) {
		snprintf(label, 128, "%s", wanted);
		err = try_label(dir, label, lock_fd);
		return err ? FAIL(e, -err, LABEL_IN_USE, label) : 0;
	}
	gethostname(host, sizeof(host) - 1);
	for (n = 1; n < 10000; n++) {
		snprintf(label, 128, n == 1 ? "%s" : "%s-%d", host, n);
		err = try_label(dir, label, lock_fd);
		if (err != -EBUSY)
			return err ? FAIL(e, -err, RUN_DIR, dir, strerror(-err)) : 0;
	}
	return FAIL(e, EBUSY, LABEL_IN_USE, host);
}

void rundir_drop_label(const char *dir, const char *label, int lock_fd)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/node-%s.lock", dir, label);
	unlink(path);
	close(lock_fd);
}

static int socket_address(const char *dir, unsigned major, unsigned minor, struct sockaddr_un *sa)
{
	int n;

	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	n = snprintf(sa->sun_path, sizeof(sa->sun_path), "%s/%u-%u.sock", dir, major, minor);
	return n < (int)sizeof(sa->sun_path) ? 0 : -ENAMETOOLONG;
}

static int try_connect(const char *dir, unsigned major, unsigned minor)
{
	struct sockaddr_un sa;
	__cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int err = socket_address(dir, major, minor, &sa);

	if (fd < 0)
		return -errno;
	/* EAGAIN: the queue is full. So a daemon exists, but does not answer. */
	if (!err && connect(fd, (struct sockaddr *)&sa, sizeof(sa)))
		err = errno == EAGAIN ? -ETIMEDOUT : -errno;
	if (!err)
		fcntl(fd, F_SETFL, 0);
	return err ? err : take_fd(&fd);
}

static void remove_socket(const char *dir, unsigned major, unsigned minor)
{
	struct sockaddr_un sa;

	if (!socket_address(dir, major, minor, &sa))
		unlink(sa.sun_path);
}

static void remove_dead_sockets(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *entry;

	while (d && (entry = readdir(d))) {
		unsigned major, minor;
		int fd, end = 0;

		if (sscanf(entry->d_name, "%u-%u.sock%n", &major, &minor, &end) != 2 || !end ||
		    entry->d_name[end])
			continue;
		fd = try_connect(dir, major, minor);
		if (fd >= 0)
			close(fd);
		else if (fd == -ECONNREFUSED)
			remove_socket(dir, major, minor);
	}
	if (d)
		closedir(d);
}

int rundir_listen(const char *dir, unsigned major, unsigned minor, ino_t *ino, struct error *e)
{
	struct sockaddr_un sa;
	struct stat st;
	__cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int err = socket_address(dir, major, minor, &sa);
	char name[sizeof(sa.sun_path)];

	if (err)
		return FAIL(e, -err, RUN_DIR, dir, "its path is too long for a unix socket");
	remove_dead_sockets(dir);
	strcpy(name, sa.sun_path);
	/* Gets its name only when it listens: before, it would look like a dead daemon's. */
	sa.sun_path[strlen(sa.sun_path) - 1] = '_';
	unlink(sa.sun_path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) || chmod(sa.sun_path, 0666) ||
	    listen(fd, 64) || stat(sa.sun_path, &st) || rename(sa.sun_path, name))
		return FAIL(e, errno, RUN_DIR, dir, strerror(errno));
	*ino = st.st_ino;
	return take_fd(&fd);
}

void rundir_unlisten(const char *dir, unsigned major, unsigned minor, ino_t ino)
{
	struct sockaddr_un sa;
	struct stat st;

	if (!socket_address(dir, major, minor, &sa) && !stat(sa.sun_path, &st) && st.st_ino == ino)
		unlink(sa.sun_path);
}

int rundir_connect(uid_t owner, unsigned major, unsigned minor)
{
	char dir[RUNDIR_PATH_MAX];
	int n, fd, err = -ENOENT;

	for (n = 0; candidate(n, owner, dir); n++) {
		struct ucred peer;
		socklen_t len = sizeof(peer);

		if (!*dir)
			continue;
		fd = try_connect(dir, major, minor);
		/* A dead daemon's socket elsewhere does not matter if this one is silent. */
		if (fd == -ETIMEDOUT || (fd == -ECONNREFUSED && err != -ETIMEDOUT))
			err = fd;
		if (fd < 0)
			continue;
		/* Only the owner of the mount speaks for its daemon. */
		if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) && peer.uid == owner)
			return fd;
		close(fd);
	}
	return err;
}
