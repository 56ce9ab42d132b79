/* SPDX-License-Identifier: MIT */
/*
 * What became of the process that just closed a file?
 *
 * A process that dies closes its files like one that is done with them: only its exit status tells
 * the two apart. When the kernel closes them it has given up the memory already but not the id, and
 * it waits for the answer to FLUSH: for that long /proc tells how the process ends.
 */
#ifndef ENGINE_LIVENESS_WRITER_H
#define ENGINE_LIVENESS_WRITER_H

#include <stdbool.h>
#include <sys/types.h>

enum writer_fate {
	WRITER_ALIVE,	     /* closed it, and goes on; also inside execve */
	WRITER_EXITED_OK,    /* ends with exit status 0 */
	WRITER_DIED,	     /* ends by a signal, or with another exit status */
	WRITER_EXIT_UNKNOWN, /* ends; how cannot be read here */
	WRITER_INVISIBLE,    /* of another pid namespace, hidden in /proc, or gone */
};

struct writer_end {
	enum writer_fate fate;
	int code; /* of WRITER_DIED: exit status, or minus the signal; else 0 */
};

/*
 * Judges the sender of a FLUSH, by the id in the request's header, before the reply. Safe on a
 * thread that serves FUSE: waits for nothing that the sender holds. Call it as the daemon, not as
 * the caller: the fsuid and effective capabilities of the thread decide what may be read.
 *
 * A thread that ends alone, with descriptors of its own, counts as a process that exits with 0.
 */
struct writer_end writer_judge(pid_t tid);

/* What the status of a process that ended, as of wait(2), says. */
struct writer_end writer_end_of(int status);

/*
 * For people (doctor, status). Can the exit status of any user's process be read here? If not,
 * only that of the daemon's user is, and not of all programs of that user.
 */
bool writer_status_readable(void);

/* Does a pidfd tell the exit status of a process that is gone (kernel 6.15)? Makes a child. */
bool writer_pidfd_tells(void);

#endif
