/* SPDX-License-Identifier: MIT */
/* The order of a catalog's entries: which is the newest, and how people sort names. */
#include <ctype.h>
#include <string.h>

#include "fs/catalog.h"

size_t path_parent(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (size_t)(slash - path) : 0;
}

/* --- which is the newest --- */

/* True for a modified directory, too: each change to it is a commit. A change to a file is not. */
static bool is_committed(const struct unit_entry *u)
{
	return u->state == UNIT_COMMITTED || (u->state == UNIT_MODIFIED && u->is_dir);
}

static int by_parent(const struct unit_entry *a, const struct unit_entry *b)
{
	size_t la = path_parent(a->path), lb = path_parent(b->path);
	int order = memcmp(a->path, b->path, la < lb ? la : lb);

	return order ? order : (la > lb) - (la < lb);
}

/* Sorts by parent; in each, files come first, then directories, the newest last. */
static int by_parent_and_sequence(const void *pa, const void *pb)
{
	const struct unit_entry *a = pa, *b = pb;
	int order = by_parent(a, b);

	if (!order)
		order = (a->is_dir > b->is_dir) - (a->is_dir < b->is_dir);
	if (!order && a->is_dir)
		order = (a->sequence > b->sequence) - (a->sequence < b->sequence);
	if (!order)
		order = (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns);
	return order ? order : strcmp(a->path, b->path);
}

/*
 * Directories of one parent compare by sequence, which no clock can spoil. Only the last of them,
 * and each file, compares by time.
 */
struct unit_entry *newest_committed(struct catalog *c)
{
	struct unit_entry *best = NULL, *last = NULL;
	size_t i;

	if (c->nr)
		qsort(c->list, c->nr, sizeof(*c->list), by_parent_and_sequence);
	for (i = 0; i <= c->nr; i++) {
		struct unit_entry *u = i < c->nr ? &c->list[i] : NULL;

		if (u && !is_committed(u))
			continue;
		/* A newer directory beside @last rules it out. */
		if (last && !(u && u->is_dir && last->is_dir && !by_parent(u, last)) &&
		    (!best || last->time_ns >= best->time_ns))
			best = last;
		last = u;
	}
	return best;
}

/* --- names with numbers --- */

int compare_natural(const char *a, const char *b)
{
	const char *whole_a = a, *whole_b = b;
	size_t la, lb;
	int order;

	for (; *a && *b; a++, b++) {
		if (!isdigit((unsigned char)*a) || !isdigit((unsigned char)*b)) {
			if (*a != *b)
				return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
			continue;
		}
		a += strspn(a, "0");
		b += strspn(b, "0");
		la = strspn(a, "0123456789");
		lb = strspn(b, "0123456789");
		order = la != lb ? (la < lb ? -1 : 1) : memcmp(a, b, la);
		if (order)
			return order;
		a += la;
		b += lb;
		a--, b--; /* the loop increments both */
	}
	if (*a || *b)
		return *a ? 1 : -1;
	return strcmp(whole_a, whole_b); /* 01 and 1 differ */
}
