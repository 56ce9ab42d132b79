/* SPDX-License-Identifier: MIT */
/* What the files of job.h share. */
#ifndef ENGINE_LIVENESS_JOB_INSIDE_H
#define ENGINE_LIVENESS_JOB_INSIDE_H

#include <pthread.h>

#include "engine/base/wait.h"
#include "engine/base/worker.h"
#include "engine/liveness/job.h"

#define READERS_MAX 8 /* so many processes may hang before the next ones go unread */

/* Somebody waits for the process of a thread. On his stack, and gone once he waits no longer. */
struct question {
	struct list link; /* jobs->questions */
	pid_t tid;
	uid_t uid;
	enum { QUESTION_NEW, QUESTION_READING, QUESTION_DONE } state;
	struct process *process; /* READING: as far as it is known, DONE: the answer; a reference */
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
	unsigned users; /* who has this struct: who made it, and each reader */
	uint64_t next_serial;
	bool ending;
};

/* What the system calls that wait for nothing tell of a thread. */
struct identity {
	pid_t tgid;
	int pidfd; /* -1: none */
	pid_t session;
};

struct identity identify(pid_t tid, pid_t tgid);
/* One of which nothing is known, with a reference. NULL without memory. */
struct process *process_create_locked(struct jobs *js, uid_t uid);
/* Its end can be seen from now on. */
void process_identify_locked(struct process *p, const struct identity *id);
void process_put_locked(struct process *p);

/* One that was read and lives, referenced, or NULL. */
struct process *jobs_find_locked(struct jobs *js, pid_t tid, uid_t uid);

/* Starts one more that reads; those that are needed later come by themselves. 0 or -errno. */
int jobs_start_reader_locked(struct jobs *js);

/*
 * The threads of job_read.c wait no more for work; those in a read that hangs are left to
 * themselves.
 */
void jobs_end_readers(struct jobs *js);

/* One user less; the last one frees it. */
void jobs_put(struct jobs *js);

#endif
