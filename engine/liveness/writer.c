/* SPDX-License-Identifier: MIT */
/*
 * What can be read of a process that waits for the daemon's answer, and may be inside execve:
 *
 * - statm takes no lock that is held for long. It is all zero when the process has no memory: the
 *   process is exiting (or a kernel thread). Inside execve it has at least a new stack.
 * - stat and the symbolic links of /proc/PID wait, on kernels of 2026, until an execve of that
 *   process ends. The execve waits for the daemon's answer to the FLUSH of each O_CLOEXEC
 *   descriptor: a deadlock. Once the memory of a thread is gone, that cannot happen. The thread no
 *   longer calls execve. If another thread of its process does, the execve first waits until this
 *   one is gone, and takes the lock after that.
 * - environ waits for the mmap_lock of the process, so the daemon never reads it here.
 */
#include "engine/liveness/writer.h"

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/liveness/proc.h"

/* Fields of /proc/PID/stat, counted as in proc(5), and two of the flags in the first. */
#define STAT_FLAGS     9
#define STAT_EXIT_CODE 52
#define FLAG_EXITING   0x00000004
#define FLAG_KTHREAD   0x00200000

/*
 * True if the exit code of @tid, which has no memory, is the true one. A reader without the right
 * to it reads 0, and gets EACCES for the link to the program. A reader with the right gets ENOENT.
 */
static bool code_is_shown(pid_t tid)
{
	char path[32], exe[1];

	snprintf(path, sizeof(path), "%d/exe", (int)tid);
	return readlinkat(proc_dir(), path, exe, sizeof(exe)) >= 0 || errno == ENOENT;
}

struct writer_end writer_end_of(int status)
{
	int sig = status & 0x7f;

	/* A thread that ends alone while its process is stopped shows the stopping signal. */
	if (!status || sig == SIGSTOP || sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU)
		return (struct writer_end){WRITER_EXITED_OK, 0};
	return (struct writer_end){WRITER_DIED, sig ? -sig : status >> 8 & 0xff};
}

/*
 * @stat is of a thread without memory. If its process is ending, the exit code is the process's,
 * else the thread's own. A code of 0 counts only if it is @shown.
 */
static struct writer_end judge_stat(const char *stat, bool shown)
{
	const char *flags_field = proc_stat_field(stat, STAT_FLAGS);
	const char *code_field = proc_stat_field(stat, STAT_EXIT_CODE);
	unsigned long flags;
	int status;

	if (!flags_field || !code_field)
		return (struct writer_end){WRITER_EXIT_UNKNOWN, 0};
	flags = strtoul(flags_field, NULL, 10);
	if (flags & FLAG_KTHREAD || !(flags & FLAG_EXITING)) /* such as the NFS server */
		return (struct writer_end){WRITER_ALIVE, 0};
	status = atoi(code_field);
	if (!status && !shown)
		return (struct writer_end){WRITER_EXIT_UNKNOWN, 0};
	return writer_end_of(status);
}

struct writer_end writer_judge(pid_t tid)
{
	char text[1024];
	bool shown;

	if (tid <= 0 || proc_dir() < 0 || !proc_read(tid, "statm", text, sizeof(text)))
		return (struct writer_end){WRITER_INVISIBLE, 0};
	if (strncmp(text, "0 0 0 ", 6))
		return (struct writer_end){WRITER_ALIVE, 0};
	shown = code_is_shown(tid); /* first: a thread that is gone has no link */
	if (!proc_read(tid, "stat", text, sizeof(text)))
		return (struct writer_end){WRITER_INVISIBLE, 0};
	return judge_stat(text, shown);
}

bool writer_status_readable(void)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];

	/* With the capability, a /proc mounted with hidepid hides nothing. */
	return proc_dir() >= 0 && !syscall(SYS_capget, &head, data) &&
	       data[CAP_TO_INDEX(CAP_SYS_PTRACE)].effective & CAP_TO_MASK(CAP_SYS_PTRACE);
}

bool writer_pidfd_tells(void)
{
	pid_t pid = fork();
	int status = 0;
	__cleanup_fd int fd = -1;

	if (pid == 0)
		_exit(7);
	if (pid < 0)
		return false;
	fd = pidfd_of(pid); /* before waitpid, so the process still exists */
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return fd >= 0 && pidfd_status(fd, &status) > 0 && status == 7 << 8;
}
