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
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "tests/backing/record_inside.h"
#include "tests/backing/util.h"

#define LISTING_BYTES 32768

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

int stat_below(struct record *r, int dir, const char *name, struct statx *stx)
{
	return NEXT(r, stat, dir, name, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, stx);
}

static dev_t dev_of(const struct statx *stx)
{
	return makedev(stx->stx_dev_major, stx->stx_dev_minor);
}

static struct timespec time_of(struct statx_timestamp t)
{
	return (struct timespec){.tv_sec = t.tv_sec, .tv_nsec = (long)t.tv_nsec};
}

/* The latest that had this number: numbers are used again. */
static int find_inode(struct record *r, const struct statx *stx)
{
	size_t i = r->nr_inodes;

	while (i-- > 0)
		if (r->inodes[i].ino == stx->stx_ino && r->inodes[i].dev == dev_of(stx))
			return (int)i;
	return -1;
}

static int new_inode(struct record *r, const struct statx *stx, const char *path)
{
	struct record_inode *inode;

	r->inodes = grow(r->inodes, &r->max_inodes, r->nr_inodes, sizeof(*r->inodes));
	inode = &r->inodes[r->nr_inodes];
	*inode = (struct record_inode){
		.dev = dev_of(stx),
		.ino = stx->stx_ino,
		.btime = time_of(stx->stx_btime),
		.type = stx->stx_mode & S_IFMT,
		.path = must(strdup(path)),
	};
	return (int)r->nr_inodes++;
}

int known_fd(struct record *r, int fd, const char *call)
{
	struct statx stx;
	int inode = stat_below(r, fd, "", &stx) ? -1 : find_inode(r, &stx);

	if (inode < 0)
		note_problem(r, "%s on an inode that was not made through the backing", call);
	return inode;
}

int known_name(struct record *r, int dir, const char *name)
{
	struct statx stx;

	return stat_below(r, dir, name, &stx) ? -1 : find_inode(r, &stx);
}

