/* SPDX-License-Identifier: MIT */
#include "tests/model/reference.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MAX   512
#define ENTRIES_MAX 128

struct file_ref {
	unsigned refs, len;
	char data[DATA_MAX];
};

static struct file_ref files[FILES_MAX];
static struct entry {
	char path[PATH_LEN];
	int file; /* -1: a directory */
} entries[ENTRIES_MAX];
static unsigned nr_entries;

struct reference ref;

void ref_begin(void)
{
	memset(&ref, 0, sizeof(ref));
	memset(files, 0, sizeof(files));
	nr_entries = 0;
	memset(ref.at, -1, sizeof(ref.at));
	ref_mkdir("run");
}

void ref_end(void)
{
	unsigned u;

	for (u = 0; u < NR_UNITS; u++)
		free(ref.units[u].candidates);
	memset(&ref, 0, sizeof(ref));
}

/* --- names --- */

static int find(const char *path)
{
	unsigned i;

	for (i = 0; i < nr_entries; i++)
		if (!strcmp(entries[i].path, path))
			return (int)i;
	return -1;
}

static bool is_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	return !strncmp(path, dir, len) && path[len] == '/';
}

static bool is_empty(const char *dir)
{
	unsigned i;

	for (i = 0; i < nr_entries; i++)
		if (is_below(entries[i].path, dir))
			return false;
	return true;
}

/* 0, or why there can be no such name. */
static int expect_parent(const char *path)
{
	char dir[PATH_LEN];
	const char *slash = strrchr(path, '/');
	int i, err;

	if (!slash)
		return 0;
	snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path) % PATH_LEN, path);
	err = expect_parent(dir);
	i = find(dir);
	if (err)
		return err;
	return i < 0 ? -ENOENT : entries[i].file >= 0 ? -ENOTDIR : 0;
}

static void put_file(int file)
{
	if (file >= 0)
		files[file].refs--;
}

static int new_file(void)
{
	int i;

	for (i = 0; i < FILES_MAX; i++) {
		if (files[i].refs)
			continue;
		memset(&files[i], 0, sizeof(files[i]));
		files[i].refs = 1;
		return i;
	}
	abort();
}

static void add(const char *path, int file)
{
	if (nr_entries == ENTRIES_MAX)
		abort();
	snprintf(entries[nr_entries].path, PATH_LEN, "%.*s", PATH_LEN - 1, path);
	entries[nr_entries++].file = file;
}

bool ref_is_there(const char *path)
{
	return find(path) >= 0;
}

int ref_file(const char *path)
{
	int i = find(path);

	return i < 0 ? -1 : entries[i].file;
}

/* --- calls --- */

int ref_expect_mkdir(const char *path)
{
	int err = expect_parent(path);

	return err ? err : find(path) >= 0 ? -EEXIST : 0;
}

int ref_expect_open(const char *path)
{
	int err = expect_parent(path), i = find(path);

	return err ? err : i >= 0 && entries[i].file < 0 ? -EISDIR : 0;
}

static int expect_there(const char *path)
{
	int err = expect_parent(path);

	return err ? err : find(path) < 0 ? -ENOENT : 0;
}

int ref_expect_unlink(const char *path)
{
	int err = expect_there(path);

	return err ? err : ref_file(path) < 0 ? -EISDIR : 0;
}

int ref_expect_cut(const char *path)
{
	return ref_expect_unlink(path);
}

int ref_expect_rmdir(const char *path)
{
	int err = expect_there(path);

	if (err)
		return err;
	return ref_file(path) >= 0 ? -ENOTDIR : !is_empty(path) ? -ENOTEMPTY : 0;
}

