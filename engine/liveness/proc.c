/* SPDX-License-Identifier: MIT */
#include "engine/liveness/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/base/cleanup.h"

#define ENVIRON_MAX  (4u << 20)
#define ENVIRON_STEP (64u << 10)

/* Of linux/pidfd.h, newer than the headers of the oldest supported distribution. */
struct pidfd_info_v0 {
	uint64_t mask, cgroupid;
	uint32_t pid, tgid, ppid;
	uint32_t ids[8];
	int32_t exit_code;
};
_Static_assert(sizeof(struct pidfd_info_v0) == 64, "PIDFD_INFO_SIZE_VER0");
#define PIDFD_GET_INFO_V0 _IOWR(0xFF, 11, struct pidfd_info_v0)
#define PIDFD_MASK_EXIT	  (1u << 3)

static int kept_dir = -1; /* const after find_dir; kept open, since every close causes a FLUSH */
static pthread_once_t dir_once = PTHREAD_ONCE_INIT;

static void find_dir(void)
{
	char self[32];
	ssize_t n;
	__cleanup_fd int dir = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

	n = dir < 0 ? -1 : readlinkat(dir, "self", self, sizeof(self) - 1);
	if (n <= 0)
		return;
	self[n] = '\0';
	if (atoi(self) == getpid())
		kept_dir = take_fd(&dir);
}

int proc_dir(void)
{
	pthread_once(&dir_once, find_dir);
	return kept_dir;
}

static int open_proc(pid_t tid, const char *name)
{
	char path[32];
	int dir = proc_dir();

	snprintf(path, sizeof(path), "%d/%s", (int)tid, name);
	return dir < 0 ? -1 : openat(dir, path, O_RDONLY | O_CLOEXEC);
}

bool proc_read(pid_t tid, const char *name, char *text, size_t size)
{
	__cleanup_fd int fd = open_proc(tid, name);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	if (n <= 0)
		return false;
	text[n] = '\0';
	return true;
}

char *proc_environ(pid_t tid, size_t *len)
{
	__cleanup_fd int fd = open_proc(tid, "environ");
	__cleanup_free char *text = NULL;
	ssize_t n = fd < 0 ? -1 : 1;

	for (*len = 0; n > 0 && *len<ENVIRON_MAX; *len += n> 0 ? (size_t)n : 0) {
		char *more = realloc(text, *len + ENVIRON_STEP);

		if (!more)
			return NULL;
		text = more;
		n = read(fd, text + *len, ENVIRON_STEP);
	}
	return n < 0 ? NULL : take_ptr(text);
}

/* The second field is the program's name, which may contain any character. */
const char *proc_stat_field(const char *stat, int nr)
{
	const char *at = strrchr(stat, ')');
	int i;

	for (i = 2; at && i < nr; i++)
		at = strchr(at + 1, ' ');
	return at;
}

pid_t proc_tgid(pid_t tid)
{
	char text[4096];
	const char *line;

	if (tid <= 0 || !proc_read(tid, "status", text, sizeof(text)))
		return 0;
	line = strstr(text, "\nTgid:"); /* a newline in the program's name is shown as \n */
	return line ? (pid_t)atoi(line + sizeof("\nTgid:") - 1) : 0;
}

bool proc_has_thread(pid_t tgid, pid_t tid)
{
	return !syscall(SYS_tgkill, tgid, tid, 0) || errno != ESRCH;
}

int pidfd_of(pid_t tgid)
{
	int fd = (int)syscall(SYS_pidfd_open, tgid, 0);

	return fd < 0 ? -errno : fd;
}

bool pidfd_ended(int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

bool pidfd_reaped(int pidfd)
{
	return syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) && errno == ESRCH;
}

int pidfd_status(int pidfd, int *status)
{
	struct pidfd_info_v0 info = {.mask = PIDFD_MASK_EXIT};

	if (ioctl(pidfd, PIDFD_GET_INFO_V0, &info))
		return -1;
	*status = info.exit_code;
	return info.mask & PIDFD_MASK_EXIT ? 1 : 0;
}
