/* SPDX-License-Identifier: MIT */
/*
 * Private to engine/capture: a session, and its captures. session.c: a session is found, referenced
 * and woken. slot.c: its lent memory. capture_end.c: its captures land or fail. slot_land.c,
 * session_thread.c: its thread.
 */
#ifndef ENGINE_CAPTURE_SESSION_H
#define ENGINE_CAPTURE_SESSION_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "engine/base/cleanup.h"
#include "engine/base/table.h"
#include "engine/base/wait.h"
#include "engine/cache/loan.h"
#include "engine/calls/provider.h"
#include "engine/capture/capture.h"
#include "engine/capture/trace.h"

/* What sessions did, and wait for. */
struct session_counts {
	struct ckptfs_stats stats;
	uint64_t copied; /* bytes that landed by a second copy */
	uint64_t barriers, barrier_ns, timed_out;
};

struct captures {
	struct capture_options options; /* const */
	char *control_dir;		/* const once mounted, as is @dev */
	dev_t dev;
	atomic_uint_fast64_t paced_ns; /* monotonic: capture_bw allows no grant before */
	struct lock lock;	       /* for all below */
	struct waitq gone;	       /* woken when a session has ended */
	struct list sessions;
	unsigned nr, rows;
	bool ending;
	struct session_counts past; /* of sessions that have ended */
	struct trace trace;	    /* has its own lock */
};

/* Bytes of a tensor that a file is to get. */
struct capture {
	struct list link; /* session->waiting until all of it is granted; then ->granted */
	uint64_t seq, src_off;
	struct tensor *tensor; /* referenced */
	struct provided owed;
	struct notice *notice;		       /* sent if it fails */
	struct list pieces;		       /* piece->of_capture: those not landed */
	uint64_t nr_granted, nr_landed;	       /* bytes */
	uint64_t written_ns, begin_ns, end_ns; /* as in struct traced */
	bool landing;			       /* the thread is landing a piece of it */
	bool failed, told; /* told: its generation knows; the last user ends it */
};

/* Tells the trainer that a capture has failed. */
struct notice {
	struct list link; /* session->notices */
	uint64_t seq;
	int err;
};

/* A grant: bytes of one capture. They lie in the slot where they lie in their chunk of the file. */
struct piece {
	struct table_node node; /* session->granted_pieces, until it is reported */
	struct list of_slot, of_capture;
	struct slot *slot;
	struct capture *capture; /* NULL: it has failed */
	struct capture *landing; /* the same; the thread is landing the slot */
	uint64_t nr, seq;	 /* seq: of its capture */
	uint32_t at, len;	 /* in the slot */
	bool reported;
};

/* What is put together in lent memory for one chunk of a file. */
struct slot {
	struct list link; /* session->slots; session->done once nothing is added any more */
	struct chunk *chunk;
	const struct generation *generation; /* that of its captures */
	uint64_t index;			     /* of the chunk in the file */
	uint32_t end;			     /* of the last piece */
	struct list pieces;		     /* in the order of the file */
	unsigned nr, nr_out;		     /* pieces; those not reported yet */
	bool spoilt;			     /* a capture has failed, and the file with it */
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
	int wake;			/* eventfd: the thread has something to do */
	struct lock lock;
	/* lock: lock, unless noted */
	unsigned refs; /* captures->lock */
	enum session_state state;
	bool offered;  /* the socket has its name, and no process has come */
	int listening; /* the socket, until a process comes; else -1 */
	int err;       /* SESSION_ENDED before SESSION_LIVES: why */
	pid_t pid;
	bool bye, closed;  /* BYE was said; the control file was closed */
	struct loan *loan; /* NULL: it has ended, and so has the session */
	struct table granted_pieces;
	struct list slots, done;
	struct slot *open;    /* one of slots, to which pieces may be added; or NULL */
	struct table tensors; /* of struct tensor */
	uint64_t last_seq, last_grant;
	uint64_t turn; /* number of the request that waits for grants: one at a time */
	struct list waiting, granted, notices; /* captures, captures */
	struct waitq changed;
	struct session_counts counts;
};

