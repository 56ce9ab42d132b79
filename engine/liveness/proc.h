/* SPDX-License-Identifier: MIT */
/*
 * What the kernel tells of another process: files of /proc, and pidfds. Which of these may be read
 * where, without waiting for the process: writer.c.
 */
#ifndef ENGINE_LIVENESS_PROC_H
#define ENGINE_LIVENESS_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * /proc, if it is that of our own pid namespace; else -1. The ids in requests are of that, and a
 * container may have been given the /proc of another, where they name other processes.
 */
int proc_dir(void);

/* Reads the start of /proc/@tid/@name as a string. Returns false if there is nothing to read. */
bool proc_read(pid_t tid, const char *name, char *text, size_t size);

/* All of /proc/@tid/environ, but no more than 4 MiB, for free(); NULL if it cannot be read. */
char *proc_environ(pid_t tid, size_t *len);

/* Field @nr of /proc/PID/stat, as proc(5) counts, from 3 on; NULL if there are not so many. */
const char *proc_stat_field(const char *stat, int nr);

/* The process of thread @tid; 0: it is not seen. Does not wait for it. */
pid_t proc_tgid(pid_t tid);

/* Is @tid a thread of the process @tgid, or a zombie that was? No file is read for it. */
bool proc_has_thread(pid_t tgid, pid_t tid);

/* A pidfd of the process @tgid, or -errno; a thread that is not the first is -EINVAL or -ENOENT. */
int pidfd_of(pid_t tgid);

/* Have all its threads ended? What waits for our answer has not. */
bool pidfd_ended(int pidfd);

/* Was it waited for? As long as not, no other process has got its id. */
bool pidfd_reaped(int pidfd);

/*
 * The status, as of wait(2), of a process that ended: 1: here it is; 0: not before it is reaped;
 * -1: this kernel does not tell (it does from 6.15 on).
 */
int pidfd_status(int pidfd, int *status);

#endif
