/* SPDX-License-Identifier: MIT */
#include "fs/leftovers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/message.h"
#include "engine/format/commit.h"
#include "engine/format/format.h"
#include "engine/format/names.h"
#include "engine/rule/rule.h"
#include "engine/rule/reserved_names.h"
#include "fs/foreign.h"
#include "fs/record.h"

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

struct walk {
	struct leftovers *w;
	dev_t dev;
	char *path; /* of the current name */
	size_t size;
	bool in_unit;
};

static struct rules *rules_built_in;

static void make_built_in(void)
{
	struct error e;

	if (rules_create(&rules_built_in, NULL, "", &e))
		rules_built_in = NULL;
}

/* The built-in rules, made once and kept; NULL: no memory. */
static const struct rules *built_in(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_built_in);
	return rules_built_in;
}

bool leftovers_is_checkpoint(const char *name)
{
	const struct rules *rules = built_in();
	const struct rule *rule = rules ? rules_single(rules, name) : NULL;

	return rule && !rule_is_temp(rule, name);
}

bool leftovers_is_pointer(const char *name)
{
	const struct rules *rules = built_in();

	return rules && rules_is_pointer(rules, name);
}

static bool is_kept(const char *name)
{
	return name_is_kept_in_units(name) || !strcmp(name, COMMIT_PENDING);
}

/* 1, 0, or -errno: unknown. */
static int has_commit_file(int dir)
{
	if (!faccessat(dir, COMMIT_FILE, F_OK, AT_SYMLINK_NOFOLLOW))
		return 1;
	return errno == ENOENT ? 0 : -errno;
}

bool leftovers_is_unit(int dir)
{
	return has_commit_file(dir) == 1;
}

/* --- directories --- */

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int but_dots(const struct dirent *d)
{
	return strcmp(d->d_name, ".") && strcmp(d->d_name, "..");
}

/* Lists all names first: removals while a directory is read confuse some filesystems. */
static int list(int dir, struct dirent ***names)
{
	int nr = scandirat(dir, ".", names, but_dots, by_name);

	return nr < 0 ? -errno : nr;
}

static bool is_mount(int fd, dev_t dev)
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &stx))
		return false;
	return makedev(stx.stx_dev_major, stx.stx_dev_minor) != dev ||
	       stx.stx_attributes & stx.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT;
}

static int tree_size(int fd, dev_t dev, uint64_t *size)
{
	struct dirent **names;
	int nr = is_mount(fd, dev) ? -EXDEV : list(fd, &names), err = 0, i;
	struct stat st;

	if (nr < 0)
		return nr;
	for (i = 0; i < nr; i++) {
		const char *name = names[i]->d_name;

		if (!err && !fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW)) {
			__cleanup_fd int sub =
				S_ISDIR(st.st_mode) ? openat(fd, name, OPEN_DIR) : -1;

			if (S_ISREG(st.st_mode))
				*size += (uint64_t)st.st_size;
			else if (S_ISDIR(st.st_mode))
				err = sub < 0 ? -errno : tree_size(sub, dev, size);
		}
		free(names[i]);
	}
	free(names);
	return err;
}

static int remove_tree(int dir, const char *name, dev_t dev)
{
	__cleanup_fd int fd = openat(dir, name, OPEN_DIR);
	struct dirent **names;
	int nr, err = 0, i;

	if (fd < 0)
		return -errno;
	if (is_mount(fd, dev))
		return -EXDEV;
	nr = list(fd, &names);
	if (nr < 0)
		return nr;
	for (i = 0; i < nr; i++) {
		struct stat st;

		if (!err && fstatat(fd, names[i]->d_name, &st, AT_SYMLINK_NOFOLLOW))
			err = -errno;
		if (!err && S_ISDIR(st.st_mode))
			err = remove_tree(fd, names[i]->d_name, dev);
		else if (!err && unlinkat(fd, names[i]->d_name, 0))
			err = -errno;
		free(names[i]);
	}
	free(names);
	if (!err && unlinkat(dir, name, AT_REMOVEDIR))
		err = -errno;
	return err;
}

int leftover_remove(const struct leftover *l)
{
	struct stat st;

	if (fstat(l->dir, &st))
		return -errno;
	if (l->is_dir)
		return remove_tree(l->dir, l->name, st.st_dev);
	return unlinkat(l->dir, l->name, 0) ? -errno : 0;
}

/* --- one name --- */

static void report(struct walk *k, struct leftover *l, enum leftover_kind kind, int err)
{
	l->kind = kind;
	l->err = err;
	l->path = k->path;
	k->w->found(k->w->arg, l);
}

#define POINTER_MAX 4096