/* The session of @uid with this id, referenced; NULL: none. It may have ended. */
struct session *session_find(struct captures *cs, uid_t uid, uint64_t id);
void session_put(struct session *s);
void session_put_at_end(struct session **s);
/* 0; -ENOENT: it does not live (any more). */
int session_check_alive_locked(const struct session *s);

/* Finds the session of a call and locks it; the end of the block unlocks and drops it. */
#define SESSION_SCOPE(s, cs, uid, id) \
	__cleanup(session_put_at_end) struct session *s = session_find(cs, uid, id); \
	if (!s) \
		return -ENOENT; \
	LOCK_SCOPE(&s->lock); \
	if (session_check_alive_locked(s)) \
	return -ENOENT

/* True: the request of this thread will get its result. False: it was given up, with -EINTR. */
bool captures_decide(const struct captures *cs);

/* The registered tensor of this id, or NULL. */
struct tensor *tensor_find_locked(struct session *s, uint64_t id);

void session_add_counts(const struct session *s, struct session_counts *sum);

/* The session has no slots: it never lived, or its thread has ended. */
void session_free(struct session *s);

/* Wakes the session's thread. */
void session_wake(struct session *s);

/* Wakes the session's thread to end; the caller has set the reason. */
void session_stop_locked(struct session *s);

/* Copies @said to @text, of the same length, with '?' for what would steer a terminal. */
void printable(const char *said, char *text);

/* --- slots (slot.c) --- */

/*
 * Grants the next bytes of @c, which waits. A piece never crosses a chunk of the file. NULL: there
 * is no room, or no memory.
 */
struct piece *slot_grant_locked(struct session *s, struct capture *c);

/* True if the next capture that waits can be granted a piece. */
bool slot_has_room_locked(struct session *s);

/* Nothing is added to the open slot any more. */
void slot_close_locked(struct session *s);

/* The granted piece of that number that is not reported; NULL: none. */
struct piece *slot_find_piece_locked(struct session *s, uint64_t nr);

/* The trainer has done with @p. */
void slot_report_locked(struct session *s, struct piece *p);

/*
 * The pieces of @c are of no use any more. @known: the trainer copies none of them now; else a
 * granted piece keeps its place until the trainer reports it.
 */
void slots_void_locked(struct session *s, struct capture *c, bool known);

/*
 * The trainer copies no piece of the capture @seq (0: of any) that has failed before. It may have
 * failed on both sides at once, and then the trainer reports none of its pieces.
 */
void slots_given_up_locked(struct session *s, uint64_t seq);

void slot_free_locked(struct session *s, struct slot *slot);

/* Frees all slots at the end of the session. */
void slots_free_locked(struct session *s);

/* --- capture_end.c --- */

/*
 * Fails @c, or all captures, with @err for the reason @why. Drops the lock meanwhile. @known: the
 * trainer knows, and copies no piece of it any more; else the trainer is told.
 */
void session_fail_locked(struct session *s, struct capture *c, int err, const char *why,
			 bool known);
void session_fail_all_locked(struct session *s, int err, const char *why);

/*
 * @len bytes of @c have landed, whose `landing` was set; @err: its file has failed. Drops the lock
 * meanwhile.
 */
void session_landed_locked(struct session *s, struct capture *c, uint32_t len, int err);

/*
 * Ends and frees @c, which is on no list and has no tensor any more: all of it has come, or the
 * rest will not. Called without locks.
 */
void capture_end(struct capture *c);

/* --- slot_land.c --- */

/* Moves a slot that is done to its file. Drops the lock meanwhile. */
void slot_land_locked(struct session *s, struct slot *slot);

/* --- session_thread.c --- */

/* Starts the session's thread, which lives as long as the session. 0 or -errno. */
int session_start(struct session *s);

#endif
