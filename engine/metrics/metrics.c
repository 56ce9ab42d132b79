/* SPDX-License-Identifier: MIT */
#include "engine/metrics/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/cleanup.h"

const uint64_t metric_bucket_us[METRIC_BUCKETS - 1] = {10,     100,	1000,	 10000,
						       100000, 1000000, 10000000};

void metrics_request(struct metrics *m, unsigned opcode, uint64_t took_ns, int failed)
{
	struct op_metrics *op = &m->ops[opcode < METRIC_OPS ? opcode : 0];
	size_t b = 0;

	while (b < METRIC_BUCKETS - 1 && took_ns > metric_bucket_us[b] * 1000)
		b++;
	atomic_fetch_add_explicit(&op->requests, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&op->busy_ns, took_ns, memory_order_relaxed);
	atomic_fetch_add_explicit(&op->buckets[b], 1, memory_order_relaxed);
	if (failed)
		atomic_fetch_add_explicit(&op->errors, 1, memory_order_relaxed);
}

static void print_header(FILE *f, const char *name, const char *type, const char *help)
{
	fprintf(f, "# HELP ckptfs_%s %s\n# TYPE ckptfs_%s %s\n", name, help, name, type);
}

static void print_ops(FILE *f, struct metrics *m, const char *node,
		      const char *(*op_name)(unsigned opcode))
{
	unsigned i;

	print_header(f, "request_errors_total", "counter", "Requests answered with an error");
	for (i = 0; i < METRIC_OPS; i++)
		if (op_name(i) && m->ops[i].requests)
			fprintf(f,
				"ckptfs_request_errors_total{node=\"%s\",op=\"%s\"} %" PRIuFAST64
				"\n",
				node, op_name(i), m->ops[i].errors);
	print_header(f, "request_seconds", "histogram", "Time to answer a request");
	for (i = 0; i < METRIC_OPS; i++) {
		uint64_t sum = 0;
		size_t b;

		if (!op_name(i) || !m->ops[i].requests)
			continue;
		for (b = 0; b < METRIC_BUCKETS; b++) {
			char le[32] = "+Inf";

			sum += m->ops[i].buckets[b];
			if (b < METRIC_BUCKETS - 1)
				snprintf(le, sizeof(le), "%g", (double)metric_bucket_us[b] / 1e6);
			fprintf(f,
				"ckptfs_request_seconds_bucket{node=\"%s\",op=\"%s\",le=\"%s\"} "
				"%" PRIu64 "\n",
				node, op_name(i), le, sum);
		}
		fprintf(f,
			"ckptfs_request_seconds_sum{node=\"%s\",op=\"%s\"} %.6f\n"
			"ckptfs_request_seconds_count{node=\"%s\",op=\"%s\"} %" PRIu64 "\n",
			node, op_name(i), (double)m->ops[i].busy_ns / 1e9, node, op_name(i), sum);
	}
}

char *metrics_prometheus(struct metrics *m, const char *node, uint64_t failures,
			 const char *(*op_name)(unsigned opcode))
{
	const struct {
		const char *name, *type, *help;
		uint64_t value;
	} simple[] = {
		{"read_bytes_total", "counter", "Bytes read through the daemon", m->read_bytes},
		{"written_bytes_total", "counter", "Bytes written", m->written_bytes},
		{"interrupted_total", "counter", "Requests interrupted while the backing held them",
		 m->interrupted},
		{"failures_total", "counter",
		 "Failures that programs and saves met, as failures.json tells of them", failures},
		{"passthrough_opens_total", "counter", "Opens served by kernel passthrough",
		 m->passthrough_opens},
		{"open_handles", "gauge", "Open files and directories", m->open_handles},
		{"nodes", "gauge", "Files and directories that the kernel remembers", m->nodes},
		{"pinned_fds", "gauge", "Descriptors that pin them", m->pinned_fds},
		{"threads", "gauge", "Threads that serve requests", m->threads},
		{"queued_requests", "gauge", "Requests waiting for a thread", m->queued},
	};
	char *text = NULL;
	size_t size, i;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	for (i = 0; i < ARRAY_SIZE(simple); i++) {
		print_header(f, simple[i].name, simple[i].type, simple[i].help);
		fprintf(f, "ckptfs_%s{node=\"%s\"} %" PRIu64 "\n", simple[i].name, node,
			simple[i].value);
	}
	print_ops(f, m, node, op_name);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}
