/* SPDX-License-Identifier: MIT */
/*
 * What the kernel tells of another process: files of /proc, and pidfds. writer.c says which of
 * these can be read when, without waiting for the process. No lock.
 */
#ifndef ENGINE_LIVENESS_PROC_H
#define ENGINE_LIVENESS_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * /proc, if it is that of the daemon's own pid namespace; else -1. Ids in requests belong to that
 * namespace. In the /proc of another one, which a container may have, they name other processes.
 */
int proc_dir(void);

/* Reads the start of /proc/@tid/@name as a string. Returns false if nothing can be read. */
bool proc_read(pid_t tid, const char *name, char *text, size_t size);

/* All of /proc/@tid/environ, but at most 4 MiB, for free(). NULL: it cannot be read. */
char *proc_environ(pid_t tid, size_t *len);

/* Field @nr of /proc/PID/stat, counted as in proc(5), from 3 on; NULL if there are fewer. */
const char *proc_stat_field(const char *stat, int nr);

/* The process of thread @tid; 0: not visible. Does not wait for the process. */
pid_t proc_tgid(pid_t tid);

/* True if @tid is a thread of the process @tgid, or a zombie that was one. Reads no file. */
bool proc_has_thread(pid_t tgid, pid_t tid);

/* A pidfd of the process @tgid, or -errno; -EINVAL or -ENOENT: not the first thread. */
int pidfd_of(pid_t tgid);

/* True if all threads of the process have ended. A process that awaits an answer has not. */
bool pidfd_ended(int pidfd);

/* True if its parent has waited for it. Until then no other process gets its id. */
bool pidfd_reaped(int pidfd);

/*
 * The status, as of wait(2), of a process that has ended. 1: *@status is set; 0: only once it is
 * reaped; -1: the kernel does not tell (before 6.15).
 */
int pidfd_status(int pidfd, int *status);

#endif