struct record_attr attr_of(const struct statx *stx)
{
	return (struct record_attr){
		.mode = stx->stx_mode,
		.uid = stx->stx_uid,
		.gid = stx->stx_gid,
		.rdev = makedev(stx->stx_rdev_major, stx->stx_rdev_minor),
		.atime = time_of(stx->stx_atime),
		.mtime = time_of(stx->stx_mtime),
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
	struct statx stx;

	if (inode < 0 || stat_below(r, fd, "", &stx))
		return NULL;
	op = note_op(r, kind, inode);
	op->attr = attr_of(&stx);
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

/*
 * Those that a new inode, pinned as @pin, got from its directory (ACLs), or had when recording
 * began.
 */
static void add_xattrs_of(struct record *r, int inode, int pin)
{
	__cleanup_free char *list = must(malloc(2 * XATTR_SIZE_MAX));
	char *value = list + XATTR_SIZE_MAX, *at;
	const char *path = r->inodes[inode].path;
	ssize_t len = NEXT(r, listxattr, pin, list, XATTR_SIZE_MAX), n;

	if (len < 0 && len != -EOPNOTSUPP)
		note_problem(r, "cannot list the xattrs of %s: %s", path, strerror((int)-len));
	for (at = list; len > 0 && at < list + len; at += strlen(at) + 1) {
		if (!strncmp(at, "security.", 9))
			continue; /* the system's, as it sees fit */
		n = NEXT(r, getxattr, pin, at, value, XATTR_SIZE_MAX);
		if (n < 0)
			note_problem(r, "cannot read %s of %s: %s", at, path, strerror((int)-n));
		else
			note_xattr(r, inode, at, value, (size_t)n);
	}
}

static void add_target(struct record *r, struct record_op *op, int pin, size_t size)
{
	op->data = must(calloc(1, size + 1));
	if (NEXT(r, readlink, pin, op->data, size) < 0)
		note_problem(r, "cannot read the symlink %s", op->name);
}

/* A pin of dir/@name, to be closed. Negative, with a problem: it cannot be had. */
static int pin_below(struct record *r, int dir, const char *name, struct statx *stx)
{
	int pin = NEXT(r, open, dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, 0);
	int err = pin < 0 ? pin : stat_below(r, pin, "", stx);

	if (!err || pin >= 0)
		return pin;
	note_problem(r, "cannot look at %s: %s", name, strerror(-err));
	return pin;
}

void note_made(struct record *r, int dir, const char *name)
{
	int parent = known_fd(r, dir, "a new name in a directory"), inode;
	__cleanup_fd int pin = -1;
	char path[PATH_MAX];
	struct record_op *op;
	struct statx stx;

	if (parent < 0)
		return;
	pin = pin_below(r, dir, name, &stx);
	if (pin < 0)
		return;
	snprintf(path, sizeof(path), "%s%s%s", r->inodes[parent].path, parent ? "/" : "", name);
	inode = new_inode(r, &stx, path);
	op = note_op(r, RECORD_MAKE, inode);
	note_name(op, parent, name);
	op->attr = attr_of(&stx);
	if (S_ISLNK(stx.stx_mode))
		add_target(r, op, pin, stx.stx_size);
	else
		add_xattrs_of(r, inode, pin);
}

/* --- what was there when recording began --- */

/* As a backing, what the recorder passes calls on to. */
static struct backing below(const struct record *r, const struct backing *b)
{
	struct backing next = *b;

	next.ops = r->next;
	next.ops_arg = r->next_arg;
	return next;
}

static void add_content(struct record *r, struct backing *b, int pin, size_t size)
{
	__cleanup_fd int fd = backing_reopen(b, pin, O_RDONLY);
	void *data = must(malloc(size));
	ssize_t n = fd < 0 ? fd : backing_read(b, fd, data, size, 0);

	if (n != (ssize_t)size)
		note_problem(r, "cannot read all of a file: %s", n < 0 ? strerror((int)-n) : "");
	note_write(r, pin, data, size, 0);
}

static void add_tree(struct record *r, struct backing *b, int dir);

static void add_name(struct record *r, struct backing *b, int dir, const char *name)
{
	int known = known_name(r, dir, name);
	__cleanup_fd int pin = -1;
	struct statx stx;

	if (known >= 0) { /* another name of a file */
		note_name(note_op(r, RECORD_LINK, known), known_fd(r, dir, ""), name);
		return;
	}
	note_made(r, dir, name);
	pin = pin_below(r, dir, name, &stx);
	if (pin >= 0 && S_ISREG(stx.stx_mode) && stx.stx_size)
		add_content(r, b, pin, stx.stx_size);
	if (pin >= 0 && S_ISDIR(stx.stx_mode))
		add_tree(r, b, pin);
}

static void add_tree(struct record *r, struct backing *b, int dir)
{
	__cleanup_fd int fd = backing_reopen(b, dir, O_RDONLY | O_DIRECTORY);
	__cleanup_free char *buf = must(malloc(LISTING_BYTES));
	ssize_t n = fd, at;

	while (fd >= 0 && (n = backing_getdents(b, fd, buf, LISTING_BYTES)) > 0) {
		for (at = 0; at < n;) {
			const struct dirent64 *entry = (void *)(buf + at);
			const char *name = entry->d_name;

			if (strcmp(name, ".") && strcmp(name, ".."))
				add_name(r, b, fd, name);
			at += entry->d_reclen;
		}
	}
	if (n < 0)
		note_problem(r, "cannot read a directory: %s", strerror((int)-n));
}

static void add_all(struct record *r, const struct backing *of)
{
	struct backing b = below(r, of);
	struct statx stx = {0};

	if (stat_below(r, b.root_fd, "", &stx))
		note_problem(r, "cannot look at the top directory");
	new_inode(r, &stx, "");
	r->top = attr_of(&stx);
	add_xattrs_of(r, 0, b.root_fd);
	add_tree(r, &b, b.root_fd);
	r->nr_initial = r->nr_ops;
}

static void forget_all(struct record *r)
{
	size_t i;

	for (i = 0; i < r->nr_ops; i++) {
		free(r->ops[i].name);
		free(r->ops[i].new_name);
		free(r->ops[i].data);
	}
	for (i = 0; i < r->nr_inodes; i++)
		free(r->inodes[i].path);
	r->nr_ops = r->nr_inodes = 0;
}

/* --- from outside --- */

struct record *record_start(struct backing *b)
{
	struct record *r = must(calloc(1, sizeof(*r)));

	pthread_mutex_init(&r->lock, NULL);
	r->next = b->ops;
	r->next_arg = b->ops_arg;
	add_all(r, b);
	record_attach(r, b);
	return r;
}

void record_restart(struct record *r)
{
	MUTEX_SCOPE(&r->lock);
	forget_all(r);
	r->problem[0] = '\0';
	add_all(r, r->backings[0]);
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
	forget_all(r);
	free(r->ops);
	free(r->inodes);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

void record_mark(struct record *r, int mark)
{
	MUTEX_SCOPE(&r->lock);
	note_op(r, RECORD_MARK, -1)->mark = mark;
}

const char *record_problem(struct record *r)
{
	MUTEX_SCOPE(&r->lock);
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
