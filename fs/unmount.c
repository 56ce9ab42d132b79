/* SPDX-License-Identifier: MIT */
#include "fs/unmount.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/message.h"

extern char **environ;

/*
 * Unmounts for an ordinary user, by the setuid helper. 0; -EBUSY; -EPERM with the helper's message
 * in @said; or -errno.
 */
static int run_fusermount(const char *path, bool lazy, char said[256])
{
	char *argv[] = {"fusermount3",
			"-u",
			lazy ? "-z" : "--",
			lazy ? "--" : (char *)path,
			lazy ? (char *)path : NULL,
			NULL};
	posix_spawn_file_actions_t actions;
	int status, err, pipes[2];
	ssize_t n;
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC))
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, pipes[1], 2);
	err = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(pipes[1]);
	n = err ? 0 : read(pipes[0], said, 255);
	said[n > 0 ? n : 0] = '\0';
	said[strcspn(said, "\n")] = '\0';
	close(pipes[0]);
	if (err)
		return -err;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return strstr(said, "busy") || !*said ? -EBUSY : -EPERM;
}

/* The text for an error @err of do_umount. */
static const char *reason(int err, const char *said)
{
	return *said ? said : strerror(-err);
}

static int do_umount(const char *path, int flags, char said[256])
{
	*said = '\0';
	if (geteuid() != 0)
		return run_fusermount(path, flags & MNT_DETACH, said);
	return umount2(path, flags | UMOUNT_NOFOLLOW) ? -errno : 0;
}

/* umount acts on the topmost mount there, which must be this one. */
static int check_on_top(const struct fs *fs, struct error *e)
{
	struct mount_entry m;

	if (!mountinfo_find_at(fs->mountpoint, &m))
		return FAIL(e, EINVAL, UMOUNT_FAILED, fs->mountpoint, strerror(EINVAL));
	if (m.major != fs->major || m.minor != fs->minor)
		return FAIL(e, EBUSY, UMOUNT_COVERED, fs->mountpoint, m.source, fs->mountpoint);
	return 0;
}

int unmount_self(struct fs *fs, struct error *e)
{
	char users[512], said[256];
	int err = check_on_top(fs, e);

	if (err)
		return err;
	err = do_umount(fs->mountpoint, 0, said);

	if (err == -EBUSY) {
		unmount_users(fs->mountpoint, users, sizeof(users));
		return FAIL(e, EBUSY, UMOUNT_BUSY, fs->mountpoint, users);
	}
	if (err)
		return FAIL(e, -err, UMOUNT_FAILED, fs->mountpoint, reason(err, said));
	return 0;
}

int unmount_detach(struct fs *fs, struct error *e)
{
	char users[512], said[256];
	int err = check_on_top(fs, e);

	if (err)
		return err;
	unmount_users(fs->mountpoint, users, sizeof(users));
	err = do_umount(fs->mountpoint, MNT_DETACH, said);
	if (err)
		return FAIL(e, -err, UMOUNT_FAILED, fs->mountpoint, reason(err, said));
	MESSAGE(e->text, DETACHED, fs->mountpoint, users);
	return 0;
}

int unmount_bind(const struct mount_entry *m, struct error *e)
{
	char said[256];
	int err = do_umount(m->path, 0, said);

	return err ? FAIL(e, -err, UMOUNT_FAILED, m->path, reason(err, said)) : 0;
}

/* The kernel lets the user who mounted write here. Root need not: MNT_FORCE does the same. */
static void abort_connection(const struct mount_entry *m)
{
	char path[128];
	ssize_t ignored;

	snprintf(path, sizeof(path), "/sys/fs/fuse/connections/%u/abort", m->minor);
	__cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ignored = write(fd, "1", 1);
	(void)ignored;
}

int unmount_path(const struct mount_entry *m, bool abort, struct error *e)
{
	char said[256];
	int err;

	if (abort)
		abort_connection(m);
	err = do_umount(m->path, MNT_DETACH | (abort ? MNT_FORCE : 0), said);
	if (err)
		return FAIL(e, -err, UMOUNT_FAILED, m->path, reason(err, said));
	return 0;
}

