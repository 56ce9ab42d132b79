/* SPDX-License-Identifier: MIT */
/*
 * Lazy capture: trainers write handles of tensors instead of bytes (client/ckptfs_abi.h). They copy
 * the bytes themselves, later, into memory that the daemon lends them. These are the state
 * providers of DataStates-LLM, with the copy at the other end.
 *
 * - A session belongs to one process and ends with it. The daemon sees that end by a pidfd of the
 *   peer of the one-time socket, since ids and descriptors may be of other namespaces or of forked
 *   children. What the session has not captured then fails its file, and the checkpoint.
 * - A capture holds its generation open for changes (generation_write) and its bytes promised
 *   (content_promise) until all have come. Meanwhile the generation is not published, and a reader
 *   waits.
 * - What a user may take is bounded: sessions (SESSIONS_MAX, each may have one request waiting),
 *   tensors, captures, and the cache, since lent memory counts as the user's.
 * - Pieces are granted in the order of the writes, host memory first, since the CPU changes it.
 *   A piece never crosses a chunk of the file, and lies in lent memory (cache/loan.h) where it lies
 *   in its chunk. Each session has a thread, which makes chunks of what was reported, mostly
 *   without a copy. The thread may wait for a flush, but only its own trainer waits for the thread.
 *   So a full cache delays captures and nothing else.
 *
 * Lock order: captures, session, then units and cache. No lock is held across a copy or anything
 * that waits.
 */
#ifndef ENGINE_CAPTURE_CAPTURE_H
#define ENGINE_CAPTURE_CAPTURE_H

#include <jansson.h>

#include "client/ckptfs_abi.h"
#include "engine/save/generation.h"

/*
 * Sessions at a time, of one user and in all. Each may hold one of the mount's threads, in a
 * request that waits for grants: with more sessions none might be left for other requests.
 */
#define SESSIONS_PER_UID 48
#define SESSIONS_MAX	 96

struct captures;
struct session;

struct capture_options {
	struct cache *cache;
	uint64_t bytes_per_s; /* of all sessions together, at most; 0: no limit */
	enum ckptfs_check check;
	bool (*decide)(void); /* may be NULL; as for engine_start */
};

/* 0 or -ENOMEM. What @o points to must outlive the captures. */
int captures_create(struct captures **out, const struct capture_options *o);

/* Called once the mount is there, before any request: the directory and device for sockets. */
void captures_mounted(struct captures *cs, const char *control_dir, dev_t dev);

/*
 * Ends all sessions and waits for their threads; what is not captured fails. Called before the
 * units end.
 */
void captures_stop(struct captures *cs);
void captures_destroy(struct captures *cs); /* NULL is fine */

/*
 * The file @name is being made. True if it is a socket that a session is about to bind: from here
 * on captures_has_socket finds it.
 */
bool captures_make_socket(struct captures *cs, const char *name);

/* True if @name is the socket of a session that waits for its process. */
bool captures_has_socket(struct captures *cs, const char *name);

/*
 * What each ioctl does, for a caller of @uid. 0 or -errno as ckptfs_abi.h says; -EINTR. @h, @st: in
 * and out. @handle: the open control file. Sizes and numbers in the arguments are checked here.
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

/* The control file that said HELLO by @handle is closed for good: its sessions end, as with BYE. */
void captures_closed(struct captures *cs, uint64_t handle);

/* WRITE, to the file of @g; @key as for generation_write. */
int captures_write(struct captures *cs, uid_t uid, struct generation *g, uint64_t key,
		   const struct ckptfs_write *w);

/*
 * {sessions, pending_bytes, captured_bytes, failed, barriers, blocked_s, ...} of all sessions since
 * the mount began.
 */
json_t *captures_counts(struct captures *cs);

/* Appends the last captures and barriers to the list of a Chrome trace. */
void captures_trace(struct captures *cs, uid_t viewer, bool all, json_t *events);

/* [{pid, rank, pending, pending_bytes, ...}], of the sessions of @viewer, or of all. */
json_t *captures_to_json(struct captures *cs, uid_t viewer, bool all);

#endif