/*
 * True if the last word of a short file is a part of the name of a neighbour: then the file is a
 * pointer of a rule that only the mount knows ("7", or "newest: step-7", beside step-7).
 */
static bool names_a_neighbour(int dir, int fd, const struct stat *st)
{
	char text[POINTER_MAX];
	ssize_t len = st->st_size < POINTER_MAX ? pread(fd, text, sizeof(text) - 1, 0) : 0;
	struct dirent **names;
	bool found = false;
	char *word;
	int nr, i;

	if (len <= 0 || memchr(text, '\0', (size_t)len))
		return false;
	while (len && strchr("\r\n\t \"'", text[len - 1]))
		len--;
	text[len] = '\0';
	for (word = text + len; word > text && !strchr("\n\t /\"'", word[-1]); word--)
		;
	nr = *word ? list(dir, &names) : -1;
	for (i = 0; i < nr; i++) {
		found = found || strstr(names[i]->d_name, word);
		free(names[i]);
	}
	if (nr >= 0)
		free(names);
	return found;
}

/* The name may lead elsewhere at any moment: judges what it opened. */
static void look_at_file(struct walk *k, struct leftover *l)
{
	bool ours = name_is_staging(l->name), named = leftovers_is_checkpoint(l->name);
	__cleanup_fd int fd =
		openat(l->dir, l->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct record record;
	struct stat st;
	bool is_now;
	int err;

	if (fd < 0 && errno == ENOENT)
		return;
	if (fd < 0 || fstat(fd, &st)) {
		/* Removing it needs no right to read it. */
		if (ours || named)
			report(k, l, ours ? LEFT_UNFINISHED : LEFT_UNREADABLE, -errno);
		return;
	}
	if (!S_ISREG(st.st_mode))
		return;
	err = record_read(fd, &record);
	is_now = !err && record_is_of(&record, &st);
	if (!ours && !named && err != -ENODATA &&
	    (leftovers_is_pointer(l->name) || names_a_neighbour(l->dir, fd, &st)))
		return;
	if (ours)
		report(k, l, is_now ? LEFT_UNPUBLISHED : LEFT_UNFINISHED, 0);
	else if (err == -ENODATA && named && k->w->foreign && !record_is_awaited(fd))
		report(k, l, LEFT_FOREIGN, 0);
	else if (err && err != -ENODATA && err != -EINVAL && named)
		report(k, l, LEFT_UNREADABLE, err);
	else if (err != -ENODATA && k->w->units && !record_is_of_part(fd))
		report(k, l, is_now ? LEFT_RECORDED : LEFT_MODIFIED, 0);
}

static int walk(struct walk *k, int dir, size_t len);

/* @l is a directory with a commit file, open as @fd, and in no other unit. */
static int look_at_unit(struct walk *k, struct leftover *l, int fd, size_t len)
{
	int err = 0;

	if (k->w->units) {
		struct leftover unit = *l;

		unit.dir = fd;
		unit.name = NULL;
		report(k, &unit, LEFT_UNIT, 0);
	}
	if (k->w->units && k->w->only_units)
		return 0;
	k->in_unit = true;
	err = walk(k, fd, len);
	k->in_unit = false;
	return err;
}

static bool is_foreign(const struct walk *k, int fd)
{
	return k->w->foreign && k->w->rules && !k->in_unit &&
	       foreign_rule(k->w->rules, k->path, fd);
}

/* @l is a directory that a rule claims, open as @fd. */
static void look_at_foreign(struct walk *k, const struct leftover *l, int fd)
{
	struct leftover unit = *l;
	struct stat st;

	unit.dir = fd;
	unit.name = NULL;
	unit.is_dir = true;
	tree_size(fd, k->dev, &unit.size);
	if (!fstat(fd, &st))
		unit.mtime_ns = stat_mtime_ns(&st);
	report(k, &unit, LEFT_FOREIGN_UNIT, 0);
}

/* @l is any other directory, open as @fd. 0 or -errno: it cannot be read. */
static int look_inside(struct walk *k, struct leftover *l, int fd, size_t len)
{
	int is_unit = has_commit_file(fd);

	if (is_unit < 0)
		return is_unit;
	if (is_unit && !k->in_unit)
		return look_at_unit(k, l, fd, len);
	if (is_unit || !is_foreign(k, fd))
		return walk(k, fd, len);
	look_at_foreign(k, l, fd);
	return 0;
}

static int look_at_dir(struct walk *k, struct leftover *l, size_t len)
{
	__cleanup_fd int fd = openat(l->dir, l->name, OPEN_DIR);

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		report(k, l, LEFT_UNREADABLE, -errno);
	else if (is_mount(fd, k->dev))
		report(k, l, LEFT_MOUNT, 0);
	else if (name_is_trash(l->name)) {
		tree_size(fd, k->dev, &l->size);
		report(k, l, LEFT_TRASH, 0);
	} else if (name_is_staging(l->name)) {
		tree_size(fd, k->dev, &l->size);
		report(k, l, leftovers_is_unit(fd) ? LEFT_UNPUBLISHED : LEFT_UNFINISHED, 0);
	} else if (name_is_reserved(l->name)) {
		report(k, l, LEFT_UNKNOWN, 0);
	} else {
		int err = look_inside(k, l, fd, len);

		if (err == -ENOMEM || err == -EINTR)
			return err;
		if (err)
			report(k, l, LEFT_UNREADABLE, err);
	}
	return 0;
}

/* @len: of the path of @entry, which is in k->path. */
static int look_at(struct walk *k, int dir, const struct dirent *entry, size_t len)
{
	const char *name = entry->d_name;
	struct leftover l = {.dir = dir, .name = name};
	bool ours = name_is_reserved(name), files = (k->w->foreign || k->w->units) && !k->in_unit;
	/*
	 * A file of any other name is a checkpoint if a rule of its mount claimed it; then it has a
	 * record.
	 */
	bool wanted = ours || (files && leftovers_is_checkpoint(name)) ||
		      (k->w->units && !k->in_unit &&
		       (entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN));
	struct stat st;

	if (is_kept(name) && entry->d_type != DT_DIR)
		return 0;

	/* On a parallel filesystem attributes are what takes time. */
	if (!wanted && entry->d_type == DT_DIR)
		return look_at_dir(k, &l, len);
	if (!wanted && entry->d_type != DT_UNKNOWN)
		return 0;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW)) {
		if (errno != ENOENT)
			report(k, &l, LEFT_UNREADABLE, -errno);
		return 0;
	}
	l.mtime_ns = stat_mtime_ns(&st);
	if (S_ISDIR(st.st_mode)) {
		l.is_dir = true;
		return look_at_dir(k, &l, len);
	}
	l.size = (uint64_t)st.st_size;
	if (S_ISREG(st.st_mode) && name_is_trash(name))
		report(k, &l, LEFT_TRASH, 0);
	else if (S_ISREG(st.st_mode) && wanted && (!ours || name_is_staging(name)))
		look_at_file(k, &l);
	else if (S_ISLNK(st.st_mode) && name_is_staging(name)) /* a pending pointer */
		report(k, &l, LEFT_UNFINISHED, 0);
	else if (ours)
		report(k, &l, LEFT_UNKNOWN, 0);
	return 0;
}

