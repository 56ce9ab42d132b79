/* SPDX-License-Identifier: MIT */
#include "engine/capture/trace.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/base/lock.h"

#define UNITS_ROWS 1 /* "pid" of the rows of the units */

void trace_init(struct trace *t)
{
	lock_init(&t->lock, LOCK_TRACE);
}

void trace_finish(struct trace *t)
{
	size_t i;

	for (i = 0; i < TRACE_KEPT; i++)
		tensor_put(t->ring[i].tensor);
	lock_finish(&t->lock);
}

void trace_add(struct trace *t, const struct traced *entry)
{
	struct traced *slot;
	LOCK_SCOPE(&t->lock);

	slot = &t->ring[t->nr++ % TRACE_KEPT];
	tensor_put(slot->tensor);
	*slot = *entry;
}

static double us(uint64_t ns)
{
	return (double)ns / 1e3;
}

/* Captures overlap: each is an asynchronous event, and viewers stack those of one time. */
static void add_span(json_t *events, const struct traced *e, uint64_t id, const char *what,
		     uint64_t from, uint64_t to)
{
	json_int_t row = (json_int_t)e->row + UNITS_ROWS;

	if (!from || to < from)
		return;
	json_array_append_new(
		events,
		json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:f, s:{s:o, s:s, s:I, s:i, s:b}}",
			  "name", what, "cat", "capture", "ph", "b", "id", (json_int_t)id, "pid",
			  row, "tid", row, "ts", us(from), "args", "tensor",
			  json_text(e->tensor->name), "generation", e->staging, "bytes",
			  (json_int_t)e->bytes, "rank", e->rank, "failed", e->failed));
	json_array_append_new(events, json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:f}", "name", what,
						"cat", "capture", "ph", "e", "id", (json_int_t)id,
						"pid", row, "tid", row, "ts", us(to)));
}

static void add_row(json_t *events, const struct traced *e)
{
	char name[64];

	if (e->rank >= 0)
		snprintf(name, sizeof(name), "captures of rank %d (process %d)", e->rank,
			 (int)e->pid);
	else
		snprintf(name, sizeof(name), "captures of process %d", (int)e->pid);
	json_array_append_new(events, json_pack("{s:s, s:s, s:I, s:{s:s}}", "name", "process_name",
						"ph", "M", "pid", (json_int_t)e->row + UNITS_ROWS,
						"args", "name", name));
}

static void add_barrier(json_t *events, const struct traced *e)
{
	json_int_t row = (json_int_t)e->row + UNITS_ROWS;

	json_array_append_new(events, json_pack("{s:s, s:s, s:s, s:I, s:I, s:f, s:f, s:{s:i, s:b}}",
						"name", "barrier", "cat", "barrier", "ph", "X",
						"pid", row, "tid", row, "ts", us(e->begin_ns),
						"dur", us(e->end_ns - e->begin_ns), "args", "rank",
						e->rank, "timed_out", e->failed));
}

void trace_to_json(struct trace *t, uid_t viewer, bool all, json_t *events)
{
	uint64_t n;
	unsigned last_row = 0;
	LOCK_SCOPE(&t->lock);

	for (n = t->nr > TRACE_KEPT ? t->nr - TRACE_KEPT : 0; n < t->nr; n++) {
		const struct traced *e = &t->ring[n % TRACE_KEPT];

		if (!all && e->uid != viewer)
			continue;
		if (e->row != last_row) /* a name that is repeated does no harm */
			add_row(events, e);
		last_row = e->row;
		if (!e->tensor) {
			add_barrier(events, e);
			continue;
		}
		add_span(events, e, 3 * n, "wait", e->written_ns,
			 e->begin_ns ? e->begin_ns : e->landed_ns);
		add_span(events, e, 3 * n + 1, "copy", e->begin_ns, e->end_ns);
		add_span(events, e, 3 * n + 2, "land", e->end_ns, e->landed_ns);
	}
}
