/* SPDX-License-Identifier: MIT */
/*
 * The newest checkpoint, as the command `ckptfs latest` names it: the command alone reads and
 * judges commit files and digests. posix_spawn starts it, which copies nothing of a trainer that
 * has half of the machine's memory. No lock.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/session.h"

extern char **environ;

/*
 * CKPTFS_COMMAND, else the command beside this library (a wheel has it in bin/, an installation in
 * ../bin/), else the one in PATH.
 */
static const char *command(char path[PATH_MAX])
{
	static const char *const places[] = {"bin/ckptfs", "../bin/ckptfs"};
	const char *given = getenv("CKPTFS_COMMAND"), *slash;
	Dl_info info;

	if (given && *given)
		return given;
	if (!dladdr((void *)command, &info) || !info.dli_fname)
		return "ckptfs";
	slash = strrchr(info.dli_fname, '/');
	if (!slash)
		return "ckptfs";
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		int n = snprintf(path, PATH_MAX, "%.*s%s", (int)(slash + 1 - info.dli_fname),
				 info.dli_fname, places[i]);

		if (n < PATH_MAX && !access(path, X_OK))
			return path;
	}
	return "ckptfs";
}

/*
 * A file to write to, which has no reader to wait for. It is no standard stream, even if a trainer
 * has closed those.
 */
static int scratch(void)
{
	int fd = memfd_create("ckptfs-latest", MFD_CLOEXEC), high;

	if (fd < 0 || fd > 2)
		return fd < 0 ? -errno : fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (high < 0)
		high = -errno;
	close(fd);
	return high;
}

/* Starts it. Its output goes to @out, its error messages to @errors. */
static int start(const char *file, char *const argv[], int out, int errors, pid_t *pid)
{
	posix_spawn_file_actions_t actions;
	int err;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out, 1);
	posix_spawn_file_actions_adddup2(&actions, errors, 2);
	err = -posix_spawnp(pid, file, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return err;
}

/* The last line of its error messages; "": there is none. *@own: it is a message of ckptfs. */
static const char *last_line(int errors, char *text, size_t size, bool *own)
{
	off_t len = lseek(errors, 0, SEEK_END);
	ssize_t n = pread(errors, text, size - 1, len < (off_t)size ? 0 : len - (off_t)size + 1);
	char *end = text + (n > 0 ? n : 0), *line;

	*end = '\0';
	while (end > text && end[-1] == '\n')
		*--end = '\0';
	line = strrchr(text, '\n');
	line = line ? line + 1 : text;
	*own = !strncmp(line, "ckptfs: ", 8);
	return *own ? line + 8 : line;
}

/* Its exit status; -1: a signal ended it; UNKNOWN: a trainer may ignore its children. */
#define UNKNOWN (-2)
static int exit_status(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return UNKNOWN;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int run(const char *file, char *const argv[], int out, int errors, const char *dir,
	       char *buf, size_t size)
{
	char found[PATH_MAX + 2], text[CKPTFS_TEXT_MAX];
	const char *line;
	int err, status;
	ssize_t len;
	pid_t pid;
	bool own;

	err = start(file, argv, out, errors, &pid);
	/* Not -ENOENT, which says that there is no checkpoint. */
	if (err)
		return ckpt_error(NULL, err == -ENOENT ? -ENOPKG : err,
				  "cannot run the command ckptfs (%s): %s; install it, or name it "
				  "in CKPTFS_COMMAND",
				  file, strerror(-err));
	status = exit_status(pid);
	len = pread(out, found, sizeof(found) - 1, 0);
	line = last_line(errors, text, sizeof(text), &own);
	/*
	 * Only an empty line means that there is no checkpoint: a job that hears so begins at step
	 * 0.
	 */
	if (len == 1)
		return ckpt_error(NULL, -ENOENT, "%s", line);
	if ((len <= 0 || found[len - 1] != '\n') && own)
		return ckpt_error(NULL, -EIO, "%s", line);
	if (len <= 0 || found[len - 1] != '\n')
		return ckpt_error(NULL, -EIO,
				  "%s: the command ckptfs (%s) ended without an answer (status "
				  "%d)%s%s; a ckptfs of this release belongs in PATH, or in "
				  "CKPTFS_COMMAND",
				  dir, file, status, *line ? ": " : "", line);
	len--;
	if ((size_t)len >= size)
		return ckpt_error(NULL, -ERANGE, "%s: the path that was found has %zd bytes", dir,
				  len);
	memcpy(buf, found, (size_t)len);
	buf[len] = '\0';
	return ckpt_error(NULL, 0, "%s", line);
}

int ckptfs_latest(const char *dir, unsigned flags, char *buf, size_t size)
{
	char *how = flags & CKPTFS_LATEST_VERIFY      ? "--verify=full"
		    : flags & CKPTFS_LATEST_STRUCTURE ? "--verify=structure"
						      : "--verify=none";
	char *argv[] = {"ckptfs", "latest", "--say-none", how, "--", (char *)dir, NULL};
	char path[PATH_MAX];
	int out, errors, err;

	ckpt_error(NULL, 0, "%s", "");
	if (flags & ~(CKPTFS_LATEST_VERIFY | CKPTFS_LATEST_STRUCTURE))
		return ckpt_error(NULL, -EINVAL, "ckptfs_latest: unknown flags %#x", flags);
	out = scratch();
	errors = out < 0 ? out : scratch();
	if (errors < 0)
		err = ckpt_error(NULL, errors, "%s: %s", dir, strerror(-errors));
	else
		err = run(command(path), argv, out, errors, dir, buf, size);
	if (errors >= 0)
		close(errors);
	if (out >= 0)
		close(out);
	return err;
}
