/* SPDX-License-Identifier: MIT */
/*
 * Waits until keys are made. One stream of etcd's watch serves all that a mount waits for, and is
 * kept from one wait to the next. A log is watched as a whole. An event has the value with it, so
 * what a wait has found is read here without a request.
 *
 * The watch begins first, and a listing follows: the stream does not report what was made before. A
 * watch that begins at an earlier revision, which others have left behind meanwhile, is served by
 * etcd up to 100 ms later.
 *
 * One thread waits at a time; the other functions may be called from any. The lock guards the keys
 * that were seen, and is not held during a request.
 */
#ifndef ENGINE_COORD_ETCD_WATCH_H
#define ENGINE_COORD_ETCD_WATCH_H

#include "engine/coord/etcd_query.h"

struct etcd_watch;

struct etcd_awaited {
	char key[ETCD_KEY_MAX];
	/* what is watched for it: a prefix that ends with a dot, or the key itself */
	char range[ETCD_KEY_MAX];
	bool there; /* set by the wait */
};

/* NULL: no memory. @etcd has to live longer. */
struct etcd_watch *etcd_watch_create(struct etcd *etcd);
void etcd_watch_destroy(struct etcd_watch *w); /* NULL is fine */

/* As coord_ops.wait. @nr 0 ends the stream, as no one waits for anything. */
int etcd_watch_wait(struct etcd_watch *w, struct etcd_awaited *keys, size_t nr, int wake,
		    uint64_t deadline_ns);

/* The value of @key, if the stream brought it and it was not taken yet; owned by the caller. */
char *etcd_watch_take(struct etcd_watch *w, const char *key, size_t *len);

/* True if @key was seen. */
bool etcd_watch_has(struct etcd_watch *w, const char *key);

/* A request has found that @key, seen before, does not exist any more. */
void etcd_watch_gone(struct etcd_watch *w, const char *key);

/* Forgets all keys that begin with @prefix: they are removed. */
void etcd_watch_forget(struct etcd_watch *w, const char *prefix);

#endif
