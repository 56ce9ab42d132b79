/* SPDX-License-Identifier: MIT */
/*
 * Tests whether the filesystem of a directory does what records and leases rest on, under random
 * names that it removes again. Has no lock. It tests this node only: what other nodes see may
 * differ.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "engine/base/cleanup.h"
#include "engine/coord/dir_inside.h"

#define TEXT_SIZE 16

struct trial {
	struct backing *b;
	int dir;
	char first[48], second[48], record[48]; /* names */
	char *why;
};

__attribute__((format(printf, 2, 3))) static int unfit(struct trial *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(t->why, COORD_WHY_MAX, fmt, ap);
	va_end(ap);
	return 1;
}

static int put(struct trial *t, int fd, const char *text)
{
	char block[TEXT_SIZE] = "";
	ssize_t n;

	snprintf(block, sizeof(block), "%s", text);
	n = backing_write(t->b, fd, block, sizeof(block), 0, 0);
	if (n != sizeof(block))
		return n < 0 ? (int)n : -EIO;
	return backing_sync(t->b, fd, false);
}

static int make(struct trial *t, const char *name, const char *text)
{
	bool created;
	__cleanup_fd int fd = backing_create(t->b, t->dir, name, O_WRONLY | O_EXCL, 0600, &created);

	return fd < 0 ? fd : put(t, fd, text);
}

/* 0: a fresh open of @name reads @text. 1: it does not, and @t->why says so. Or -errno. */
static int reads(struct trial *t, const char *name, const char *text, const char *what)
{
	__cleanup_fd int pin = backing_pin(t->b, t->dir, name), fd = -1;
	char block[TEXT_SIZE] = "";
	ssize_t n;

	fd = pin < 0 ? pin : backing_reopen(t->b, pin, O_RDONLY | O_NONBLOCK);
	if (fd == -ENOENT)
		return unfit(t, "%s is not found", what);
	n = fd < 0 ? fd : backing_read(t->b, fd, block, sizeof(block), 0);
	if (n < 0)
		return (int)n;
	block[TEXT_SIZE - 1] = '\0';
	return strcmp(block, text) ? unfit(t, "%s is not what is read", what) : 0;
}

static int link_name(struct trial *t, const char *from, const char *to)
{
	__cleanup_fd int pin = backing_pin(t->b, t->dir, from);

	return pin < 0 ? pin : backing_link(t->b, pin, t->dir, to);
}

static int try_links(struct trial *t)
{
	int err = link_name(t, t->first, t->record);

	if (err == -EPERM || err == -EOPNOTSUPP || err == -ENOSYS || err == -EMLINK)
		return unfit(
			t, "it has no hard links, so that a record which a node was making when it "
			   "crashed stays half made");
	if (err && err != -EEXIST) /* perhaps a lost answer: the read below tells */
		return err;
	err = reads(t, t->record, "first", "a file linked to its name");
	if (err)
		return err;
	if (link_name(t, t->second, t->record) != -EEXIST)
		return unfit(
			t, "a hard link is made, or something else said, where the name is taken");
	if (make(t, t->record, "third") != -EEXIST)
		return unfit(
			t,
			"a file is made anew (O_EXCL), or something else said, where the name is "
			"taken");
	return reads(t, t->record, "first", "what was first to have a name");
}

static int point(struct trial *t, const char *from, const char *to)
{
	return backing_symlink(t->b, from, t->dir, to);
}

/* On FUSE a record is a symlink (coord_dir.c). */
static int try_symlinks(struct trial *t)
{
	int err = point(t, t->first, t->record), len;
	char target[sizeof(t->first)] = "";
	__cleanup_fd int pin = -1;

	if (err && err != -EEXIST)
		return err;
	if (point(t, t->second, t->record) != -EEXIST)
		return unfit(t,
			     "a symlink is made, or something else said, where the name is taken");
	pin = backing_pin(t->b, t->dir, t->record);
	len = pin < 0 ? pin : backing_readlink(t->b, pin, target, sizeof(target) - 1);
	if (len < 0)
		return len;
	return strcmp(target, t->first) ? unfit(t, "a symlink is not what is read") : 0;
}

static int try_rewriting(struct trial *t)
{
	__cleanup_fd int pin = backing_pin(t->b, t->dir, t->second);
	__cleanup_fd int fd = pin < 0 ? pin : backing_reopen(t->b, pin, O_WRONLY);
	int err = fd < 0 ? fd : put(t, fd, "fourth");

	return err ? err : reads(t, t->second, "fourth", "what was written in place and synced");
}

static int try_all(struct trial *t)
{
	int err = make(t, t->first, "first");

	if (!err)
		err = make(t, t->second, "second");
	if (err)
		return err;
	if (backing_sync(t->b, t->dir, false))
		return unfit(t, "a directory cannot be synced");
	err = reads(t, t->first, "first", "what was written and synced");
	if (!err)
		err = t->b->fuse ? try_symlinks(t) : try_links(t);
	return err ? err : try_rewriting(t);
}

int coord_dir_test(struct backing *b, int dir, char why[COORD_WHY_MAX])
{
	struct trial t = {.b = b, .dir = dir, .why = why};
	__cleanup_fd int own = -1;
	uint64_t nr;
	int err;

	*why = '\0';
	if (dir < 0)
		t.dir = own = dir_open(b, FORMAT_NODES);
	if (t.dir < 0)
		return t.dir;
	if (getrandom(&nr, sizeof(nr), 0) != sizeof(nr))
		return -EIO;
	snprintf(t.first, sizeof(t.first), ".ckptfs-test-%016llx.1", (unsigned long long)nr);
	snprintf(t.second, sizeof(t.second), ".ckptfs-test-%016llx.2", (unsigned long long)nr);
	snprintf(t.record, sizeof(t.record), ".ckptfs-test-%016llx", (unsigned long long)nr);
	err = try_all(&t);
	backing_unlink(b, t.dir, t.first, false);
	backing_unlink(b, t.dir, t.second, false);
	backing_unlink(b, t.dir, t.record, false);
	return err;
}
