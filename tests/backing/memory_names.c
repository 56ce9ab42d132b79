/* SPDX-License-Identifier: MIT */
/* The calls on names of the filesystem in memory, and its table of calls. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "tests/backing/memory_inside.h"
#include "tests/backing/util.h"

/* --- lookup --- */

struct mem_entry *mem_find(struct mem_node *dir, const char *name)
{
	size_t i;

	for (i = 0; i < dir->nr_entries; i++)
		if (!strcmp(dir->entries[i].name, name))
			return &dir->entries[i];
	return NULL;
}

static int child(struct mem_node *dir, const char *name, struct mem_node **n)
{
	struct mem_entry *e;

	if (!S_ISDIR(dir->mode))
		return -ENOTDIR;
	if (strlen(name) > NAME_MAX)
		return -ENAMETOOLONG;
	if (!*name || !strcmp(name, "."))
		*n = dir;
	else if (!strcmp(name, ".."))
		*n = dir->parent;
	else if ((e = mem_find(dir, name)))
		*n = e->node;
	else
		return -ENOENT;
	return 0;
}

/* The directory that @name is in, from @dir on; *@last: its last component. */
static int walk(struct memory *m, int dir, const char *name, struct mem_node **in,
		const char **last)
{
	int err = mem_node_of(m, dir, in);
	char one[NAME_MAX + 1];

	for (*last = name; !err && strchr(*last, '/');) {
		size_t len = strcspn(*last, "/");

		if (len > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(one, *last, len);
		one[len] = '\0';
		err = child(*in, one, in);
		*last += len + 1;
	}
	if (!err && !S_ISDIR((*in)->mode))
		return S_ISLNK((*in)->mode) && *last != name ? -ELOOP : -ENOTDIR;
	return err;
}

int mem_lookup(struct memory *m, int dir, const char *name, struct mem_node **n)
{
	const char *last;
	int err = walk(m, dir, name, n, &last);

	return err ? err : child(*n, last, n);
}

/* For a new name. *@in: the directory that is to have it. */
static int place(struct memory *m, int dir, const char *name, struct mem_node **in,
		 const char **last)
{
	struct mem_node *there;
	int err = walk(m, dir, name, in, last);

	if (!err)
		err = **last ? child(*in, *last, &there) : -ENOENT;
	if (!err)
		return -EEXIST;
	if (err == -ENOENT && *last && **last && (*in)->links)
		return 0;
	return err;
}

/* --- entries --- */

void mem_add_entry(struct mem_node *dir, const char *name, struct mem_node *n)
{
	dir->entries =
		grow(dir->entries, &dir->max_entries, dir->nr_entries, sizeof(*dir->entries));
	dir->entries[dir->nr_entries++] = (struct mem_entry){
		.name = must(strdup(name)), .node = n, .cookie = dir->next_cookie++};
	if (S_ISDIR(n->mode)) {
		n->parent = dir;
		n->links = 1;
	} else {
		n->links++;
	}
}

static void remove_entry(struct mem_node *dir, struct mem_entry *e)
{
	size_t at = (size_t)(e - dir->entries);

	e->node->links--;
	free(e->name);
	dir->nr_entries--;
	memmove(e, e + 1, (dir->nr_entries - at) * sizeof(*e));
}

static void make_entry(struct memory *m, struct mem_node *in, const char *last, mode_t mode,
		       struct mem_node **n)
{
	m->changes++;
	*n = mem_node_make(m, mode, 0);
	if (in->mode & S_ISGID) {
		(*n)->gid = in->gid;
		if (S_ISDIR(mode))
			(*n)->mode |= S_ISGID;
	}
	mem_add_entry(in, last, *n);
	mem_touch(in, true);
}

static int make(struct memory *m, int dir, const char *name, mode_t mode, struct mem_node **n)
{
	struct mem_node *in;
	const char *last;
	int err = place(m, dir, name, &in, &last);

	if (!err)
		make_entry(m, in, last, mode, n);
	return err;
}

/* --- open --- */

static int open_node(struct memory *m, struct mem_node *n, int flags)
{
	bool path = flags & O_PATH, writes = (flags & O_ACCMODE) != O_RDONLY;

	if ((flags & O_DIRECTORY) && !S_ISDIR(n->mode))
		return -ENOTDIR;
	if (path)
		return mem_node_open(m, n, O_PATH);
	if (S_ISLNK(n->mode))
		return -ELOOP;
	if (S_ISSOCK(n->mode) ||
	    (S_ISFIFO(n->mode) && (flags & O_ACCMODE) == O_WRONLY && flags & O_NONBLOCK))
		return -ENXIO;
	if (S_ISDIR(n->mode) && (writes || flags & O_TRUNC))
		return -EISDIR;
	if (flags & O_TRUNC && S_ISREG(n->mode)) {
		mem_resize(m, n, 0);
		mem_touch(n, true);
	}
	return mem_node_open(m, n, flags);
}

static int op_open(void *arg, int dir, const char *name, int flags, mode_t mode, uint64_t resolve)
{
	struct memory *m = arg;
	struct mem_node *n;
	int err;

	(void)resolve;
	MUTEX_SCOPE(&m->lock);
	if (flags & O_CREAT)
		err = make(m, dir, name, S_IFREG | (mode & 07777), &n);
	else
		err = mem_lookup(m, dir, name, &n);
	return err ? err : open_node(m, n, flags);
}

static int op_reopen(void *arg, int fd, int flags)
{
	struct memory *m = arg;
	struct mem_node *n;
	int err;

	MUTEX_SCOPE(&m->lock);
	err = mem_node_of(m, fd, &n);
	return err ? err : open_node(m, n, flags);
}

static int op_dup(void *arg, int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	(void)arg;
	return copy < 0 ? -errno : copy;
}

/* --- making and removing --- */

static int op_mkdir(void *arg, int dir, const char *name, mode_t mode)
{
	struct memory *m = arg;
	struct mem_node *n;

	MUTEX_SCOPE(&m->lock);
	return make(m, dir, name, S_IFDIR | (mode & 01777), &n);
}

static int op_mknod(void *arg, int dir, const char *name, mode_t mode, dev_t dev)
{
	struct memory *m = arg;
	struct mem_node *n;
	int err;

	if (!(mode & S_IFMT))
		mode |= S_IFREG;
	if (S_ISDIR(mode))
		return -EPERM;
	if (S_ISLNK(mode))
		return -EINVAL;
	MUTEX_SCOPE(&m->lock);
	err = make(m, dir, name, mode, &n);
	if (!err && (S_ISCHR(mode) || S_ISBLK(mode)))
		n->rdev = dev;
	return err;
}

static int op_symlink(void *arg, const char *target, int dir, const char *name)
{
	struct memory *m = arg;
	struct mem_node *n;
	int err;

	if (!*target)
		return -ENOENT;
	if (strlen(target) >= PATH_MAX)
		return -ENAMETOOLONG;
	MUTEX_SCOPE(&m->lock);
	err = make(m, dir, name, S_IFLNK | 0777, &n);
	if (!err) {
		n->target = must(strdup(target));
		n->size = (off_t)strlen(target);
	}
	return err;
}

static int op_link(void *arg, int fd, int dir, const char *name)
{
	struct memory *m = arg;
	struct mem_node *n, *in;
	const char *last;
	int err;

	MUTEX_SCOPE(&m->lock);
	m->changes++;
	err = mem_node_of(m, fd, &n);
	if (!err)
		err = place(m, dir, name, &in, &last);
	if (!err && S_ISDIR(n->mode))
		err = -EPERM;
	if (!err && !n->links)
		err = -ENOENT;
	if (err)
		return err;
	mem_add_entry(in, last, n);
	mem_touch(n, false);
	mem_touch(in, true);
	return 0;
}

static int op_unlink(void *arg, int dir, const char *name, int flags)
{
	struct memory *m = arg;
	bool directory = flags & AT_REMOVEDIR;
	struct mem_node *in, *n;
	const char *last;
	int err;

	MUTEX_SCOPE(&m->lock);
	m->changes++;
	err = walk(m, dir, name, &in, &last);
	if (!err && directory && !strcmp(last, "."))
		return -EINVAL;
	if (!err && directory && !strcmp(last, ".."))
		return -ENOTEMPTY;
	if (!err)
		err = *last ? child(in, last, &n) : -ENOENT;
	if (err)
		return err;
	if (S_ISDIR(n->mode) != directory)
		return directory ? -ENOTDIR : -EISDIR;
	if (directory && n->nr_entries)
		return -ENOTEMPTY;
	remove_entry(in, mem_find(in, last));
	mem_touch(n, false);
	mem_touch(in, true);
	mem_node_drop(m, n);
	return 0;
}

/* --- rename --- */

static bool is_below(const struct mem_node *n, const struct mem_node *dir)
{
	while (n != dir && n != n->parent)
		n = n->parent;
	return n == dir;
}

static bool is_dots(const char *name)
{
	return !*name || !strcmp(name, ".") || !strcmp(name, "..");
}

/* 0 if @from, which @e names, may get the name that @to has, in the order in which Linux looks. */
static int may_rename(struct mem_node *in, struct mem_node *n, struct mem_node *new_in,
		      struct mem_node *to, unsigned flags)
{
	bool exchange = flags & RENAME_EXCHANGE;

	if (to && flags & RENAME_NOREPLACE)
		return -EEXIST;
	if (!to && exchange)
		return -ENOENT;
	if (S_ISDIR(n->mode) && is_below(new_in, n))
		return -EINVAL;
	if (to && S_ISDIR(to->mode) && is_below(in, to))
		return exchange ? -EINVAL : -ENOTEMPTY;
	if (!new_in->links)
		return -ENOENT;
	if (!to || exchange || to == n)
		return 0;
	if (S_ISDIR(n->mode) && !S_ISDIR(to->mode))
		return -ENOTDIR;
	if (!S_ISDIR(n->mode) && S_ISDIR(to->mode))
		return -EISDIR;
	return S_ISDIR(to->mode) && to->nr_entries ? -ENOTEMPTY : 0;
}

static void exchange_entries(struct mem_node *in, struct mem_entry *a, struct mem_node *new_in,
			     struct mem_entry *b)
{
	struct mem_node *n = a->node;

	a->node = b->node;
	b->node = n;
	if (S_ISDIR(n->mode))
		n->parent = new_in;
	if (S_ISDIR(a->node->mode))
		a->node->parent = in;
}

static void move_entry(struct memory *m, struct mem_node *in, const char *last,
		       struct mem_node *new_in, const char *new_last)
{
	struct mem_entry *e = mem_find(new_in, new_last);
	struct mem_node *n = mem_find(in, last)->node, *replaced = e ? e->node : NULL;

	if (replaced) {
		remove_entry(new_in, e);
		mem_touch(replaced, false);
	}
	remove_entry(in, mem_find(in, last));
	mem_add_entry(new_in, new_last, n);
	if (replaced)
		mem_node_drop(m, replaced);
}

static int op_rename(void *arg, int dir, const char *name, int new_dir, const char *new_name,
		     unsigned flags)
{
	struct memory *m = arg;
	struct mem_node *in, *new_in, *n, *to = NULL;
	const char *last, *new_last;
	int err;

	if (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE) ||
	    flags == (RENAME_NOREPLACE | RENAME_EXCHANGE))
		return -EINVAL;
	MUTEX_SCOPE(&m->lock);
	m->changes++;
	err = walk(m, dir, name, &in, &last);
	if (!err)
		err = walk(m, new_dir, new_name, &new_in, &new_last);
	if (!err && is_dots(last))
		return -EBUSY;
	if (!err && is_dots(new_last))
		return flags & RENAME_NOREPLACE ? -EEXIST : -EBUSY;
	if (!err)
		err = child(in, last, &n);
	if (!err) {
		err = child(new_in, new_last, &to);
		if (err == -ENOENT)
			err = 0;
	}
	if (!err)
		err = may_rename(in, n, new_in, to, flags);
	if (err || n == to)
		return err;
	if (flags & RENAME_EXCHANGE) {
		exchange_entries(in, mem_find(in, last), new_in, mem_find(new_in, new_last));
		mem_touch(to, false);
	} else {
		move_entry(m, in, last, new_in, new_last);
	}
	mem_touch(n, false);
	mem_touch(in, true);
	mem_touch(new_in, true);
	return 0;
}

