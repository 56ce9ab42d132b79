/* SPDX-License-Identifier: MIT */
/* How verbs show things to people: sizes, ages, names, and progress. Has no lock. */
#ifndef FS_SHOW_H
#define FS_SHOW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHOW_MAX 24

/* "0 B", "1.5 GiB". Returns @buf, as the next two do. */
const char *show_size(char buf[SHOW_MAX], double bytes);

/* "12 s", "5 min", "3 h", "12 d" */
const char *show_age(char buf[SHOW_MAX], double s);

/* Copies @name. Control characters, which could move a terminal's cursor, become '?'. */
const char *show_name(char *buf, size_t size, const char *name);

/*
 * Puts @path, below a backing, into @object as "path"; if JSON cannot hold its bytes also as
 * "path_hex".
 */
void show_path_json(json_t *object, const char *path);

/*
 * Describes the nodes of a shared checkpoint, from the daemon's "shared": "this is node one: open;
 * it sees the end; node two: voted". Returns @buf.
 */
const char *show_shared(char *buf, size_t size, const json_t *shared);

/*
 * A line on stderr that is written over, for a person who has waited for two seconds already. One
 * thread uses it.
 */
struct progress {
	bool tty;
	uint64_t started_ns, shown_ns; /* shown: 0 for not */
};

void progress_start(struct progress *p);
void progress_show(struct progress *p, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Call before anything else is printed. */
void progress_hide(struct progress *p);

#endif
