/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of job.h. process.c: the known processes. job_read.c: the threads that read
 * them. job.c: the thread that sees them end, and the whole module.
 */
#ifndef ENGINE_LIVENESS_JOB_INSIDE_H
#define ENGINE_LIVENESS_JOB_INSIDE_H

#include <pthread.h>

#include "engine/base/wait.h"
#include "engine/base/worker.h"
#include "engine/liveness/job.h"

#define READERS_MAX 8 /* this many hanging processes make the next ones unread */

/* A caller that waits for a process. On the caller's stack, until the caller stops waiting. */
struct question {
	struct list link; /* jobs->questions */
	pid_t tid;
	uid_t uid;
	enum { QUESTION_NEW, QUESTION_READING, QUESTION_DONE } state;
	struct process *process; /* READING: what is known so far; DONE: the answer; a reference */
};

struct jobs {
	void (*ended)(void *arg, const struct process *p, struct writer_end end); /* const */
	void *arg;								  /* const */
	char boot_id[40];							  /* const */
	int epoll, wake;       /* const until it is destroyed */
	struct worker watcher; /* const */

	struct lock lock;
	struct waitq changed; /* questions, readers, ending */
	/* lock: */
	struct list processes, idle, questions;
	unsigned nr_idle, nr_readers, nr_busy; /* of the readers */
	unsigned users; /* users of this struct: its creator, and each reader */
	uint64_t next_serial;
	bool ending;
};

/* What system calls that do not block tell of a thread. */
struct identity {
	pid_t tgid;
	int pidfd; /* -1: none */
	pid_t session;
};

/* --- process.c --- */

struct identity identify(pid_t tid, pid_t tgid);
/* A process of which nothing is known, with a reference. NULL without memory. */
struct process *process_create_locked(struct jobs *js, uid_t uid);
/* Records the identity. From now on the end of @p can be seen. */
void process_identify_locked(struct process *p, const struct identity *id);
/* Has the watcher told of the end of @p, by @events. */
void process_watch_end(struct process *p, uint32_t events);
struct process *process_get_locked(struct process *p);
void process_put_locked(struct process *p);
/* Frees the processes that were kept for the next question. */
void processes_drop_idle(struct jobs *js);

/* A process that was read and lives, with a reference, or NULL. */
struct process *jobs_find_locked(struct jobs *js, pid_t tid, uid_t uid);

/* --- job_read.c --- */

/* Starts one more reader; jobs_process starts others as needed. Returns 0 or -errno. */
int jobs_start_reader_locked(struct jobs *js);

/* Ends those threads that wait for work. Threads in hanging reads end later. */
void jobs_end_readers(struct jobs *js);

/* Drops one user; the last one frees the struct. */
void jobs_put(struct jobs *js);

#endif
