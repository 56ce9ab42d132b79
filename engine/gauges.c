/* SPDX-License-Identifier: MIT */
/* The state of cache, flush, capture and units as metrics, from their status. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/capture/capture.h"
#include "engine/commit/report.h"
#include "engine/engine.h"
#include "engine/flush/flush.h"

/* The number at "part.key" of @status. */
static double number(const json_t *status, const char *part, const char *key)
{
	return json_number_value(json_object_get(json_object_get(status, part), key));
}

char *engine_metrics(struct engine *en, const char *node)
{
	static const struct {
		const char *part, *key, *name, *type, *help;
	} rows[] = {
		{"cache", "size", "cache_bytes", "gauge", "Size of the cache"},
		{"cache", "free", "cache_free_bytes", "gauge", "Cache that holds nothing"},
		{"cache", "dirty", "cache_dirty_bytes", "gauge", "Cache that waits to be flushed"},
		{"cache", "flying", "cache_flying_bytes", "gauge", "Cache that is being flushed"},
		{"cache", "clean", "cache_clean_bytes", "gauge",
		 "Cache that is on the backing too"},
		{"cache", "lent", "cache_lent_bytes", "gauge", "Cache that is lent to trainers"},
		{"cache", "absorbed", "absorbed_bytes_total", "counter",
		 "Bytes taken into the cache"},
		{"cache", "waiting", "stalled_writers", "gauge", "Writes that wait for room"},
		{"cache", "stalls", "stalls_total", "counter", "Writes that had to wait for room"},
		{"cache", "stalled_s", "stalled_seconds_total", "counter",
		 "Time that writes waited"},
		{"flush", "bytes", "flushed_bytes_total", "counter",
		 "Bytes written to the backing"},
		{"flush", "in_flight", "flush_in_flight", "gauge",
		 "Writes to the backing in flight"},
		{"flush", "retries", "flush_retries_total", "counter", "Writes tried again"},
		{"flush", "errors", "flush_errors_total", "counter", "Writes that failed for good"},
		{"capture", "sessions", "sessions", "gauge", "Trainers that write by handle"},
		{"capture", "pending_bytes", "capture_pending_bytes", "gauge",
		 "Bytes of tensors that are still to be captured"},
		{"capture", "captures", "captures_total", "counter", "Tensors written by handle"},
		{"capture", "captured_bytes", "captured_bytes_total", "counter",
		 "Bytes of tensors captured"},
		{"capture", "failed", "captures_failed_total", "counter",
		 "Tensors whose capture failed"},
		{"capture", "barriers", "barriers_total", "counter", "Update barriers passed"},
		{"capture", "timed_out", "barriers_timed_out_total", "counter",
		 "Update barriers whose time was up"},
		{"capture", "blocked_s", "barrier_seconds_total", "counter",
		 "Time that update barriers blocked trainers"},
		{"units", "committed", "committed_total", "counter", "Checkpoints published"},
		{"units", "failed", "failed_total", "counter", "Checkpoints that failed"},
	};
	json_t *status =
		en->units
			? json_pack("{s:o, s:o, s:o, s:o}", "cache", cache_to_json(en->cache),
				    "flush", flush_to_json(en->flush), "capture",
				    captures_counts(en->captures), "units", units_counts(en->units))
			: NULL;
	char *text = NULL;
	size_t size, i;
	FILE *f = open_memstream(&text, &size);

	for (i = 0; f && status && i < sizeof(rows) / sizeof(rows[0]); i++)
		fprintf(f,
			"# HELP ckptfs_%s %s\n# TYPE ckptfs_%s %s\nckptfs_%s{node=\"%s\"} %.15g\n",
			rows[i].name, rows[i].help, rows[i].name, rows[i].type, rows[i].name, node,
			number(status, rows[i].part, rows[i].key));
	if (f)
		fclose(f);
	json_decref(status);
	return text;
}
