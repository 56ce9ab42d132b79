/* SPDX-License-Identifier: MIT */
/*
 * Leases as files on the backing: BACKING/.ckptfs/nodes/NODE.
 *
 * - The file is made at mount and then rewritten in place, by one write of always as many bytes,
 *   and synced. A reader opens it anew, and a client that caches files then asks for new content.
 * - A renewal opens the file by name: a lease that another node took for dead and removed is made
 *   again.
 * - nodes is open to all users, with the sticky bit. A lease is believed if it belongs to root, to
 *   nobody (root under root_squash), to this daemon's user or to the backing's owner. Names are
 *   random, so that no user can make one before its node does.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/coord/dir_inside.h"

#define NOBODY 65534

static bool believed(struct backing *b, uid_t owner)
{
	struct statx top;

	return owner == 0 || owner == NOBODY || owner == geteuid() ||
	       (!backing_stat(b, b->root_fd, &top) && owner == top.stx_uid);
}

/* Opens the lease of @node in the directory @dir with @flags. */
static int open_lease(struct backing *b, int dir, const char *node, int flags)
{
	__cleanup_fd int pin = backing_pin(b, dir, node);
	struct statx stx;
	int err = pin < 0 ? pin : backing_stat(b, pin, &stx);

	if (!err && (!S_ISREG(stx.stx_mode) || !believed(b, stx.stx_uid)))
		err = -EPERM;
	return err ? err : backing_reopen(b, pin, flags);
}

static int write_lease(struct backing *b, int fd, const char *text, size_t len)
{
	char block[COORD_LEASE_MAX];
	ssize_t n;

	memset(block, ' ', sizeof(block));
	memcpy(block, text, len);
	n = backing_write(b, fd, block, sizeof(block), 0, 0);
	if (n < 0)
		return (int)n;
	return n == sizeof(block) ? backing_sync(b, fd, false) : -EIO;
}

int dir_lease(void *arg, const char *node, const char *text, size_t len)
{
	struct backing *b = arg;
	__cleanup_fd int dir = -1, fd = -1;
	bool created = false;
	int err;

	if (!coord_node_ok(node) || !len || len > COORD_LEASE_MAX || memchr(text, 0, len) ||
	    text[len - 1] == ' ')
		return -EINVAL;
	dir = dir_open(b, FORMAT_NODES);
	if (dir < 0)
		return dir;
	fd = open_lease(b, dir, node, O_WRONLY);
	if (fd == -ENOENT)
		fd = backing_create(b, dir, node, O_WRONLY | O_EXCL, 0644, &created);
	if (fd == -EEXIST) /* a lost answer, or a stale cache */
		fd = open_lease(b, dir, node, O_WRONLY);
	if (fd == -ENOENT)
		return -EIO; /* not seen yet: the caller asks again */
	err = fd < 0 ? fd : write_lease(b, fd, text, len);
	return err || !created ? err : backing_sync(b, dir, false);
}

ssize_t dir_lease_read(void *arg, const char *node, char *buf, size_t size)
{
	char block[COORD_LEASE_MAX + 1];
	struct backing *b = arg;
	__cleanup_fd int dir = -1, fd = -1;
	ssize_t n, i;

	if (!coord_node_ok(node))
		return -EINVAL;
	dir = dir_open(b, FORMAT_NODES);
	if (dir < 0)
		return dir == -ENOENT ? -EIO : dir; /* it exists as long as there are nodes */
	fd = open_lease(b, dir, node, O_RDONLY | O_NONBLOCK);
	n = fd < 0 ? fd : backing_read(b, fd, block, COORD_LEASE_MAX, 0);
	if (n < 0)
		return n;
	while (n && block[n - 1] == ' ')
		n--;
	for (i = 0; i < n; i++)
		if (!block[i])
			block[i] = '?';
	if ((size_t)n > size)
		return -ERANGE;
	memcpy(buf, block, (size_t)n);
	return n;
}

int dir_lease_end(void *arg, const char *node)
{
	struct backing *b = arg;
	__cleanup_fd int dir = -1;
	int err;

	if (!coord_node_ok(node))
		return -EINVAL;
	dir = dir_open(b, FORMAT_NODES);
	err = dir < 0 ? dir : backing_unlink(b, dir, node, false);
	if (err == -ENOENT)
		err = 0;
	return err ? err : backing_sync(b, dir, false);
}

struct listing {
	int (*found)(void *arg, const char *node);
	void *arg;
};

static int list_one(void *arg, const char *name)
{
	const struct listing *l = arg;

	return coord_node_ok(name) ? l->found(l->arg, name) : 0;
}

int dir_lease_list(void *arg, int (*found)(void *arg, const char *node), void *found_arg)
{
	struct listing l = {found, found_arg};
	struct backing *b = arg;
	__cleanup_fd int dir = -1;

	dir = dir_open(b, FORMAT_NODES);
	return dir < 0 ? dir : dir_each_name(b, dir, list_one, &l);
}