/* --- listing --- */

struct dent {
	uint64_t ino;
	int64_t off;
	unsigned short reclen;
	unsigned char type;
	char name[];
};

static size_t put_dent(char *buf, size_t left, const struct mem_node *n, const char *name,
		       uint64_t cookie)
{
	size_t size = (offsetof(struct dent, name) + strlen(name) + 1 + 7) & ~(size_t)7;
	struct dent *d = (struct dent *)buf;

	if (size > left)
		return 0;
	memset(buf, 0, size);
	d->ino = n->ino;
	d->off = (int64_t)cookie;
	d->reclen = (unsigned short)size;
	d->type = IFTODT(n->mode);
	memcpy(d->name, name, strlen(name));
	return size;
}

/* "." and ".." come first, with the cookies 1 and 2. */
static ssize_t list(const struct mem_node *dir, char *buf, size_t size, uint64_t *at)
{
	size_t done = 0, i;

	for (i = 0; i < dir->nr_entries + 2; i++) {
		const struct mem_entry *e = i < 2 ? NULL : &dir->entries[i - 2];
		const struct mem_node *n = e ? e->node : i ? dir->parent : dir;
		uint64_t cookie = e ? e->cookie + 3 : i + 1;
		size_t len;

		if (cookie <= *at)
			continue;
		len = put_dent(buf + done, size - done, n, e ? e->name : i ? ".." : ".", cookie);
		if (!len)
			return done ? (ssize_t)done : -EINVAL;
		done += len;
		*at = cookie;
	}
	return (ssize_t)done;
}

