/* SPDX-License-Identifier: MIT */
#include "tests/model/look.h"

#include "engine/backing/dirwalk.h"
#include "engine/format/commit.h"
#include "tests/backing/peek.h"
#include "tests/model/calls.h"

static int by_rel(const void *a, const void *b)
{
	return strcmp(((const struct snap_entry *)a)->rel, ((const struct snap_entry *)b)->rel);
}

/* --- in the mount --- */

struct walk {
	struct snap *snap;
	const char *below; /* "" or "sub/" */
};

static void add_name(void *walk, const char *name, bool directory)
{
	struct walk *w = walk;
	struct snap_entry *e = &w->snap->entries[w->snap->nr];

	if (w->snap->nr == UNIT_ENTRIES) {
		wrong("a directory with more names than there are");
		return;
	}
	snprintf(e->rel, REL_LEN, "%s%s", w->below, name);
	e->directory = directory;
	w->snap->nr++;
}

static bool read_entry(const char *path, struct snap_entry *e)
{
	char full[2 * PATH_LEN], data[DATA_MAX + 1];
	ssize_t n;

	snprintf(full, sizeof(full), "%s/%s", path, e->rel);
	n = call_read(full, data, sizeof(data));
	if (n < 0 || n > DATA_MAX) {
		wrong("%s is listed, and its reading ends with %zd", full, n);
		return false;
	}
	e->len = (uint8_t)n;
	memcpy(e->data, data, (size_t)n);
	return true;
}

bool look_mount(const char *path, struct snap *s)
{
	struct walk w = {.snap = s, .below = ""};
	unsigned i;
	int err;

	memset(s, 0, sizeof(*s));
	err = call_list(path, add_name, &w);
	if (err == -ENOENT)
		return true;
	s->there = true;
	for (i = 0; !err && i < s->nr; i++) {
		char full[2 * PATH_LEN], below[REL_LEN + 1];

		if (!s->entries[i].directory) {
			if (!read_entry(path, &s->entries[i]))
				return false;
			continue;
		}
		snprintf(full, sizeof(full), "%s/%s", path, s->entries[i].rel);
		snprintf(below, sizeof(below), "%s/", s->entries[i].rel);
		w.below = below;
		err = call_list(full, add_name, &w);
	}
	if (err)
		wrong("%s cannot be listed: %s", path, strerror(-err));
	qsort(s->entries, s->nr, sizeof(*s->entries), by_rel);
	return !err;
}

/* --- on the backing --- */

/* @path: of the unit. */
static void read_tree(struct backing *b, const char *path, const char *below, struct snap *s)
{
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	char full[2 * PATH_LEN];

	snprintf(full, sizeof(full), "%s%s%s", path, *below ? "/" : "", below);
	dirwalk_begin_fd(&w, b, peek_open(b, full));
	while (dirwalk_next(&w) && s->nr < UNIT_ENTRIES) {
		struct snap_entry *e = &s->entries[s->nr];
		char rel[REL_LEN];

		if (!strncmp(w.name, ".ckptfs-", 8))
			continue;
		snprintf(rel, sizeof(rel), "%s%s%.20s", below, *below ? "/" : "", w.name);
		snprintf(e->rel, REL_LEN, "%s", rel);
		s->nr++;
		if (w.type == DT_DIR) {
			e->directory = true;
			read_tree(b, path, rel, s);
		} else {
			ssize_t n;

			snprintf(full, sizeof(full), "%s/%s", path, rel);
			n = look_file(b, full, e->data);
			e->len = n < 0 ? 255 : (uint8_t)n;
		}
	}
}

struct check {
	struct snap *snap;
	unsigned listed; /* files and empty directories */
	char *why;
	size_t size;
};

static ssize_t read_data(void *entry, void *buf, size_t len, uint64_t off)
{
	const struct snap_entry *e = entry;
	size_t n = off >= e->len ? 0 : e->len - off;

	if (n > len)
		n = len;
	memcpy(buf, e->data + off, n);
	return (ssize_t)n;
}

static int check_entry(void *check, const struct commit_entry *e)
{
	struct check *c = check;
	char hex[DIGEST_HEX];
	struct source src = {.read = read_data};
	unsigned i;

	c->listed++;
	for (i = 0; i < c->snap->nr && strcmp(c->snap->entries[i].rel, e->path); i++)
		;
	if (i == c->snap->nr) {
		snprintf(c->why, c->size, "%s is listed, and not there", e->path);
		return 1;
	}
	if (e->kind != COMMIT_IS_FILE)
		return 0;
	src.arg = &c->snap->entries[i];
	if (e->size != c->snap->entries[i].len ||
	    digest_of_source(&src, e->size, 1, NULL, NULL, hex) || strcmp(hex, e->xxh3)) {
		snprintf(c->why, c->size,
			 "%s is not what it was committed as: %u bytes instead of %llu", e->path,
			 c->snap->entries[i].len, (unsigned long long)e->size);
		return 1;
	}
	return 0;
}

static bool has_below(const struct snap *s, const char *rel)
{
	size_t len = strlen(rel);
	unsigned i;

	for (i = 0; i < s->nr; i++)
		if (!strncmp(s->entries[i].rel, rel, len) && s->entries[i].rel[len] == '/')
			return true;
	return false;
}

static bool verify(struct backing *b, const char *path, struct snap *s, char generation[GENERATION],
		   char *why, size_t size)
{
	struct check c = {.snap = s, .why = why, .size = size};
	static struct commit_header header;
	struct peek_file file;
	struct source src;
	struct error e;
	unsigned i, nr = 0;
	int err = peek_source(b, path, &file, &src);

	*why = '\0';
	if (err)
		snprintf(why, size, "its commit file: %s", strerror(-err));
	else
		err = commit_read(&src, "", &header, check_entry, &c, &e);
	peek_close(&file);
	if (err) {
		if (!*why)
			snprintf(why, size, "its commit file: %s", e.text);
		return false;
	}
	for (i = 0; i < s->nr; i++)
		nr += !s->entries[i].directory || !has_below(s, s->entries[i].rel);
	if (nr != c.listed)
		snprintf(why, size, "%u things are in it, and %u are listed", nr, c.listed);
	snprintf(generation, GENERATION, "%s", header.generation);
	return nr == c.listed;
}

enum found look_unit(struct backing *b, unsigned u, struct snap *s, char generation[GENERATION],
		     char *why, size_t size)
{
	const char *path = name_of(NAME_UNIT(u));
	char commit[PATH_LEN + sizeof(COMMIT_FILE)];

	memset(s, 0, sizeof(*s));
	*generation = '\0';
	if (!peek_exists(b, path))
		return FOUND_NOTHING;
	s->there = true;
	read_tree(b, path, "", s);
	qsort(s->entries, s->nr, sizeof(*s->entries), by_rel);
	snprintf(commit, sizeof(commit), "%s/%s", path, COMMIT_FILE);
	if (!peek_exists(b, commit))
		return FOUND_PLAIN;
	return verify(b, commit, s, generation, why, size) ? FOUND_UNIT : FOUND_BROKEN;
}

ssize_t look_file(struct backing *b, const char *path, char data[DATA_MAX])
{
	return peek_read(b, path, data, DATA_MAX);
}
