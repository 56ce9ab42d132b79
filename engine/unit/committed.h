/* SPDX-License-Identifier: MIT */
/*
 * The directory checkpoints that this node has committed just now, for a thread that reads them
 * afterwards. Nothing waits for that thread: of more than COMMITTED_MAX that wait for it, the
 * oldest is left out.
 */
#ifndef ENGINE_UNIT_COMMITTED_H
#define ENGINE_UNIT_COMMITTED_H

#include "engine/base/list.h"
#include "engine/unit/unit.h"

#define COMMITTED_MAX 64

struct checkpoint;

struct committed {
	struct list link;
	int fd;		     /* of its directory */
	struct caller owner; /* whose files they are */
	char *path;	     /* relative to the backing, when it was committed */
};

/* @cp, at @path, is committed. No effect while no thread has begun to take them. */
void committed_add(struct checkpoint *cp, const char *path);

/*
 * Waits for the next one. The caller releases it with committed_free. -ECANCELED: committed_stop
 * was called, or the units have ended; then none comes any more.
 */
int committed_take(struct units *us, struct committed **out);
void committed_free(struct committed *c); /* accepts NULL */

/* Releases what no thread has taken. */
void committed_finish(struct units *us);

/* Ends all calls of committed_take. The units outlive the thread that makes them. */
void committed_stop(struct units *us);

#endif
