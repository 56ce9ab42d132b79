/* SPDX-License-Identifier: MIT */
/*
 * Lazy capture: trainers write handles of tensors instead of bytes (client/ckptfs_abi.h), which
 * they copy themselves, later, into memory that is lent to them. The state providers of
 * DataStates-LLM, with the copy at the other end.
 *
 * - A session is of one process and lives as long: its end is seen by a pidfd, which comes from the
 *   peer of the one-time socket, since ids and descriptors may be of other namespaces or of forked
 *   children. What it has not captured then fails its file, and the checkpoint.
 * - A capture holds its generation open for changes (generation_write) and its bytes promised
 *   (content_promise) until all have come: it is not published meanwhile, and who reads waits.
 * - What a user may take is bounded: sessions (SESSIONS_MAX, each may have one request waiting),
 *   tensors, captures, and of the cache, as an arena counts as his.
 * - Pieces are granted in the order of the writes, host memory first, since it is what the CPU
 *   changes; a slot of the arena each, never across a chunk of the file. Each session has a thread,
 *   which moves what was reported from the arena into the cache. It may wait for room there; nobody
 *   waits for it but its own trainer, so a full cache makes captures wait and nothing else.
 *
 * Lock order: captures, session, then units and cache. No lock is held across a copy or anything
 * that waits.
 */
#ifndef ENGINE_CAPTURE_CAPTURE_H
#define ENGINE_CAPTURE_CAPTURE_H

#include <jansson.h>

#include "client/ckptfs_abi.h"
#include "engine/unit/unit.h"

/*
 * At a time, of one user, and in all: a request that waits for grants has one of the mount's
 * threads.
 */
#define SESSIONS_PER_UID 48
#define SESSIONS_MAX	 96

struct captures;
struct session;

struct capture_options {
	struct cache *cache;
	uint64_t bytes_per_s; /* captured at most, by all sessions together; 0: as fast as can be */
	enum ckptfs_check check;
	bool (*decide)(void); /* may be NULL; as of engine_start */
};

/* 0 or -ENOMEM. All of @o outlives it. */
int captures_create(struct captures **out, const struct capture_options *o);

/* The mount is there: where sockets are bound, on which device. Before any call. */
void captures_mounted(struct captures *cs, const char *control_dir, dev_t dev);

/*
 * Ends all sessions, what is not captured fails, and waits for their threads. Before the units end.
 */
void captures_stop(struct captures *cs);
void captures_destroy(struct captures *cs); /* NULL is none */

/*
 * @name is being made: is it that of a socket which a session is about to bind? Then it is there
 * from here on.
 */
bool captures_make_socket(struct captures *cs, const char *name);

/* Is it that of one which waits for its process? */
bool captures_has_socket(struct captures *cs, const char *name);

/*
 * What each ioctl does, for a caller of @uid. 0 or -errno as ckptfs_abi.h says; -EINTR. @h, @n,
 * @st: in and out. @handle: by which the control file is open. Sizes and numbers in them are
 * checked here.
 */
int captures_hello(struct captures *cs, uid_t uid, uint64_t handle, struct ckptfs_hello *h);
int captures_register(struct captures *cs, uid_t uid, const struct ckptfs_register *r);
int captures_unregister(struct captures *cs, uid_t uid, const struct ckptfs_unregister *u);
int captures_next(struct captures *cs, uid_t uid, const struct ckptfs_next *in,
		  struct ckptfs_next *out);
int captures_fail(struct captures *cs, uid_t uid, const struct ckptfs_fail *f);
int captures_barrier(struct captures *cs, uid_t uid, const struct ckptfs_barrier *b);
int captures_stats(struct captures *cs, uid_t uid, struct ckptfs_stats *st);
int captures_bye(struct captures *cs, uid_t uid, const struct ckptfs_bye *b);

/*
 * Nobody has the control file open any more by @handle, which said HELLO: what it began is over, as
 * with BYE.
 */
void captures_closed(struct captures *cs, uint64_t handle);

/* WRITE, to the file of @g; @key as of generation_write. */
int captures_write(struct captures *cs, uid_t uid, struct generation *g, uint64_t key,
		   const struct ckptfs_write *w);

/*
 * {sessions, pending_bytes, captured_bytes, failed, barriers, blocked_s, ...} of all sessions since
 * the mount began.
 */
json_t *captures_counts(struct captures *cs);

/* Appends the last captures and barriers to the list of a Chrome trace. */
void captures_trace(struct captures *cs, uid_t viewer, bool all, json_t *events);

/* [{pid, rank, pending, pending_bytes, ...}], of @viewer's sessions or all. */
json_t *captures_to_json(struct captures *cs, uid_t viewer, bool all);

#endif
