/* SPDX-License-Identifier: MIT */
/*
 * What the files of requests.h share: a request in flight, and the table of them. requests.c: the
 * start and the end. requests_loop.c: the threads. requests_current.c: the request that a handler
 * serves, and its reply. requests_watch.c: the watchdog. requests_give_up.c: answers in place of
 * the serving thread. requests_tell.c: messages about requests.
 */
#ifndef FS_REQUESTS_INSIDE_H
#define FS_REQUESTS_INSIDE_H

#include <stdatomic.h>

#include "engine/base/clock.h"
#include "engine/base/list.h"
#include "engine/base/lock.h"
#include "engine/base/wait.h"
#include "engine/content/content.h"
#include "fs/receive.h"
#include "fs/requests.h"
#include "fs/tree.h"
#include "fs/wire.h"

/*
 * How long the device may be unattended while its one attendant serves a request. Longer delays an
 * INTERRUPT; shorter wakes threads in vain.
 */
#define ATTEND_NS NSEC_PER_MSEC

#define PAGE 4096u

struct request {
	struct list link; /* lock: set; on active, queued or free */
	/* const while in flight */
	uint64_t unique, nodeid, started_ns;
	uint32_t opcode, uid, gid;
	int32_t pid;
	size_t len;
	uint64_t interrupted_ns; /* lock: set; 0: not */
	bool queued;		 /* lock: set */
	bool stuck_told;	 /* owner: watchdog */
	bool abandoned;		 /* lock: set; answered EINTR while it ran */
	bool behind;   /* pages for a file with a late call, which it waits for (late_call.h) */
	uint64_t late; /* lock: set; the node on which it counts as late; 0: none */
	struct interruptible call; /* ends its thread's waits when it is given up */
	/* lock: set, before `answered`; needed, though the kernel may release it */
	struct handle *held;
	atomic_bool answered; /* the thread that sets it first may reply */
	bool decided;	 /* owner: serving thread; it has set `answered` itself, and will reply */
	int reply_error; /* owner: serving thread */
	struct content_landing landing; /* owner: serving thread; a WRITE's data, instead of mem */
	char *mem;			/* start of the message; a WRITE's data is page-aligned */
};

struct requests {
	struct fs *fs;
	struct fuse_session *se;      /* const while serving */
	int fd;			      /* const while serving */
	struct negotiated negotiated; /* owner: thread of INIT; const once ready */
	struct wire_init_out offered; /* owner: thread of INIT; by the kernel */
	void (*ready)(struct fs *fs, int err);
	struct lock lock;
	struct waitq changed;		  /* a thread ended, or serving ends */
	struct list active, queued, free; /* lock */
	struct waitq called;		  /* a parked thread is wanted */
	/* lock; threads: all; at the device, or on the way; parked; called of the parked */
	unsigned nr_threads, idle, parked, calls;
	unsigned in_flight, backlog; /* lock */
	unsigned nr_free, nr_early;  /* lock; in `free`; WRITEs of pages answered in advance */
	uint64_t unattended_ns;	     /* lock; since when no thread is at the device; 0: one is */
	uint64_t last_ns;	     /* lock; start of the newest request */
	struct receiver receiver;
	bool watching_closely;	   /* lock; the watchdog looks every ATTEND_NS */
	pid_t dying;		   /* lock; the process whose FLUSH was given up last; 0: none */
	bool exited, threads_told; /* lock */
};

struct request_facts {
	uint64_t nodeid;
	unsigned opcode;
	pid_t pid;
	uid_t uid;
	double waited;
};

/* The request that this thread serves; NULL: none. requests_current.c */
extern __thread struct request *request_current;

/* Puts the data of the WRITE @r into its buffer, as usual. requests_current.c */
void request_copy_landed_out(struct request *r);

/* --- requests_loop.c --- */

/* Ends a request; its buffer serves the next one. */
void requests_retire_locked(struct requests *rs, struct request *r);
/* Frees a request that no thread serves. */
void request_free(const struct requests *rs, struct request *r);

/* Sends one more thread to the device, and counts it as there at once. False: there is none. */
bool requests_call_attendant_locked(struct requests *rs);
/*
 * Starts a thread, if there are fewer than @most. It counts as idle at once: it goes to the device
 * first. False: none.
 */
bool requests_start_server_locked(struct requests *rs, unsigned most);

/* --- requests_watch.c --- */

void *requests_watchdog_main(void *requests);

/* --- requests_give_up.c --- */

void requests_serve_interrupt(struct requests *rs, const struct request *interrupt);
/* True if the process is exiting. */
bool requests_is_exiting(pid_t pid);
/* True if @r writes dirty pages of a mapping, which no process is charged with. */
bool request_is_page_write(const struct request *r);
void request_answer_page_write_locked(struct requests *rs, struct request *r);
/* Answers @r before it is served. False: it was answered already. */
bool request_give_up_locked(struct requests *rs, struct request *r);

/* --- requests_tell.c --- */

/*
 * Reports to the log and the list of failures. @abandoned: answered with EINTR; else it is only
 * slow.
 */
void requests_tell_waiting(struct requests *rs, const struct request_facts *w, bool abandoned);
/* Logs that a request which was given up has ended. */
void requests_tell_late(struct requests *rs, const struct request_facts *w, int reply_error);

#endif
