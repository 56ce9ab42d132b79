/* SPDX-License-Identifier: MIT */
#include "tests/backing/record.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "tests/backing/record_inside.h"
#include "tests/backing/util.h"

void note_problem(struct record *r, const char *fmt, ...)
{
	va_list ap;

	if (r->problem[0])
		return;
	va_start(ap, fmt);
	vsnprintf(r->problem, sizeof(r->problem), fmt, ap);
	va_end(ap);
}

/* --- inodes --- */

/* The latest that had this number: numbers are used again. */
static int find_inode(struct record *r, const struct stat *st)
{
	size_t i = r->nr_inodes;

	while (i-- > 0)
		if (r->inodes[i].ino == st->st_ino && r->inodes[i].dev == st->st_dev)
			return (int)i;
	return -1;
}

static int new_inode(struct record *r, const struct stat *st, const char *path)
{
	struct record_inode *inode;

	r->inodes = grow(r->inodes, &r->max_inodes, r->nr_inodes, sizeof(*r->inodes));
	inode = &r->inodes[r->nr_inodes];
	*inode = (struct record_inode){
		.dev = st->st_dev,
		.ino = st->st_ino,
		.type = st->st_mode & S_IFMT,
		.path = must(strdup(path)),
	};
	return (int)r->nr_inodes++;
}

int known_fd(struct record *r, int fd, const char *call)
{
	struct stat st;
	int inode = fstat(fd, &st) ? -1 : find_inode(r, &st);

	if (inode < 0)
		note_problem(r, "%s on an inode that was not made through the backing", call);
	return inode;
}

int known_name(struct record *r, int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) ? -1 : find_inode(r, &st);
}

struct record_attr attr_of(const struct stat *st)
{
	return (struct record_attr){
		.mode = st->st_mode,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.rdev = st->st_rdev,
		.atime = st->st_atim,
		.mtime = st->st_mtim,
	};
}

/* --- the log --- */

struct record_op *note_op(struct record *r, enum record_kind kind, int inode)
{
	struct record_op *op;

	r->ops = grow(r->ops, &r->max_ops, r->nr_ops, sizeof(*r->ops));
	op = &r->ops[r->nr_ops++];
	*op = (struct record_op){
		.kind = kind, .inode = inode, .dir = -1, .new_dir = -1, .other = -1};
	return op;
}

struct record_op *note_change(struct record *r, enum record_kind kind, int fd, const char *call)
{
	int inode = known_fd(r, fd, call);
	struct record_op *op;
	struct stat st;

	if (inode < 0 || fstat(fd, &st))
		return NULL;
	op = note_op(r, kind, inode);
	op->attr = attr_of(&st);
	return op;
}

void note_name(struct record_op *op, int dir, const char *name)
{
	op->dir = dir;
	op->name = must(strdup(name));
}

void note_write(struct record *r, int fd, void *data, size_t len, off_t off)
{
	struct record_op *op = note_change(r, RECORD_WRITE, fd, "write");
	struct record_inode *inode;
	size_t blocks = ((size_t)off + len + 4095) / 4096;

	if (!op) {
		free(data);
		return;
	}
	op->data = data;
	op->len = len;
	op->off = off;
	inode = &r->inodes[op->inode];
	if (inode->size < off + (off_t)len)
		inode->size = off + (off_t)len;
	if (inode->blocks < blocks)
		inode->blocks = blocks;
}

void note_truncate(struct record *r, int fd, off_t size)
{
	struct record_op *op = note_change(r, RECORD_TRUNCATE, fd, "truncate");

	if (!op)
		return;
	op->len = (size_t)r->inodes[op->inode].size;
	op->off = size;
	r->inodes[op->inode].size = size;
}

struct record_op *note_xattr(struct record *r, int inode, const char *name, const void *value,
			     size_t len)
{
	struct record_op *op = note_op(r, RECORD_SET_XATTR, inode);

	op->name = must(strdup(name));
	op->data = copy_of(value, len);
	op->len = len;
	return op;
}

