/* SPDX-License-Identifier: MIT */
/*
 * The flush engine: takes chunks that are due out of the cache, digests them, and writes them to
 * the backing, flush_depth at a time and no faster than flush_bw.
 *
 * What is written short is written on from where it stopped; what fails in a way that may pass is
 * tried again with growing pauses for io_retry_s, while its bytes stay cached; any other error is
 * the content's for good (content_fail).
 */
#ifndef ENGINE_FLUSH_FLUSH_H
#define ENGINE_FLUSH_FLUSH_H

#include <jansson.h>
#include <stdbool.h>

#include "engine/content/content.h"

#define FLUSH_DEPTH_DEFAULT 32

struct flush;

struct flush_limits {
	unsigned depth;
	uint64_t bytes_per_s; /* 0: no limit */
	unsigned retry_s;
	bool uring;
};

/* Starts its threads. @contents must outlive it. 0 or -errno with @e filled. */
int flush_create(struct flush **out, struct contents *contents, const struct flush_limits *limits,
		 struct error *e);

/* After the last content was written back or discarded: ends the threads. */
void flush_destroy(struct flush *f);

/* {"engine": "io_uring"|"threads", "in_flight", "retrying", "bytes", "errors", ...} */
json_t *flush_to_json(struct flush *f);

/* Is @err (negative) one that may pass by itself? */
bool flush_error_may_pass(int err);

/* For how long it is tried again, where that is usually @retry_ns: a full backing stays so. */
uint64_t flush_patience_ns(int err, uint64_t retry_ns);

#endif