int ref_expect_rename(const char *from, const char *to)
{
	int err = expect_parent(from);

	if (!err)
		err = expect_parent(to);
	if (!err)
		err = expect_there(from);
	if (err)
		return err;
	if (is_below(to, from))
		return -EINVAL;
	if (is_below(from, to))
		return -ENOTEMPTY;
	if (find(to) < 0 || !strcmp(from, to))
		return 0;
	if ((ref_file(from) < 0) != (ref_file(to) < 0))
		return ref_file(from) < 0 ? -ENOTDIR : -EISDIR;
	return ref_file(to) < 0 && !is_empty(to) ? -ENOTEMPTY : 0;
}

void ref_mkdir(const char *path)
{
	add(path, -1);
}

void ref_open(unsigned slot, unsigned who, const char *path, bool empty)
{
	if (find(path) < 0)
		add(path, new_file());
	ref.opens[slot] = (struct open_ref){.used = true, .who = who, .file = ref_file(path)};
	files[ref_file(path)].refs++;
	if (empty)
		files[ref_file(path)].len = 0;
}

void ref_write(unsigned slot, char byte, unsigned off, unsigned len)
{
	struct file_ref *f = &files[ref.opens[slot].file];

	if (off > f->len)
		memset(f->data + f->len, 0, off - f->len);
	memset(f->data + off, byte, len);
	if (off + len > f->len)
		f->len = off + len;
}

void ref_cut(int file, unsigned size)
{
	struct file_ref *f = &files[file];

	if (size > f->len)
		memset(f->data + f->len, 0, size - f->len);
	f->len = size;
}

void ref_close(unsigned slot)
{
	put_file(ref.opens[slot].file);
	ref.opens[slot].used = false;
}

void ref_remove(const char *path)
{
	int i = find(path);

	put_file(entries[i].file);
	entries[i] = entries[--nr_entries];
}

void ref_rename(const char *from, const char *to)
{
	unsigned i;

	if (!strcmp(from, to))
		return;
	if (find(to) >= 0)
		ref_remove(to);
	for (i = 0; i < nr_entries; i++) {
		char path[2 * PATH_LEN];

		if (strcmp(entries[i].path, from) && !is_below(entries[i].path, from))
			continue;
		snprintf(path, sizeof(path), "%s%s", to, entries[i].path + strlen(from));
		snprintf(entries[i].path, PATH_LEN, "%.*s", PATH_LEN - 1, path);
	}
}

int ref_unit_of_open(unsigned slot)
{
	unsigned i;

	for (i = 0; i < nr_entries; i++)
		if (ref.opens[slot].used && !ref.opens[slot].lost &&
		    entries[i].file == ref.opens[slot].file)
			return unit_of_path(entries[i].path);
	return -1;
}

bool ref_has_open(unsigned u)
{
	unsigned i;

	for (i = 0; i < NR_OPENS; i++)
		if (ref_unit_of_open(i) == (int)u)
			return true;
	return false;
}

/* --- whole directories --- */

static int by_rel(const void *a, const void *b)
{
	return strcmp(((const struct snap_entry *)a)->rel, ((const struct snap_entry *)b)->rel);
}

void ref_snap(const char *path, struct snap *s)
{
	unsigned i;

	memset(s, 0, sizeof(*s));
	s->there = find(path) >= 0;
	for (i = 0; i < nr_entries; i++) {
		struct snap_entry *e = &s->entries[s->nr];

		if (!is_below(entries[i].path, path))
			continue;
		snprintf(e->rel, REL_LEN, "%.*s", REL_LEN - 1, entries[i].path + strlen(path) + 1);
		e->directory = entries[i].file < 0;
		if (!e->directory) {
			e->len = (uint8_t)files[entries[i].file].len;
			memcpy(e->data, files[entries[i].file].data, e->len);
		}
		s->nr++;
	}
	qsort(s->entries, s->nr, sizeof(*s->entries), by_rel);
}

static void lose(int file)
{
	unsigned i;

	for (i = 0; i < NR_OPENS; i++)
		if (ref.opens[i].used && ref.opens[i].file == file)
			ref.opens[i].lost = true;
}

