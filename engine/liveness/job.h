/* SPDX-License-Identifier: MIT */
/*
 * Who is a process that writes, which job is it of, and how does it end?
 *
 * - What is read of /proc is read by threads for that alone: environ waits for the mmap_lock of the
 *   process, which may wait for our answer (writer.c). Who asks waits JOBS_WAIT_MS at most.
 * - A process that was read is kept until it has ended, as long as somebody has a reference to it
 *   and, for the next question, beyond that. So there is one struct for each, and pointers compare.
 *   Who it is was decided when it was first asked for: a later execve changes nothing.
 * - Its end is seen by its pidfd. No id is believed that could be another's by now.
 *
 * All functions may be called from any thread; only jobs_process waits, as it says.
 */
#ifndef ENGINE_LIVENESS_JOB_H
#define ENGINE_LIVENESS_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/base/list.h"
#include "engine/base/message.h"
#include "engine/liveness/writer.h"

#define RANKS_MAX    (1u << 24)
#define JOB_KEY_MAX  320
#define JOBS_WAIT_MS 200

struct jobs;

/* The first part is const after it was made. */
struct process {
	pid_t tgid;	/* 0: unknown */
	uint64_t start; /* field 22 of /proc/PID/stat: with tgid as good as unique; 0: unknown */
	uid_t uid;
	int rank;  /* -1: none known */
	int world; /* how many ranks; 0: unknown */
	/*
	 * UID/slurm/JOB.STEP/rRESTARTS, with a "+" where torchrun restarts it, too;
	 * UID/elastic/RUN, UID/master/HOST:PORT, UID/master/HOST:PORT@BOOT_ID,
	 * UID/session/SID@BOOT_ID or UID/unknown: for people and for comparison (epoch.h). Has no
	 * blanks and nothing but ASCII.
	 */
	char key[JOB_KEY_MAX];
	/*
	 * over so many nodes its ranks may be, and are known there by the same key; 0: on this one
	 * alone
	 */
	int spans;
	/* the key is only that of the process session: of one node, and of more than a job */
	bool weak;
	/*
	 * False: another pid namespace, hidden, or no descriptor left to watch it with. Its end
	 * will not be seen, and where the key is UID/unknown nothing else is known.
	 */
	bool visible;
	/*
	 * False: it could not be read in time, or was gone. Rank, world and job are not known,
	 * which says nothing about whether it has them; the next call of jobs_process tries again,
	 * and gives another struct for it. The end of a visible one is seen all the same.
	 */
	bool read;

	/* Private. */
	struct jobs *jobs; /* const */
	uint64_t serial;   /* const */
	int pidfd;	   /* jobs->lock: this and all below; -1: none, or it has ended */
	unsigned refs, watches;
	bool reading;	   /* a thread reads of it, and may hang */
	bool given;	   /* somebody has it, so that it is const now */
	bool noticed;	   /* its end; how that was may be known later */
	bool gone, untold; /* it has ended, and how; `ended` is to be called */
	struct writer_end end;
	uint64_t lived_ns; /* monotonic; const once it is gone: it has ended after that */
	struct list link,
		idle; /* of jobs->processes, while it is visible; ->idle, while kept only */
};

/*
 * @ended: see jobs_watch. Starts threads, which act as the caller of this does. Returns 0 or -errno
 * with @e filled.
 */
int jobs_create(struct jobs **out,
		void (*ended)(void *arg, const struct process *p, struct writer_end end), void *arg,
		struct error *e);

/* All processes were put. Does not wait for a read that hangs: its thread ends when that does. */
void jobs_destroy(struct jobs *js);

/*
 * The process of thread @tid, which now waits for our answer (ids are of the daemon's pid
 * namespace, 0: of another), of user @uid; referenced. Waits until it was read, but at most
 * JOBS_WAIT_MS, and until the request is interrupted: then it is one that was not read. For a
 * process that was read before no file is. NULL only without memory.
 */
struct process *jobs_process(struct jobs *js, pid_t tid, uid_t uid);

struct process *process_get(struct process *p);
void process_put(struct process *p); /* NULL is none */

/*
 * From now on `ended` is called once the process is gone, on a thread of this module that holds no
 * lock: WRITER_EXITED_OK, WRITER_DIED, or WRITER_EXIT_UNKNOWN where the kernel does not tell. One
 * call is for all watches that stand then; for one that begins after the end there is one more. It
 * may be under way while the last watch is undone. A watch is a reference, too.
 *
 * When it ended the kernel does not tell. p->lived_ns is shortly before; or, if this daemon was
 * held up then, before that.
 *
 * Returns 0, or -ESRCH: it is not visible.
 */
int jobs_watch(struct process *p);
void jobs_unwatch(struct process *p);

/* Has it ended, be that seen already or about to be? */
bool process_has_ended(struct process *p);

/*
 * The same, where `ended` is yet to be called, and will be at once: not if how it ended is known
 * only when its parent has waited for it. Watched.
 */
bool process_is_ending(struct process *p);

/* Was its end seen? Then how it was, in *@end. */
bool process_is_gone(struct process *p, struct writer_end *end);

/*
 * True if a process of the job of @p, which was read and is visible, is known here and has not
 * ended.
 */
bool job_lives(struct process *p);

/*
 * Is the job of @key the one that a person calls @name? That is the key; or it from its second part
 * on; or either's beginning, up to a `/`. Of a Slurm job also its number, with or without the step:
 * what an epilog knows.
 */
bool job_is(const char *key, const char *name);

/* Could @name be one? */
bool job_name_ok(const char *name);

/*
 * Sets rank, world, key and weak of @p by what is in an environment: @len bytes of strings, each
 * ended by a NUL, as /proc/PID/environ has them; what is malformed is as if it were not there.
 * @session: of the process, @boot_id: of the host.
 */
void job_parse(const char *env, size_t len, uid_t uid, pid_t session, const char *boot_id,
	       struct process *p);

#endif
