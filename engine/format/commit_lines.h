/* SPDX-License-Identifier: MIT */
/*
 * A commit file that is read, a line at a time (commit_lines.c), and what is made of the lines
 * (commit_read.c).
 */
#ifndef ENGINE_FORMAT_COMMIT_LINES_H
#define ENGINE_FORMAT_COMMIT_LINES_H

#include <jansson.h>
#include <limits.h>
#include <xxhash.h>

#include "engine/format/commit.h"

#define BUFFER_BYTES ((size_t)64 << 10)
#define DIGEST_START "\"digest\": \""
#define DIGITS	     (COMMIT_HEX - 1)

struct reader {
	const struct source *src;
	const char *path;
	struct commit_header *header;
	int (*entry)(void *arg, const struct commit_entry *entry);
	int (*tensor)(void *arg, const struct commit_tensor *t);
	void *arg;
	struct error *e;
	XXH3_state_t *state;
	/* what was read ahead */
	uint64_t off;
	size_t filled, taken;
	/* the line: line[1] and on, with a NUL behind */
	size_t len;
	unsigned nr;	 /* from 1 */
	bool in_section; /* it is no member of the whole object */
	/* what was found */
	unsigned has;
	char digest[COMMIT_HEX], previous[COMMIT_PATH_MAX];
	/* room */
	struct commit_header unwanted;
	char entry_path[COMMIT_PATH_MAX], entry_target[PATH_MAX];
	struct commit_tensor_room tensor_room;
	char buffer[BUFFER_BYTES];
	char line[COMMIT_LINE_MAX + 4]; /* with a bracket before and two behind */
};

/* Says in r->e what is wrong with the line. Returns -EBADMSG. */
int commit_damaged(struct reader *r, const char *what);

/* 1: there are bytes. 0: the file has ended. -errno. */
int commit_fill(struct reader *r);

/* Reads the next one, and digests it. 0 or -errno. */
int commit_next_line(struct reader *r);
bool commit_line_is(const struct reader *r, const char *text);

/* Takes the comma off the end of the line, if there is one. */
bool commit_take_comma(struct reader *r);

/*
 * The line as the only member of an object, with @closing behind it if it opens something. To be
 * freed; NULL: it is none.
 */
json_t *commit_parse_member(struct reader *r, char closing);

#endif
