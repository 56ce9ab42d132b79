/* SPDX-License-Identifier: MIT */
/* Private to engine/capture: a session, and what it has written. */
#ifndef ENGINE_CAPTURE_SESSION_H
#define ENGINE_CAPTURE_SESSION_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "engine/base/cleanup.h"
#include "engine/base/table.h"
#include "engine/base/wait.h"
#include "engine/capture/arena.h"
#include "engine/capture/capture.h"
#include "engine/capture/trace.h"

/* What sessions did, and wait for. */
struct session_counts {
	struct ckptfs_stats stats;
	uint64_t barriers, barrier_ns, timed_out;
};

struct captures {
	struct capture_options options; /* const */
	char *control_dir;		/* const once mounted, as the next */
	dev_t dev;
	atomic_uint_fast64_t paced_ns; /* monotonic: nothing is granted before, by capture_bw */
	struct lock lock;	       /* all below */
	struct waitq gone;	       /* a session has left the list */
	struct list sessions;
	unsigned nr, rows;
	bool ending;
	struct session_counts past; /* of sessions that have ended */
	struct trace trace;	    /* has its own lock */
};

/* Bytes of a tensor that a file is to have. */
struct capture {
	struct list link; /* session->waiting: not all of it is granted; then ->granted */
	uint64_t seq, src_off;
	struct tensor *tensor;	       /* referenced */
	struct generation *generation; /* referenced, and being changed */
	struct promise promise;
	struct notice *notice;		       /* for when it fails */
	uint64_t nr_granted, nr_landed;	       /* bytes */
	uint64_t written_ns, begin_ns, end_ns; /* struct traced */
	bool landing;			       /* the thread is at a piece of it */
	bool failed, told; /* its generation knows: who is with it last ends it */
};

/* That a capture has failed, on its way to the trainer. */
struct notice {
	struct list link; /* session->notices */
	uint64_t seq;
	int err;
};

enum slot_state { SLOT_FREE, SLOT_GRANTED, SLOT_DONE };

struct slot {
	struct list link; /* SLOT_DONE: session->done */
	enum slot_state state;
	struct capture *capture; /* NULL: failed meanwhile */
	uint64_t nr, off;	 /* of the grant; in the file */
	uint32_t len;
};

enum session_state { SESSION_BEGINS, SESSION_LIVES, SESSION_ENDED };

struct session {
	struct list link; /* captures->sessions */
	struct captures *all;
	uint64_t id, handle;
	unsigned row; /* in the trace */
	uid_t uid;
	int rank, world;
	char socket[CKPTFS_SOCKET_MAX]; /* const */
	int wake;			/* eventfd: there is something to do for the thread */
	struct lock lock;
	/* lock */
	unsigned refs; /* captures->lock */
	enum session_state state;
	bool offered;  /* the socket has its name, and nobody has come */
	int listening; /* while nobody has come; else -1 */
	int err;       /* SESSION_ENDED before it lived: why */
	pid_t pid;
	bool bye, closed; /* BYE was said; the control file is not open any more */
	struct arena arena;
	struct slot *slots;
	struct table tensors; /* of struct tensor */
	uint64_t last_seq, last_grant;
	uint64_t turn; /* of the request that waits for grants: one at a time */
	struct list waiting, granted, done, notices;
	struct waitq changed;
	struct session_counts counts;
};

/* That of @uid with this id, which lives; referenced, or NULL. */
struct session *session_find(struct captures *cs, uid_t uid, uint64_t id);
void session_put(struct session *s);
void session_put_at_end(struct session **s);
/* 0; -ENOENT: it has ended. */
int session_check_alive_locked(const struct session *s);

/* Finds the session of a call, locks it, and lets go of both at the end of the block. */
#define SESSION_SCOPE(s, cs, uid, id) \
	__cleanup(session_put_at_end) struct session *s = session_find(cs, uid, id); \
	if (!s) \
		return -ENOENT; \
	LOCK_SCOPE(&s->lock); \
	if (session_check_alive_locked(s)) \
	return -ENOENT

/* What a call does from here on is told to who made it; false: it was told -EINTR. */
bool captures_decide(const struct captures *cs);

/* The registered one of this id, or NULL. */
struct tensor *tensor_find_locked(struct session *s, uint64_t id);

void session_add_counts(const struct session *s, struct session_counts *sum);

/* Starts its thread, which lives as long as it. -errno. */
int session_start(struct session *s);
void session_free(struct session *s);

/* Has its thread look. */
void session_wake(struct session *s);

/* It is to end. */
void session_stop_locked(struct session *s);

/*
 * Drops the lock meanwhile: @c, or all, fails with @err for the reason @why. @known: its trainer
 * knows, and is at no piece of it any more; else it is told.
 */
void session_fail_locked(struct session *s, struct capture *c, int err, const char *why,
			 bool known);
void session_fail_all_locked(struct session *s, int err, const char *why);

/*
 * All of it has come, or what has not will not: @c, which is on no list and has no tensor any more,
 * is freed. Without locks.
 */
void capture_end(struct capture *c);

/* @said without what would steer a terminal, in @text, as long. */
void printable(const char *said, char *text);

#endif
