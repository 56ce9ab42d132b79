/* SPDX-License-Identifier: MIT */
/*
 * cut POINT DIR NAME ACTION [LOG...]: waits until the save of NAME in the backing directory DIR has
 * come to POINT, and acts at that moment. Points:
 * 	at-once
 * 	staged:N	there was the Nth new staging file
 * 	filled:N	a new staging file has N bytes or more
 * 	stamped		one has a digest record
 * 	renamed		NAME is another file than when cut was started
 * 	after:N		N microseconds after there was a new staging file
 * Actions:
 * 	shutdown	the filesystem of DIR stops, and what it has not written is lost with its
 * 			log, as by a power cut; it is as if unmounted then
 * 	kill:PID	SIGKILL
 * 	freeze:PATH	the filesystem of PATH takes no more writes, until it is thawed
 * Right before that "cut" is appended to each LOG.
 * Exit status 3: it did not come to that within 20 s.
 */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

/* EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN and others' are one; "do not flush the log" is, too. */
#define SHUTDOWN     _IOR('X', 125, uint32_t)
#define NO_LOG_FLUSH 2

#define MAX_OLD	    1024
#define STAGING_LEN 40

static const char *point, *action;
static int dir;
static char old[MAX_OLD][STAGING_LEN + 1]; /* staging files that do not count (any more) */
static size_t nr_old;

static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static bool is_staging(const char *name)
{
	return !strncmp(name, ".ckptfs-", 8) && strlen(name) == STAGING_LEN;
}

static bool is_old(const char *name)
{
	size_t i;

	for (i = 0; i < nr_old; i++)
		if (!strcmp(old[i], name))
			return true;
	return false;
}

static void forget(const char *name)
{
	if (nr_old == MAX_OLD)
		errx(2, "too many staging files");
	memcpy(old[nr_old++], name, STAGING_LEN + 1);
}

static bool is_as_wanted(const char *name, long long filled, bool stamped)
{
	char path[400];
	struct stat st;

	if (fstatat(dir, name, &st, 0) || st.st_size < filled)
		return false;
	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, name);
	return !stamped || getxattr(path, "user.ckptfs.xxh3", NULL, 0) > 0;
}

/* How many new staging files are there of that size and, if @stamped, with a record? */
static size_t look(long long filled, bool stamped, bool forget_them)
{
	DIR *d = fdopendir(openat(dir, ".", O_RDONLY | O_DIRECTORY));
	struct dirent *de;
	size_t found = 0;

	if (!d)
		err(2, "opendir");
	while ((de = readdir(d))) {
		if (!is_staging(de->d_name) || is_old(de->d_name) ||
		    !is_as_wanted(de->d_name, filled, stamped))
			continue;
		found++;
		if (forget_them)
			forget(de->d_name);
	}
	closedir(d);
	return found;
}

static void spin_us(int64_t us)
{
	int64_t until = now_us() + us;

	while (now_us() < until)
		;
}

static bool reached(ino_t before, const char *name)
{
	static size_t staged;
	struct stat st;

	if (!strcmp(point, "at-once"))
		return true;
	if (!strncmp(point, "staged:", 7)) {
		staged += look(0, false, true);
		return staged >= strtoull(point + 7, NULL, 0);
	}
	if (!strncmp(point, "filled:", 7))
		return look(atoll(point + 7), false, false);
	if (!strcmp(point, "stamped"))
		return look(0, true, false);
	if (!strcmp(point, "renamed"))
		return !fstatat(dir, name, &st, 0) && st.st_ino != before;
	if (!strncmp(point, "after:", 6)) {
		if (!look(0, false, false))
			return false;
		spin_us(atoll(point + 6));
		return true;
	}
	errx(2, "no such point: %s", point);
}

static void note(const char *log)
{
	int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);

	if (fd < 0 || write(fd, "cut\n", 4) != 4)
		err(2, "%s", log);
	close(fd);
}

static void act(void)
{
	uint32_t flags = NO_LOG_FLUSH;

	if (!strcmp(action, "shutdown")) {
		if (ioctl(dir, SHUTDOWN, &flags))
			err(2, "shutdown");
	} else if (!strncmp(action, "kill:", 5)) {
		if (kill(atoi(action + 5), SIGKILL))
			err(2, "kill");
	} else if (!strncmp(action, "freeze:", 7)) {
		int fd = open(action + 7, O_RDONLY | O_CLOEXEC);

		if (fd < 0 || ioctl(fd, FIFREEZE, 0))
			err(2, "freeze");
		close(fd);
	} else {
		errx(2, "no such action: %s", action);
	}
}

int main(int argc, char **argv)
{
	int64_t until = now_us() + 20000000;
	ino_t before = 0;
	struct stat st;
	int i;

	if (argc < 5)
		errx(2, "usage: cut POINT DIR NAME ACTION [LOG...]");
	point = argv[1];
	action = argv[4];
	dir = open(argv[2], O_RDONLY | O_DIRECTORY);
	if (dir < 0)
		err(2, "%s", argv[2]);
	if (!fstatat(dir, argv[3], &st, 0))
		before = st.st_ino;
	look(0, false, true);
	puts("ready");
	fflush(stdout);
	while (!reached(before, argv[3]))
		if (now_us() > until)
			return 3;
	for (i = 5; i < argc; i++)
		note(argv[i]);
	act();
	return 0;
}