/* Those that a new inode got from its directory (ACLs), or had when recording began. */
static void add_xattrs_of(struct record *r, int inode, int dir, const char *name)
{
	__cleanup_free char *list = must(malloc(2 * XATTR_SIZE_MAX));
	char *value = list + XATTR_SIZE_MAX;
	char path[PATH_MAX], *at;
	ssize_t len, n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, name);
	len = llistxattr(path, list, XATTR_SIZE_MAX);
	if (len < 0 && errno != EOPNOTSUPP)
		note_problem(r, "cannot list the xattrs of %s: %s", name, strerror(errno));
	for (at = list; len > 0 && at < list + len; at += strlen(at) + 1) {
		if (!strncmp(at, "security.", 9))
			continue; /* the system's, as it sees fit */
		n = lgetxattr(path, at, value, XATTR_SIZE_MAX);
		if (n < 0)
			note_problem(r, "cannot read %s of %s: %s", at, name, strerror(errno));
		else
			note_xattr(r, inode, at, value, (size_t)n);
	}
}

void note_made(struct record *r, int dir, const char *name)
{
	int parent = known_fd(r, dir, "a new name in a directory"), inode;
	char path[PATH_MAX];
	struct record_op *op;
	struct stat st;

	if (parent < 0)
		return;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW)) {
		note_problem(r, "%s was removed by somebody while it was made", name);
		return;
	}
	snprintf(path, sizeof(path), "%s%s%s", r->inodes[parent].path, parent ? "/" : "", name);
	inode = new_inode(r, &st, path);
	op = note_op(r, RECORD_MAKE, inode);
	note_name(op, parent, name);
	op->attr = attr_of(&st);
	if (S_ISLNK(st.st_mode)) {
		op->data = must(calloc(1, (size_t)st.st_size + 1));
		if (readlinkat(dir, name, op->data, (size_t)st.st_size) < 0)
			note_problem(r, "cannot read the symlink %s", name);
	} else {
		add_xattrs_of(r, inode, dir, name);
	}
}

/* --- what was there when recording began --- */

static void add_content(struct record *r, int dir, const char *name)
{
	__cleanup_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	void *data;

	if (fd < 0 || fstat(fd, &st)) {
		note_problem(r, "cannot read %s: %s", name, strerror(errno));
		return;
	}
	if (!st.st_size)
		return;
	data = must(malloc((size_t)st.st_size));
	if (pread(fd, data, (size_t)st.st_size, 0) != st.st_size)
		note_problem(r, "cannot read all of %s", name);
	note_write(r, fd, data, (size_t)st.st_size, 0);
}

