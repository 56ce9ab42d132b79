/* SPDX-License-Identifier: MIT */
/*
 * Counters of one mount. No lock: a reader stops no writer, so two counters may be of slightly
 * different moments.
 */
#ifndef ENGINE_METRICS_METRICS_H
#define ENGINE_METRICS_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

#define METRIC_OPS 64 /* all FUSE opcodes in use are lower; others count as 0 */

/* Upper bounds of the latency buckets, in microseconds; the last bucket has none. */
#define METRIC_BUCKETS 8
extern const uint64_t metric_bucket_us[METRIC_BUCKETS - 1];

struct op_metrics {
	atomic_uint_fast64_t requests;
	atomic_uint_fast64_t errors;
	atomic_uint_fast64_t busy_ns;
	atomic_uint_fast64_t buckets[METRIC_BUCKETS];
};

struct metrics {
	struct op_metrics ops[METRIC_OPS];
	atomic_uint_fast64_t read_bytes;
	atomic_uint_fast64_t written_bytes;
	atomic_uint_fast64_t interrupted; /* requests answered EINTR while the backing held them */
	atomic_uint_fast64_t open_handles;
	atomic_uint_fast64_t nodes;
	atomic_uint_fast64_t pinned_fds;
	atomic_uint_fast64_t threads;
	atomic_uint_fast64_t queued;
	atomic_uint_fast64_t passthrough_opens;
};

/* Counts one finished request. */
void metrics_request(struct metrics *m, unsigned opcode, uint64_t took_ns, int failed);

/*
 * Prometheus text exposition format; every series has the label node="@node". @op_name: the name of
 * an opcode, or NULL if ckptfs does not use it. Returns a malloced string, NULL without memory.
 */
char *metrics_prometheus(struct metrics *m, const char *node, uint64_t failures,
			 const char *(*op_name)(unsigned opcode));

#endif
