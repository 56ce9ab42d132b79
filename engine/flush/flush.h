/* SPDX-License-Identifier: MIT */
/*
 * The flush engine: takes due chunks out of the cache, digests them, and writes them to the
 * backing, flush_depth at a time and no faster than flush_bw. Several workers digest at once,
 * chunks of one file too. One io engine (io.h) writes what they hand over.
 *
 * A short write goes on where it stopped. A write with an error that may pass is repeated for
 * io_retry_s, with growing pauses, while its bytes stay cached. Any other error is the content's
 * for good (content_fail). Its state is under the cache's lock.
 */
#ifndef ENGINE_FLUSH_FLUSH_H
#define ENGINE_FLUSH_FLUSH_H

#include <jansson.h>
#include <stdbool.h>

#include "engine/content/content.h"

#define FLUSH_DEPTH_DEFAULT 32
#define FLUSH_WORKERS_MAX   DIGEST_STREAMS /* more would digest more pieces than pass at a time */

struct flush;

struct flush_limits {
	unsigned depth;
	unsigned workers;     /* threads that digest: clamped to 1 to FLUSH_WORKERS_MAX */
	uint64_t bytes_per_s; /* 0: no limit */
	unsigned retry_s;
	bool uring;
};

/* The default of parser_threads: the CPUs of this process, at most 4. */
unsigned flush_default_workers(void);

/* Starts its threads. @contents must outlive it. Returns 0 or -errno with @e filled. */
int flush_create(struct flush **out, struct contents *contents, const struct flush_limits *limits,
		 struct error *e);

/* Ends the threads. Called after the last content was written back or discarded. */
void flush_destroy(struct flush *f);

/* {"engine": "io_uring"|"threads", "in_flight", "retrying", "bytes", "errors", ...} */
json_t *flush_to_json(struct flush *f);

/* True if @err (negative) may pass by itself. */
bool flush_error_may_pass(int err);

/* How long to repeat a write with @err: @retry_ns, or less if the backing is full. */
uint64_t flush_patience_ns(int err, uint64_t retry_ns);

#endif