static void add_tree(struct record *r, int dir)
{
	DIR *d = fdopendir(openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *de;
	struct stat st;
	int known;

	while (d && (de = readdir(d))) {
		if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, ".."))
			continue;
		known = known_name(r, dir, de->d_name);
		if (known >= 0) { /* another name of a file */
			note_name(note_op(r, RECORD_LINK, known), known_fd(r, dir, ""), de->d_name);
			continue;
		}
		note_made(r, dir, de->d_name);
		if (fstatat(dir, de->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (S_ISREG(st.st_mode))
			add_content(r, dir, de->d_name);
		if (S_ISDIR(st.st_mode)) {
			__cleanup_fd int sub = openat(
				dir, de->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

			add_tree(r, sub);
		}
	}
	if (d)
		closedir(d);
	else
		note_problem(r, "cannot read a directory: %s", strerror(errno));
}

/* --- from outside --- */

struct record *record_start(struct backing *b)
{
	struct record *r = must(calloc(1, sizeof(*r)));
	struct stat st;

	pthread_mutex_init(&r->lock, NULL);
	r->next = b->ops;
	r->next_arg = b->ops_arg;
	if (fstat(b->root_fd, &st))
		note_problem(r, "cannot stat the backing: %s", strerror(errno));
	new_inode(r, &st, "");
	r->top = attr_of(&st);
	add_xattrs_of(r, 0, b->root_fd, ".");
	add_tree(r, b->root_fd);
	r->nr_initial = r->nr_ops;
	record_attach(r, b);
	return r;
}

void record_attach(struct record *r, struct backing *b)
{
	assert(r->nr_backings < ARRAY_SIZE(r->backings));
	r->backings[r->nr_backings++] = b;
	b->ops = &record_ops;
	b->ops_arg = r;
}

void record_stop(struct record *r)
{
	while (r->nr_backings) {
		struct backing *b = r->backings[--r->nr_backings];

		assert(b->ops == &record_ops); /* else something attached later is still there */
		b->ops = r->nr_backings ? &backing_real_ops : r->next;
		b->ops_arg = r->nr_backings ? b : r->next_arg;
	}
}

void record_free(struct record *r)
{
	size_t i;

	for (i = 0; i < r->nr_ops; i++) {
		free(r->ops[i].name);
		free(r->ops[i].new_name);
		free(r->ops[i].data);
	}
	for (i = 0; i < r->nr_inodes; i++)
		free(r->inodes[i].path);
	free(r->ops);
	free(r->inodes);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

void record_mark(struct record *r, int mark)
{
	LOCK_SCOPE(&r->lock);
	note_op(r, RECORD_MARK, -1)->mark = mark;
}

const char *record_problem(struct record *r)
{
	LOCK_SCOPE(&r->lock);
	return r->problem[0] ? r->problem : NULL;
}

static const char *path_of(const struct record *r, int inode)
{
	if (inode < 0)
		return "?";
	return inode ? r->inodes[inode].path : "."; /* the top directory */
}

void record_describe(const struct record *r, const struct record_op *op, char *buf, size_t size)
{
	static const char *const syncs[] = {"data of ", "", "everything"};
	const char *path = path_of(r, op->inode);
	long long off = op->off, end = off + (long long)op->len;

	switch (op->kind) {
	case RECORD_MAKE:
		snprintf(buf, size, "make %s", path);
		break;
	case RECORD_LINK:
		snprintf(buf, size, "link %s as %s/%s", path, path_of(r, op->dir), op->name);
		break;
	case RECORD_REMOVE:
		snprintf(buf, size, "remove %s/%s", path_of(r, op->dir), op->name);
		break;
	case RECORD_RENAME:
		snprintf(buf, size, "%s %s/%s to %s/%s",
			 op->flags & RENAME_EXCHANGE ? "exchange" : "rename", path_of(r, op->dir),
			 op->name, path_of(r, op->new_dir), op->new_name);
		break;
	case RECORD_WRITE:
		snprintf(buf, size, "%s %s [%lld, %lld)", op->data ? "write" : "zero", path, off,
			 end);
		break;
	case RECORD_TRUNCATE:
		snprintf(buf, size, "truncate %s from %zu to %lld", path, op->len, off);
		break;
	case RECORD_CHMOD:
		snprintf(buf, size, "chmod %s %04o", path, op->attr.mode & 07777);
		break;
	case RECORD_CHOWN:
		snprintf(buf, size, "chown %s %d:%d", path, (int)op->attr.uid, (int)op->attr.gid);
		break;
	case RECORD_UTIMENS:
		snprintf(buf, size, "set times of %s", path);
		break;
	case RECORD_SET_XATTR:
		snprintf(buf, size, "set %s of %s", op->name, path);
		break;
	case RECORD_REMOVE_XATTR:
		snprintf(buf, size, "remove %s of %s", op->name, path);
		break;
	case RECORD_SYNC:
		snprintf(buf, size, "sync %s%s", syncs[op->sync], op->inode < 0 ? "" : path);
		break;
	case RECORD_MARK:
		snprintf(buf, size, "mark %d", op->mark);
		break;
	}
}

void record_print(const struct record *r, FILE *out)
{
	char text[600];
	size_t i;

	for (i = r->nr_initial; i < r->nr_ops; i++) {
		record_describe(r, &r->ops[i], text, sizeof(text));
		fprintf(out, "%5zu  %s\n", i - r->nr_initial, text);
	}
}
