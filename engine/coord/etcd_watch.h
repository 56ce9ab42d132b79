/* SPDX-License-Identifier: MIT */
/*
 * Keys as they are made: one stream of etcd's watch for all that a mount waits for, which is kept
 * from one wait to the next. A log is watched as a whole. Events have the values with them, so what
 * a wait has found is read here without a request.
 *
 * A stream is watched first and then listed: what is made before a watch begins would not come by
 * it, and one that begins at a revision of before, which others have left behind meanwhile, is
 * served by etcd up to 100 ms later.
 *
 * One thread waits at a time; the other functions may be called from any.
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
void etcd_watch_destroy(struct etcd_watch *w); /* NULL is none */

/* As coord_ops.wait. With @nr 0 the stream ends, as nobody waits for anything. */
int etcd_watch_wait(struct etcd_watch *w, struct etcd_awaited *keys, size_t nr, int wake,
		    uint64_t deadline_ns);

/* The value of @key, if it came by the stream and was not taken yet; owned by the caller. */
char *etcd_watch_take(struct etcd_watch *w, const char *key, size_t *len);

/* Was it seen? */
bool etcd_watch_has(struct etcd_watch *w, const char *key);

/* Since it was seen it was asked for, and is not there any more. */
void etcd_watch_gone(struct etcd_watch *w, const char *key);

/* All keys that begin with @prefix are removed. */
void etcd_watch_forget(struct etcd_watch *w, const char *prefix);

#endif