static ssize_t op_getdents(void *arg, int fd, void *buf, size_t size)
{
	struct memory *m = arg;
	struct mem_node *dir;
	off_t at = lseek(fd, 0, SEEK_CUR);
	uint64_t next = (uint64_t)at;
	ssize_t n;

	MUTEX_SCOPE(&m->lock);
	n = mem_node_of(m, fd, &dir);
	if (n)
		return n;
	if (at < 0)
		return -EBADF;
	if (!S_ISDIR(dir->mode))
		return -ENOTDIR;
	if (!dir->links)
		return -ENOENT;
	n = list(dir, buf, size, &next);
	if (n > 0)
		lseek(fd, (off_t)next, SEEK_SET);
	return n;
}

/* --- paths --- */

static size_t put_path(const struct mem_node *n, char *buf, size_t size)
{
	size_t at, i;

	if (n == n->parent)
		return (size_t)snprintf(buf, size, "/memory");
	at = put_path(n->parent, buf, size);
	for (i = 0; i < n->parent->nr_entries && n->parent->entries[i].node != n; i++)
		;
	if (i < n->parent->nr_entries && at < size)
		at += (size_t)snprintf(buf + at, size - at, "/%s", n->parent->entries[i].name);
	return at;
}

static ssize_t op_path(void *arg, int fd, char *buf, size_t size)
{
	struct memory *m = arg;
	char path[PATH_MAX];
	struct mem_node *n;
	size_t len;
	int err;

	MUTEX_SCOPE(&m->lock);
	err = mem_node_of(m, fd, &n);
	if (err)
		return err;
	if (S_ISDIR(n->mode) && n->links)
		len = put_path(n, path, sizeof(path));
	else
		len = (size_t)snprintf(path, sizeof(path), "(no directory)");
	if (len > size)
		len = size;
	memcpy(buf, path, len);
	return (ssize_t)len;
}

const struct backing_ops memory_ops = {
	.open = op_open,
	.mkdir = op_mkdir,
	.mknod = op_mknod,
	.symlink = op_symlink,
	.link = op_link,
	.unlink = op_unlink,
	.rename = op_rename,
	.reopen = op_reopen,
	.dup = op_dup,
	.path = op_path,
	.stat = mem_op_stat,
	.statfs = mem_op_statfs,
	.readlink = mem_op_readlink,
	.chmod = mem_op_chmod,
	.chown = mem_op_chown,
	.utimens = mem_op_utimens,
	.truncate = mem_op_truncate,
	.getxattr = mem_op_getxattr,
	.listxattr = mem_op_listxattr,
	.setxattr = mem_op_setxattr,
	.removexattr = mem_op_removexattr,
	.read = mem_op_read,
	.write = mem_op_write,
	.ftruncate = mem_op_ftruncate,
	.fallocate = mem_op_fallocate,
	.sync = mem_op_sync,
	.write_back = mem_op_write_back,
	.seek = mem_op_seek,
	.copy_range = mem_op_copy_range,
	.getdents = op_getdents,
};
