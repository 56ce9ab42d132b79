/* SPDX-License-Identifier: MIT */
#include "tests/model/look.h"

#include "engine/format/commit.h"
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

static void read_tree(int dir, const char *below, struct snap *s)
{
	int fd = openat(dir, *below ? below : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	while (d && (entry = readdir(d)) && s->nr < UNIT_ENTRIES) {
		struct snap_entry *e = &s->entries[s->nr];
		char rel[REL_LEN];

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
		    !strncmp(entry->d_name, ".ckptfs-", 8))
			continue;
		snprintf(rel, sizeof(rel), "%s%s%.20s", below, *below ? "/" : "", entry->d_name);
		snprintf(e->rel, REL_LEN, "%s", rel);
		s->nr++;
		if (entry->d_type == DT_DIR) {
			e->directory = true;
			read_tree(dir, rel, s);
		} else {
			ssize_t n = look_file(dir, rel, e->data);

			e->len = n < 0 ? 255 : (uint8_t)n;
		}
	}
	if (d)
		closedir(d);
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

/* What has been verified already: while the commit file is that one, and the unit is as it was, it would be again. */
static struct verified {
	bool any;
	struct stat file;
	struct snap snap;
	char generation[GENERATION];
} verified[NR_UNITS];

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       !memcmp(&a->st_mtim, &b->st_mtim, sizeof(a->st_mtim)) &&
	       !memcmp(&a->st_ctim, &b->st_ctim, sizeof(a->st_ctim));
}

static bool verify(int unit, struct snap *s, char generation[GENERATION], char *why, size_t size)
{
	__cleanup_fd int fd = openat(unit, COMMIT_FILE, O_RDONLY | O_CLOEXEC);
	struct source src = {.read = fd_read, .arg = &fd};
	struct check c = {.snap = s, .why = why, .size = size};
	static struct commit_header header;
	struct error e;
	unsigned i, nr = 0;
	int err;

	*why = '\0';
	err = commit_read(&src, "", &header, check_entry, &c, &e);
	if (err) {
		if (err < 0)
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

static bool verify_again(unsigned u, const struct stat *file, int unit, struct snap *s,
			 char generation[GENERATION], char *why, size_t size)
{
	struct verified *v = &verified[u];

	if (!v->any || !same_file(&v->file, file) || !snap_same(&v->snap, s)) {
		v->any = verify(unit, s, generation, why, size);
		v->file = *file;
		v->snap = *s;
		memcpy(v->generation, generation, GENERATION);
	}
	memcpy(generation, v->generation, GENERATION);
	return v->any;
}

enum found look_unit(int top, unsigned u, struct snap *s, char generation[GENERATION], char *why,
		     size_t size)
{
	int unit = openat(top, name_of(NAME_UNIT(u)), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	enum found found;
	struct stat st;

	memset(s, 0, sizeof(*s));
	*generation = '\0';
	if (unit < 0)
		return errno == ENOENT ? FOUND_NOTHING : FOUND_BROKEN;
	s->there = true;
	read_tree(unit, "", s);
	qsort(s->entries, s->nr, sizeof(*s->entries), by_rel);
	if (fstatat(unit, COMMIT_FILE, &st, 0))
		found = FOUND_PLAIN;
	else
		found = verify_again(u, &st, unit, s, generation, why, size) ? FOUND_UNIT
									     : FOUND_BROKEN;
	close(unit);
	return found;
}

ssize_t look_file(int top, const char *path, char data[DATA_MAX])
{
	int fd = openat(top, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -errno : read(fd, data, DATA_MAX);

	if (fd >= 0)
		close(fd);
	return n;
}
