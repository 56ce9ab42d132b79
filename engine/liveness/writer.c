/* SPDX-License-Identifier: MIT */
/*
 * What may be read of a process that waits for our answer, and may be inside execve?
 *
 * - statm takes no lock that can be held for long. It is all zero when the process has no memory:
 *   it is exiting (or a kernel thread). Inside execve there is a new stack at least.
 * - stat and the symbolic links of /proc/PID wait, on kernels of 2026, for an execve of that process
 *   to end, which waits for our answer to the FLUSH of each O_CLOEXEC descriptor: for ever. Once
 *   the memory of a thread is gone that cannot be: it no longer calls execve, and if another thread
 *   of its process does, that first waits for this one to be gone, and takes the lock after.
 * - environ waits for its mmap_lock: never.
 */
#include "engine/liveness/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/cleanup.h"

/* Fields of /proc/PID/stat, counted as proc(5) does, and two of the flags in the first. */
#define STAT_FLAGS     9
#define STAT_EXIT_CODE 52
#define FLAG_EXITING   0x00000004
#define FLAG_KTHREAD   0x00200000

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

static int proc_dir = -1; /* const after find_proc; kept, since FLUSH comes with every close */
static pthread_once_t proc_once = PTHREAD_ONCE_INIT;

/*
 * The ids in requests are of the daemon's pid namespace. A container may have been given the /proc
 * of another, where they name other processes.
 */
static void find_proc(void)
{
	char self[32];
	ssize_t n;
	__cleanup_fd int dir = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

	n = dir < 0 ? -1 : readlinkat(dir, "self", self, sizeof(self) - 1);
	if (n <= 0)
		return;
	self[n] = '\0';
	if (atoi(self) == getpid())
		proc_dir = take_fd(&dir);
}

static bool have_proc(void)
{
	pthread_once(&proc_once, find_proc);
	return proc_dir >= 0;
}

/* Reads the start of /proc/@tid/@name as a string. Returns false if there is nothing to read. */
static bool read_proc(pid_t tid, const char *name, char *text, size_t size)
{
	char path[32];
	ssize_t n;
	__cleanup_fd int fd = -1;

	snprintf(path, sizeof(path), "%d/%s", (int)tid, name);
	fd = openat(proc_dir, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, size - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	return true;
}

/* Field @nr, from 3 on: the second is the program's name, which may contain anything. */
static const char *stat_field(const char *stat, int nr)
{
	const char *at = strrchr(stat, ')');
	int i;

	for (i = 2; at && i < nr; i++)
		at = strchr(at + 1, ' ');
	return at;
}

/*
 * Is the exit code of @tid, which has no memory, the true one? Who has no right to it reads 0, and
 * gets EACCES for the link to the program. Who has the right finds that there is none any more.
 */
static bool code_is_shown(pid_t tid)
{
	char path[32], exe[1];

	snprintf(path, sizeof(path), "%d/exe", (int)tid);
	return readlinkat(proc_dir, path, exe, sizeof(exe)) >= 0 || errno == ENOENT;
}

/* @status: as of wait(2). */
static struct writer_end end_of(int status)
{
	int sig = status & 0x7f;

	/* A thread that ends alone while its process is stopped shows what stopped that. */
	if (!status || sig == SIGSTOP || sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU)
		return (struct writer_end){WRITER_EXITED_OK, 0};
	return (struct writer_end){WRITER_DIED, sig ? -sig : status >> 8 & 0xff};
}

/*
 * @stat is of a thread without memory. Its exit code is that of the process, if that is ending,
 * else the thread's own; 0 may be a lie unless it is @shown.
 */
static struct writer_end judge_stat(const char *stat, bool shown)
{
	const char *flags_field = stat_field(stat, STAT_FLAGS);
	const char *code_field = stat_field(stat, STAT_EXIT_CODE);
	unsigned long flags;
	int status;

	if (!flags_field || !code_field)
		return (struct writer_end){WRITER_EXIT_UNKNOWN, 0};
	flags = strtoul(flags_field, NULL, 10);
	if (flags & FLAG_KTHREAD || !(flags & FLAG_EXITING)) /* the NFS server, say */
		return (struct writer_end){WRITER_ALIVE, 0};
	status = atoi(code_field);
	if (!status && !shown)
		return (struct writer_end){WRITER_EXIT_UNKNOWN, 0};
	return end_of(status);
}

struct writer_end writer_judge(pid_t tid)
{
	char text[1024];
	bool shown;

	if (tid <= 0 || !have_proc() || !read_proc(tid, "statm", text, sizeof(text)))
		return (struct writer_end){WRITER_INVISIBLE, 0};
	if (strncmp(text, "0 0 0 ", 6))
		return (struct writer_end){WRITER_ALIVE, 0};
	shown = code_is_shown(tid); /* first: what is gone has no link either, nor stat */
	if (!read_proc(tid, "stat", text, sizeof(text)))
		return (struct writer_end){WRITER_INVISIBLE, 0};
	return judge_stat(text, shown);
}

bool writer_status_readable(void)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];

	/* With the capability a /proc mounted with hidepid hides nothing. */
	return have_proc() && !syscall(SYS_capget, &head, data) &&
	       data[CAP_TO_INDEX(CAP_SYS_PTRACE)].effective & CAP_TO_MASK(CAP_SYS_PTRACE);
}

bool writer_pidfd_tells(void)
{
	struct pidfd_info_v0 info = {.mask = PIDFD_MASK_EXIT};
	pid_t pid = fork();
	__cleanup_fd int fd = -1;

	if (pid == 0)
		_exit(7);
	if (pid < 0)
		return false;
	fd = (int)syscall(SYS_pidfd_open, pid, 0); /* before it is gone: not yet waited for */
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return fd >= 0 && !ioctl(fd, PIDFD_GET_INFO_V0, &info) && info.mask & PIDFD_MASK_EXIT &&
	       info.exit_code == 7 << 8;
}
