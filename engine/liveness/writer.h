/* SPDX-License-Identifier: MIT */
/*
 * The fate of the process that just closed a file.
 *
 * A process that dies closes its files like one that is done with them: only the exit status tells
 * the two apart. When the kernel closes the files of an exiting process, it has freed the memory
 * but not the id, and it waits for the answer to FLUSH. During that wait /proc tells how the
 * process ends.
 */
#ifndef ENGINE_LIVENESS_WRITER_H
#define ENGINE_LIVENESS_WRITER_H

#include <stdbool.h>
#include <sys/types.h>

enum writer_fate {
	WRITER_ALIVE,	     /* it closed the file and goes on; also inside execve */
	WRITER_EXITED_OK,    /* exits with status 0 */
	WRITER_DIED,	     /* ends by a signal, or with another exit status */
	WRITER_EXIT_UNKNOWN, /* ends, but the status cannot be read here */
	WRITER_INVISIBLE,    /* in another pid namespace, hidden in /proc, or gone */
};

struct writer_end {
	enum writer_fate fate;
	int code; /* of WRITER_DIED: exit status, or minus the signal; else 0 */
};

/*
 * Judges the sender of a FLUSH, by the id in the request's header, before the reply. It is safe on
 * a thread that serves FUSE, because it waits for nothing that the sender holds. Call it as the
 * daemon, not as the caller: the fsuid and effective capabilities of the thread decide what it can
 * read.
 *
 * A thread that ends alone, with descriptors of its own, counts as a process that exits with 0.
 */
struct writer_end writer_judge(pid_t tid);

/* Interprets the status, as of wait(2), of a process that has ended. */
struct writer_end writer_end_of(int status);

/*
 * For doctor and status: true if the exit status of any user's process can be read here. If not,
 * only the status of processes of the daemon's user can be read, and not of all their programs.
 */
bool writer_status_readable(void);

/* True if a pidfd tells the exit status of a process that is gone (kernel 6.15). Makes a child. */
bool writer_pidfd_tells(void);

#endif
