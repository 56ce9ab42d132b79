/* SPDX-License-Identifier: MIT */
/*
 * Processes that write: their identity, their job, and how they end.
 *
 * - Separate threads read /proc: a read of environ waits for the mmap_lock of the process, which
 *   may itself wait for the daemon's answer (writer.c). A caller waits at most JOBS_WAIT_MS for
 *   them.
 * - A process that was read is kept until it has ended, while it has references and, for the next
 *   question, beyond that. So each process has one struct, and callers compare pointers. The
 *   identity is that of the first question: a later execve changes nothing.
 * - The daemon sees the end of a process by its pidfd. It trusts no id that another process may
 *   have by now.
 *
 * Any thread may call the functions; only jobs_process waits, as it says. Lock: LOCK_JOBS.
 */
#ifndef ENGINE_LIVENESS_JOB_H
#define ENGINE_LIVENESS_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/base/list.h"
#include "engine/base/message.h"
#include "engine/liveness/job_key.h"
#include "engine/liveness/writer.h"

#define RANKS_MAX    (1u << 24)
#define JOBS_WAIT_MS 200

struct jobs;

/* The first part is const once it was made. */
struct process {
	pid_t tgid;	/* 0: unknown */
	uint64_t start; /* field 22 of /proc/PID/stat: practically unique with tgid; 0: unknown */
	uid_t uid;
	int rank;	       /* -1: unknown */
	int world;	       /* number of ranks; 0: unknown */
	char key[JOB_KEY_MAX]; /* of its job: job_key.h */
	/* the most nodes on which its ranks can be, under the same key; 0: only this node */
	int spans;
	/* the key is the process session's: of one node, and maybe of several jobs */
	bool weak;
	/*
	 * False: the process is in another pid namespace or hidden, or there was no descriptor to
	 * watch it. Its end will not be seen. If the key is UID/unknown, nothing else is known.
	 */
	bool visible;
	/*
	 * False: the process could not be read in time, or was gone. Its rank, world and job are
	 * unknown, but it may have them. The next call of jobs_process tries again and returns
	 * another struct. The end of a visible process is seen nevertheless.
	 */
	bool read;

	/* Private. */
	struct jobs *jobs; /* const */
	uint64_t serial;   /* const */
	int pidfd; /* jobs->lock guards this and all below; -1: none, or the process has ended */
	unsigned refs, watches;
	bool reading;	   /* a thread reads it, and may hang */
	bool given;	   /* a caller has it, so it is const now */
	bool noticed;	   /* its end was seen; its status may follow later */
	bool gone, untold; /* it has ended with a known status; `ended` is to be called */
	struct writer_end end;
	uint64_t lived_ns;	/* monotonic; const once gone: it ended after that */
	struct list link, idle; /* of jobs->processes, while visible; of ->idle, while only kept */
};

/*
 * @ended: see jobs_watch. Starts threads, which act as the user that the caller acts as. Returns 0
 * or -errno with @e filled.
 */
int jobs_create(struct jobs **out,
		void (*ended)(void *arg, const struct process *p, struct writer_end end), void *arg,
		struct error *e);

/* Called after all processes were put. A hanging read is not waited for; its thread ends later. */
void jobs_destroy(struct jobs *js);

/*
 * The process of thread @tid of user @uid, which now waits for the daemon's answer; referenced. Ids
 * are of the daemon's pid namespace; 0: of another one. Waits until the process was read, but at
 * most JOBS_WAIT_MS, and until the request is interrupted. Then it returns an unread process. Reads
 * no file for a process that was read before. NULL only without memory.
 */
struct process *jobs_process(struct jobs *js, pid_t tid, uid_t uid);

struct process *process_get(struct process *p);
void process_put(struct process *p); /* accepts NULL */

/*
 * From now on `ended` is called once the process is gone, on a thread of this module that holds no
 * lock: WRITER_EXITED_OK, WRITER_DIED, or WRITER_EXIT_UNKNOWN if the kernel does not tell. It is
 * called once for all watches registered before the exit, and once more for each registered after
 * it. A call may be running while the last watch is removed. A watch is also a reference.
 *
 * The kernel does not tell the time of exit. p->lived_ns is a lower bound: shortly before the exit
 * or, if the daemon was held up at that time, earlier.
 *
 * Returns 0, or -ESRCH: the process is not visible.
 */
int jobs_watch(struct process *p);
void jobs_unwatch(struct process *p);

/* True if the process has ended, whether the watcher has seen that or not. */
bool process_has_ended(struct process *p);

/*
 * The same, but false while the exit status becomes known only after the parent has waited for the
 * process. True: `ended` was called, or will be at once. The caller watches @p.
 */
bool process_is_ending(struct process *p);

/* True if its end and status are known; then *@end is the status. */
bool process_is_gone(struct process *p, struct writer_end *end);

/* True if a process of the job of @p is known here, was read, is visible, and has not ended. */
bool job_lives(struct process *p);

/*
 * Sets rank, world, key and weak of @p from an environment: @len bytes of strings, each ended by a
 * NUL, as in /proc/PID/environ. Malformed variables count as absent. @session is the process's,
 * @boot_id the host's.
 */
void job_parse(const char *env, size_t len, uid_t uid, pid_t session, const char *boot_id,
	       struct process *p);

#endif