/* --- processes that use it: only links are read, which never touches the mount itself --- */

static bool link_is_below(const char *link, const char *top)
{
	char target[PATH_MAX];
	ssize_t n = readlink(link, target, sizeof(target) - 1);
	size_t len = strlen(top);

	if (n < 0)
		return false;
	target[n] = '\0';
	return !strncmp(target, top, len) && (target[len] == '/' || !target[len]);
}

static bool uses(const char *pid, const char *top)
{
	static const char *const links[] = {"cwd", "root", "exe"};
	char path[1024];
	struct dirent *entry;
	DIR *fds;
	bool found = false;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(links) && !found; i++) {
		snprintf(path, sizeof(path), "/proc/%s/%s", pid, links[i]);
		found = link_is_below(path, top);
	}
	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	fds = found ? NULL : opendir(path);
	while (fds && !found && (entry = readdir(fds))) {
		snprintf(path, sizeof(path), "/proc/%s/fd/%s", pid, entry->d_name);
		found = link_is_below(path, top);
	}
	if (fds)
		closedir(fds);
	return found;
}

static void name_of(const char *pid, char *name, size_t size)
{
	char path[512];
	__cleanup_file FILE *f = NULL;

	snprintf(path, sizeof(path), "/proc/%s/comm", pid);
	f = fopen(path, "re");
	if (!f || !fgets(name, (int)size, f))
		snprintf(name, size, "?");
	name[strcspn(name, "\n")] = '\0';
}

void unmount_users(const char *mountpoint, char *buf, size_t size)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	size_t len = 0;
	int nr = 0;

	*buf = '\0';
	while (proc && (entry = readdir(proc))) {
		char name[64];

		if (!isdigit((unsigned char)entry->d_name[0]) || atoi(entry->d_name) == getpid() ||
		    !uses(entry->d_name, mountpoint))
			continue;
		if (++nr > 5 || len + 128 > size)
			break;
		name_of(entry->d_name, name, sizeof(name));
		len += (size_t)snprintf(buf + len, size - len, "%s%s (pid %s)",
					nr == 1 ? " by " : ", ", name, entry->d_name);
	}
	if (nr > 5)
		snprintf(buf + len, size - len, " and others");
	if (proc)
		closedir(proc);
}

/* --- what keeps the daemon from ending --- */

static bool namespace_of(const char *pid, char ns[64])
{
	char path[300];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%s/ns/mnt", pid);
	n = readlink(path, ns, 63);
	if (n > 0)
		ns[n] = '\0';
	return n > 0;
}

static bool has_mount(const char *pid, const struct mount_entry *m)
{
	__cleanup_free char *line = NULL;
	char path[300], device[32];
	size_t size = 0;
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%s/mountinfo", pid);
	snprintf(device, sizeof(device), " %u:%u ", m->major, m->minor);
	__cleanup_file FILE *f = fopen(path, "re");
	while (f && !found && getline(&line, &size, f) > 0)
		found = strstr(line, device) != NULL;
	return found;
}

void unmount_held(const struct mount_entry *m, int daemon, char *buf, size_t size)
{
	DIR *proc = opendir("/proc");
	char own[64], other[64];
	struct dirent *entry;

	snprintf(buf, size,
		 "it waits for the backing, or another mount namespace (a container) still has the "
		 "mount");
	while (proc && namespace_of("self", own) && (entry = readdir(proc))) {
		char name[64];

		if (!isdigit((unsigned char)entry->d_name[0]) || atoi(entry->d_name) == daemon ||
		    !namespace_of(entry->d_name, other) || !strcmp(own, other) ||
		    !has_mount(entry->d_name, m))
			continue;
		name_of(entry->d_name, name, sizeof(name));
		snprintf(
			buf, size,
			"another mount namespace holds a copy of the mount: that of %s (pid %.10s)",
			name, entry->d_name);
		break;
	}
	if (proc)
		closedir(proc);
}
