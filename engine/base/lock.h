/* SPDX-License-Identifier: MIT */
/*
 * Locks, and the order in which a thread takes them.
 *
 *	struct lock lock;			in a struct; lock_init(&x->lock, LOCK_UNITS)
 *	static struct lock l = LOCK_INIT(LOCK_LOG);
 *	{
 *		LOCK_SCOPE(&x->lock);		held until the end of the block
 *	}
 *
 * - A thread that holds a lock takes only locks further down in enum lock_rank, and no second lock
 *   of the same rank. So threads never wait for each other in a circle.
 * - A build with DEBUG=1 or SAN=... checks the order at each take. A violation ends the program
 *   with the names of both locks. Other builds have no check and no cost.
 * - The caller of a function whose name ends in _locked holds the lock of its module before and
 *   after the call. If its comment says that the function drops the lock, other threads run in
 *   between.
 * - Locks are not recursive. A thread holds no lock across a system call that may block, a copy, or
 *   a reply to FUSE, except where the rank below says so.
 */
#ifndef ENGINE_BASE_LOCK_H
#define ENGINE_BASE_LOCK_H

#include <pthread.h>

#include "engine/base/cleanup.h"

/* A thread takes locks from the top of this list down. */
enum lock_rank {
	LOCK_ENDING,	     /* engine.h: one stop at a time; held while the engine stops */
	LOCK_CONTROL_SOCKET, /* fs/control_socket.c */
	LOCK_HANDLE_DIR,     /* fs/tree.h: one listing of a directory; held across it */
	LOCK_COPIED_COMMIT,  /* fs/copied_commit.c */
	LOCK_REQUESTS,	     /* fs/requests.c */
	LOCK_TREE,	     /* fs/tree.c: calls units to resolve names */
	LOCK_RECEIVER,	     /* fs/receive.c */
	LOCK_INDEXER,	     /* fs/indexer.c: which process runs */
	LOCK_VIEWS_MAKING,   /* fs/views.c: one view is made at a time */
	LOCK_VIEWS,	     /* fs/views_node.c: the table of nodes */
	LOCK_CAPTURES,	     /* capture/capture.c: the list of sessions */
	LOCK_SESSION,	     /* capture/session.c: one session */
	LOCK_TRACE,	     /* capture/trace.c */
	LOCK_UNITS,	     /* unit/: all generations and checkpoints */
	LOCK_NODES,	     /* coord/nodes.c */
	LOCK_COORD,	     /* coord/etcd_conn.c; held while a connection is taken from the pool */
	LOCK_COORD_WATCH,    /* coord/etcd_watch.c */
	LOCK_JOBS,	     /* liveness/job.c */
	LOCK_CACHE,	     /* cache/cache.c: chunks, and all contents */
	LOCK_DIGEST,	     /* content/digest.c: one file's */
	LOCK_IO,	     /* flush/io_*.c */
	LOCK_FAILURES,	     /* metrics/failures.c */
	LOCK_CREDS,	     /* backing/creds.c */
	LOCK_LOG,	     /* base/log.c */
	LOCK_RANKS
};

struct lock {
	pthread_mutex_t mutex;
	enum lock_rank rank;
};

#define LOCK_INIT(r) \
	{ \
		.mutex = PTHREAD_MUTEX_INITIALIZER, .rank = (r) \
	}

void lock_init(struct lock *l, enum lock_rank rank);
void lock_finish(struct lock *l);

/* The checks behind the functions below. */
void lock_check_take(const struct lock *l);
void lock_check_drop(const struct lock *l);
void lock_check_held(const struct lock *l);
void lock_check_alone(const struct lock *l);

#ifdef CKPTFS_LOCK_CHECK
#define LOCK_CHECK(what, l) lock_check_##what(l)
#else
#define LOCK_CHECK(what, l) ((void)(l))
#endif

static inline void lock_take(struct lock *l)
{
	LOCK_CHECK(take, l);
	pthread_mutex_lock(&l->mutex);
}

static inline void lock_drop(struct lock *l)
{
	LOCK_CHECK(drop, l);
	pthread_mutex_unlock(&l->mutex);
}

/* Checks that this thread holds @l. */
static inline void lock_assert_held(const struct lock *l)
{
	LOCK_CHECK(held, l);
}

static inline struct lock *lock_taken(struct lock *l)
{
	lock_take(l);
	return l;
}

static inline void lock_let_go(struct lock **l)
{
	lock_drop(*l);
}

/* Holds @l until the end of the enclosing block. Make that block short and visible. */
#define LOCK_SCOPE(l) \
	__attribute__((unused)) __cleanup(lock_let_go) struct lock *lock_scope_ = lock_taken(l)

#endif