void ref_set(const char *path, const char *data, unsigned len)
{
	int file = ref_file(path);

	if (file < 0)
		add(path, file = new_file());
	memcpy(files[file].data, data, len);
	files[file].len = len;
}

void ref_put(const char *path, const struct snap *s)
{
	unsigned i;

	for (i = 0; i < nr_entries;) {
		if (strcmp(entries[i].path, path) && !is_below(entries[i].path, path)) {
			i++;
			continue;
		}
		if (entries[i].file >= 0)
			lose(entries[i].file);
		put_file(entries[i].file);
		entries[i] = entries[--nr_entries];
	}
	if (s->there)
		add(path, -1);
	for (i = 0; i < s->nr; i++) {
		const struct snap_entry *e = &s->entries[i];
		char full[2 * PATH_LEN];

		snprintf(full, sizeof(full), "%s/%s", path, e->rel);
		if (e->directory)
			add(full, -1);
		else
			ref_set(full, e->data, e->len);
	}
}

void ref_each(void (*each)(const char *path, bool directory, const char *data, unsigned len))
{
	unsigned i;

	for (i = 0; i < nr_entries; i++) {
		int file = entries[i].file;

		if (unit_of_path(entries[i].path) < 0)
			each(entries[i].path, file < 0, file < 0 ? NULL : files[file].data,
			     file < 0 ? 0 : files[file].len);
	}
}

bool snap_same(const struct snap *a, const struct snap *b)
{
	unsigned i;

	if (a->there != b->there || a->nr != b->nr)
		return false;
	for (i = 0; i < a->nr; i++) {
		const struct snap_entry *x = &a->entries[i], *y = &b->entries[i];

		if (strcmp(x->rel, y->rel) || x->directory != y->directory || x->len != y->len ||
		    memcmp(x->data, y->data, x->len))
			return false;
	}
	return true;
}

/* "a=xxxxxy": runs of a byte as "x5". */
static size_t print_data(const struct snap_entry *e, char *buf, size_t size)
{
	size_t at = 0;
	unsigned i, run;

	for (i = 0; i < e->len; i += run) {
		char c = e->data[i] ? e->data[i] : '0';

		for (run = 1; i + run < e->len && e->data[i + run] == e->data[i]; run++)
			;
		if (at < size)
			at += (size_t)snprintf(buf + at, size - at, "%c%u", c, run);
	}
	return at < size ? at : size;
}

void snap_print(const struct snap *s, char *buf, size_t size)
{
	size_t at = 0;
	unsigned i;

	snprintf(buf, size, "%s", s->there ? s->nr ? "" : "(empty)" : "(absent)");
	for (i = 0; i < s->nr && at < size; i++) {
		at += (size_t)snprintf(buf + at, size - at, "%s%s%s", i ? " " : "",
				       s->entries[i].rel, s->entries[i].directory ? "/" : "=");
		if (at < size && !s->entries[i].directory)
			at += print_data(&s->entries[i], buf + at, size - at);
	}
}

/* --- units --- */

int unit_find_candidate(unsigned u, const struct snap *s)
{
	unsigned i;

	for (i = ref.units[u].nr_candidates; i-- > 0;)
		if (snap_same(&ref.units[u].candidates[i], s))
			return (int)i;
	return -1;
}

void unit_candidate(unsigned u, const struct snap *s)
{
	struct unit *n = &ref.units[u];

	if (n->nr_candidates && snap_same(&n->candidates[n->nr_candidates - 1], s))
		return;
	if (n->nr_candidates == n->room) {
		n->room = n->room ? 2 * n->room : 8;
		n->candidates = realloc(n->candidates, n->room * sizeof(*n->candidates));
		if (!n->candidates)
			abort();
	}
	n->candidates[n->nr_candidates++] = *s;
}

void unit_forget_candidates(unsigned u, unsigned nr)
{
	struct unit *n = &ref.units[u];

	n->nr_candidates -= nr;
	memmove(n->candidates, n->candidates + nr, n->nr_candidates * sizeof(*n->candidates));
}
