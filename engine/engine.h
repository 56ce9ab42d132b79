/* SPDX-License-Identifier: MIT */
/*
 * The engine of one mount: all of ckptfs that knows nothing of FUSE. fs/ gets the handles of the
 * rooms from struct engine, and calls each room by its door (tests/lint/includes.py lists them).
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/backing/backing.h"
#include "engine/base/lock.h"
#include "engine/commit/start.h"
#include "engine/config/config.h"
#include "engine/coord/choice.h"
#include "engine/coord/coord.h"
#include "engine/format/format.h"
#include "engine/metrics/metrics.h"

struct cache;
struct captures;
struct contents;
struct error;
struct failures;
struct flush;
struct nodes;
struct rules;

struct engine {
	struct config config;	/* const after engine_open */
	struct backing backing; /* const after engine_open */
	struct format format;	/* const after engine_open */
	struct metrics metrics;
	struct failures *failures;
	struct failures *notices; /* what is accepted but not protected */
	uint64_t started_ns;	  /* wall clock */
	struct cache *cache; /* these five: NULL until engine_start, and in a read-only mount */
	struct contents *contents;
	struct flush *flush;
	struct units *units;
	struct captures *captures;
	struct rules *rules; /* const after engine_open */
	struct coord coord;  /* const after engine_meet; not in a read-only mount */
	struct nodes *nodes; /* NULL: no other node knows of this mount; const after engine_meet */
	char alone[128];     /* the reason */
	char unsafe[COORD_WHY_MAX]; /* why several nodes may not share this backing; "": they may */
	struct lock ending;	    /* engine_no_more_calls: a second call waits for the first */
};

/*
 * Opens the backing at @path with the options in @config, which the engine takes over (also on
 * failure). Makes BACKING/.ckptfs where it may. Single-threaded; switches this process's
 * credentials as creds_init does. Returns 0 or -errno with @e filled; undo with engine_close.
 */
int engine_open(struct engine *en, struct config *config, const char *path, struct error *e);
void engine_close(struct engine *en);

/*
 * Makes this mount known to other nodes by its @label, which a lock in the directory @place of this
 * host holds. Calls @waits often while that takes. Without this call the mount is alone, as a
 * read-only one is. Called before engine_start, in the process that will serve. 0; or -errno with
 * @e filled: it cannot work together with a node that is there, or not in the way of option coord.
 * engine_close ends it.
 */
int engine_meet(struct engine *en, const char *label, const char *place, void (*waits)(void *arg),
		void *arg, struct error *e);

/*
 * {"backend", "state": "safe"|"unsafe"|"alone"|"outage", "why", ...}: how the nodes coordinate, and
 * what is seen of the others.
 */
json_t *engine_coord(struct engine *en);

/*
 * Takes the cache's memory and starts the threads, in the process that will serve. @node: label of
 * the mount, which outlives the engine. @decide: from here on the request that this thread serves
 * can no longer be given up; false: it was given up. NULL: none ever is. 0 or -errno with @e
 * filled.
 */
int engine_start(struct engine *en, const char *node, bool (*decide)(void), struct error *e);

/*
 * Ends the threads; what is not published by now stays in staging. Called before what
 * units_set_knower was given goes. engine_close calls it, too.
 */
void engine_stop(struct engine *en);

/* What is not on the backing yet. */
struct engine_pending {
	struct units_progress units;
	uint64_t dirty_bytes; /* in the cache, of all files */
};
void engine_pending(struct engine *en, struct engine_pending *p);

/* Metrics of cache, flush, capture and units, as Prometheus text. Malloced, or NULL. */
char *engine_metrics(struct engine *en, const char *node);

/*
 * Publishes every closed file, and flushes the rest. 0; -ETIMEDOUT: @deadline_ns (monotonic) has
 * passed; -EIO: something closed could not be published, see failures.json.
 */
int engine_drain(struct engine *en, uint64_t deadline_ns);

/*
 * The mount has gone. What no call can complete any more is given up, and is listed in
 * failures.json when this returns, whichever thread calls first.
 */
void engine_no_more_calls(struct engine *en, const char *mountpoint);

#endif