/* Puts "/name" behind the first @len bytes of the path. Returns the new length; 0: no memory. */
static size_t extend(struct walk *k, size_t len, const char *name)
{
	size_t more = strlen(name), need = len + more + 2;

	if (need > k->size) {
		char *longer = realloc(k->path, 2 * need);

		if (!longer)
			return 0;
		k->path = longer;
		k->size = 2 * need;
	}
	if (len)
		k->path[len++] = '/';
	memcpy(k->path + len, name, more + 1);
	return len + more;
}

static int walk(struct walk *k, int dir, size_t len)
{
	struct leftovers *w = k->w;
	struct dirent **names;
	int nr = list(dir, &names), err = 0, i;

	if (nr < 0)
		return nr;
	for (i = 0; i < nr; i++) {
		const char *name = names[i]->d_name;
		size_t below = 0;

		if (!err && w->stop(w->arg))
			err = -EINTR;
		/* Skips the records of ckptfs, which format_read has checked. */
		if (!err && (len || strcmp(name, FORMAT_DIR))) {
			below = extend(k, len, name);
			err = below ? 0 : -ENOMEM;
		}
		if (below) {
			w->nr_looked++;
			w->looking(w->arg, k->path);
			err = look_at(k, dir, names[i], below);
		}
		free(names[i]);
	}
	free(names);
	if (len)
		k->path[len] = '\0'; /* the caller's again */
	return err;
}

int leftovers_walk(struct leftovers *w)
{
	struct walk k = {.w = w, .path = strdup("")};
	struct stat st;
	int err = !k.path ? -ENOMEM : fstat(w->root_fd, &st) ? -errno : 0;

	if (!err) {
		struct leftover top = {.dir = w->root_fd, .mtime_ns = stat_mtime_ns(&st)};

		k.dev = st.st_dev;
		err = w->units ? has_commit_file(w->root_fd) : 0;
		if (err >= 0)
			err = err ? look_at_unit(&k, &top, w->root_fd, 0) : walk(&k, w->root_fd, 0);
	}
	free(k.path);
	return err;
}
