/* SPDX-License-Identifier: MIT */
#include "engine/record/events.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/format/commit.h"
#include "engine/rule/rule.h"

#define RANK_DIGITS 12
#define EVENT_COST  256 /* rough bytes of memory, besides the path */

/* --- to be told --- */

void events_add(json_t *events, int kind, const char *path, int rank)
{
	json_array_append_new(events, json_pack("[i, o, i]", kind, json_text(path), rank));
}

bool events_get(const json_t *events, size_t i, struct told_event *e)
{
	const json_t *event = json_array_get(events, i);

	*e = (struct told_event){json_integer_value(json_array_get(event, 0)),
				 json_string_value(json_array_get(event, 1)),
				 (int)json_integer_value(json_array_get(event, 2))};
	return event;
}

/*
 * Writes @path with EVENTS_RANK for each number in it that is the rank, written without leading
 * zeros. False: it has none.
 */
static bool pattern_of(const char *path, json_int_t rank, char pattern[COMMIT_PATH_MAX])
{
	char digits[RANK_DIGITS];
	size_t n, len;
	bool any = false;

	if (rank < 0 || rank > INT_MAX || strlen(path) >= COMMIT_PATH_MAX ||
	    strchr(path, EVENTS_RANK))
		return false;
	len = (size_t)snprintf(digits, sizeof(digits), "%d", (int)rank);
	while (*path) {
		n = strspn(path, "0123456789");
		if (n == len && !memcmp(path, digits, len)) {
			*pattern++ = EVENTS_RANK;
			any = true;
		} else {
			n = n ? n : 1;
			memcpy(pattern, path, n);
			pattern += n;
		}
		path += n;
	}
	*pattern = '\0';
	return any;
}

static int by_number(const void *a, const void *b)
{
	json_int_t x = json_integer_value(*(json_t *const *)a),
		   y = json_integer_value(*(json_t *const *)b);

	return x < y ? -1 : x > y;
}

/* [5, 3, 4, 9] becomes [3, 5, 9, 9]. */
static json_t *ranges_of(const json_t *ranks)
{
	size_t nr = json_array_size(ranks), i;
	__cleanup_free json_t **sorted = calloc(nr, sizeof(json_t *));
	json_t *ranges = sorted ? json_array() : NULL;
	json_int_t first = 0, last = -2, rank;

	for (i = 0; sorted && i < nr; i++)
		sorted[i] = json_array_get(ranks, i);
	if (sorted)
		qsort(sorted, nr, sizeof(json_t *), by_number);
	for (i = 0; ranges && i <= nr; i++) {
		rank = i < nr ? json_integer_value(sorted[i]) : -1;
		if (i && rank == last)
			continue;
		if (i && rank != last + 1) {
			json_array_append_new(ranges, json_integer(first));
			json_array_append_new(ranges, json_integer(last));
		}
		if (!i || rank != last + 1)
			first = rank;
		last = rank;
	}
	return ranges;
}

/* The line for closes or renames of ranks by @pattern, to which a rank can be added. */
static json_t *line_for(json_t *lines, json_t *told, json_int_t kind, const char *pattern)
{
	char key[COMMIT_PATH_MAX + 8];
	json_t *line;

	snprintf(key, sizeof(key), "%d %s", (int)kind, pattern);
	line = json_object_get(lines, key);
	if (!line) {
		line = json_pack("[I, s, []]", kind, pattern);
		json_object_set(lines, key, line);
		json_array_append_new(told, line);
	}
	return line;
}

static bool removes(const json_t *event)
{
	json_int_t kind = json_integer_value(json_array_get(event, 0));

	return kind == EVIDENCE_UNLINK || kind == NR_EVIDENCE_KINDS;
}

bool events_remove(const json_t *events)
{
	json_t *e;
	size_t i;

	json_array_foreach (events, i, e)
		if (removes(e))
			return true;
	return false;
}

/* The first @nr of @events. */
static json_t *tell(const json_t *events, size_t nr)
{
	__cleanup_free char *pattern = malloc(COMMIT_PATH_MAX);
	json_t *told = json_array(), *lines = json_object(), *e, *ranks;
	size_t i;

	for (i = 0; pattern && i < nr; i++) {
		json_int_t kind, rank;
		const char *path;

		e = json_array_get(events, i);
		kind = json_integer_value(json_array_get(e, 0));
		path = json_string_value(json_array_get(e, 1));
		rank = json_integer_value(json_array_get(e, 2));
		if (kind != EVIDENCE_CLOSE && kind != EVIDENCE_RENAME) {
			json_object_clear(lines); /* keeps later events behind this one */
			json_array_append(told, e);
		} else if (path && json_string_length(json_array_get(e, 1)) == strlen(path) &&
			   pattern_of(path, rank, pattern)) {
			ranks = json_array_get(line_for(lines, told, kind, pattern), 2);
			json_array_append_new(ranks, json_integer(rank));
		} else {
			json_array_append(told, e);
		}
	}
	json_decref(lines);
	json_array_foreach (told, i, e)
		if (json_is_array(json_array_get(e, 2)))
			json_array_set_new(e, 2, ranges_of(json_array_get(e, 2)));
	return told;
}

size_t events_tell(const json_t *events, size_t most, json_t **told)
{
	size_t nr = json_array_size(events);

	for (;;) {
		*told = tell(events, nr);
		if (nr <= 1 || !*told || json_dumpb(*told, NULL, 0, JSON_COMPACT) <= most)
			return nr;
		json_decref(*told);
		nr = nr / 2;
	}
}

/* --- heard --- */

static void hear(json_t *events, json_int_t kind, const char *path, json_int_t rank)
{
	if (path && *path && strlen(path) < COMMIT_PATH_MAX && rank >= -1 && rank <= INT_MAX &&
	    kind >= 0 && kind <= NR_EVIDENCE_KINDS)
		json_array_append_new(events, json_pack("[I, s, I]", kind, path, rank));
}

static void hear_rank(json_t *events, json_int_t kind, const char *pattern, json_int_t rank)
{
	char path[COMMIT_PATH_MAX + RANK_DIGITS];
	size_t len = 0;

	for (; *pattern && len < COMMIT_PATH_MAX; pattern++)
		if (*pattern == EVENTS_RANK)
			len += (size_t)sprintf(path + len, "%d", (int)rank);
		else
			path[len++] = *pattern;
	path[len] = '\0';
	hear(events, kind, path, rank);
}

json_t *events_heard(const json_t *told)
{
	json_t *events = json_array();
	const json_t *line, *ranges;
	size_t i, k, left = EVENTS_MAX, cost;

	json_array_foreach (told, i, line) {
		json_int_t kind = json_integer_value(json_array_get(line, 0)), rank, last;
		const char *path = json_string_value(json_array_get(line, 1));

		ranges = json_array_get(line, 2);
		if (!json_is_array(ranges)) {
			hear(events, kind, path, json_integer_value(ranges));
			continue;
		}
		cost = path ? strlen(path) + EVENT_COST : 0;
		for (k = 0; path && k + 1 < json_array_size(ranges); k += 2) {
			rank = json_integer_value(json_array_get(ranges, k));
			last = json_integer_value(json_array_get(ranges, k + 1));
			for (; rank >= 0 && rank <= last && rank < INT_MAX && left >= cost;
			     rank++) {
				hear_rank(events, kind, path, rank);
				left -= cost;
			}
		}
	}
	return events;
}
