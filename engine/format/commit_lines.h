/* SPDX-License-Identifier: MIT */
/*
 * The reader of a commit file. commit_lines.c reads, bounds (COMMIT_LINE_MAX) and digests its
 * lines, which are untrusted bytes. commit_read.c gives the lines their meaning. One thread, no
 * lock.
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
	/* read ahead */
	uint64_t off;
	size_t filled, taken;
	/* the current line: line[1] and on, with a NUL behind */
	size_t len;
	unsigned nr;	 /* from 1 */
	bool in_section; /* the line is an element of a section */
	/* results */
	unsigned has;
	char digest[COMMIT_HEX], previous[COMMIT_PATH_MAX];
	/* buffers */
	struct commit_header unwanted;
	char entry_path[COMMIT_PATH_MAX], entry_target[PATH_MAX];
	struct commit_tensor_room tensor_room;
	char buffer[BUFFER_BYTES];
	char line[COMMIT_LINE_MAX + 4]; /* with a bracket before and two behind the line */
};

/* Reports in r->e what is wrong with the line. Returns -EBADMSG. */
int commit_damaged(struct reader *r, const char *what);

/* Reads ahead. 1: there are bytes; 0: the end of the file; -errno. */
int commit_fill(struct reader *r);

/* Reads and digests the next line. Returns 0 or -errno. */
int commit_next_line(struct reader *r);
bool commit_line_is(const struct reader *r, const char *text);

/* Removes a comma at the end of the line. Returns true if there was one. */
bool commit_take_comma(struct reader *r);

/*
 * The line as the only member of a new object, with @closing behind it if it opens a section. The
 * caller frees the object. NULL: the line is no member.
 */
json_t *commit_parse_member(struct reader *r, char closing);

#endif
