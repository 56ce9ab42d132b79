/* SPDX-License-Identifier: MIT */
#include "tests/backing/distant.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"

#define FDS_MAX	    1024
#define STEP_MS	    20 /* a call takes up to this */
#define MANY	    8  /* of ten: how often a cache is filled */
#define CONTENT_MAX (128 << 10)

/* A name that was looked up: it is @pin's, or nobody's. */
struct name_known {
	struct name_known *next;
	uint64_t dir, until;
	int pin; /* -1: there is none */
	char name[];
};

struct stat_known {
	struct stat_known *next;
	uint64_t ino, until;
	struct statx stx;
};

struct list_known {
	struct list_known *next;
	uint64_t dir, until;
	char *dents;
	size_t len;
};

/*
 * What an open descriptor has: the content as it was when it was opened, or what is to be written.
 */
struct open_file {
	char *content, *pending;
	size_t content_len, pending_len;
	size_t listed; /* of its directory's listing */
};

struct distant {
	struct backing b;
	struct backing_ops ops;
	struct distant_server *server;
	unsigned seed;
	int cut, read_only;
	unsigned long lies;
	struct name_known *names;
	struct stat_known *stats;
	struct list_known *lists;
	struct open_file open[FDS_MAX];
};

#define REAL(call, d, ...) (backing_real_ops.call(&(d)->b, ##__VA_ARGS__))

static unsigned chance(struct distant *d, unsigned of)
{
	return (unsigned)rand_r(&d->seed) % of;
}

static uint64_t step(struct distant *d)
{
	uint64_t ns = chance(d, STEP_MS * 1000) * 1000ull;

	return atomic_fetch_add(&d->server->now_ns, ns) + ns;
}

static uint64_t until(struct distant *d)
{
	return d->server->now_ns + (uint64_t)(d->server->stale_ns * (chance(d, 100) / 100.0));
}

/*
 * Does the answer get lost? Then *made says whether the call is made, and *err what is said
 * instead.
 */
static bool lost(struct distant *d, int repeated, bool *made, int *err)
{
	*made = true;
	*err = 0;
	if (d->cut) {
		*made = false;
		*err = d->cut;
	} else if (chance(d, 1000) < d->server->lost) {
		*made = chance(d, 2);
		*err = *made && chance(d, 2) ? repeated : -EIO;
	}
	return *err;
}

#define LOSING(d, repeated, call) \
	({ \
		bool made_; \
		int lost_, r_ = 0; \
		step(d); \
		lost(d, repeated, &made_, &lost_); \
		if (made_) \
			r_ = (call); \
		r_ < 0 || !lost_ ? r_ : lost_; \
	})

static uint64_t ino_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

/* --- what a client knows --- */

static void forget_name(struct distant *d, uint64_t dir, const char *name)
{
	struct name_known **at = &d->names;

	while (*at) {
		struct name_known *k = *at;

		if (k->dir != dir || (name && strcmp(k->name, name))) {
			at = &k->next;
			continue;
		}
		*at = k->next;
		if (k->pin >= 0)
			close(k->pin);
		free(k);
	}
}

static void forget_inode(struct distant *d, uint64_t ino)
{
	struct name_known *k;

	for (k = d->names; k; k = k->next)
		if (k->pin >= 0 && ino_of(k->pin) == ino)
			k->until = 0;
}

static struct name_known *know_name(struct distant *d, uint64_t dir, const char *name)
{
	struct name_known *k;

	for (k = d->names; k; k = k->next)
		if (k->dir == dir && !strcmp(k->name, name))
			break;
	if (k && d->server->now_ns < k->until)
		return k;
	if (k)
		forget_name(d, dir, name);
	return NULL;
}

static void learn_name(struct distant *d, uint64_t dir, const char *name, int pin)
{
	size_t len = strlen(name) + 1;
	struct name_known *k;

	if (chance(d, 10) >= MANY)
		return;
	forget_name(d, dir, name);
	k = malloc(sizeof(*k) + len);
	*k = (struct name_known){d->names, dir, until(d),
				 pin < 0 ? -1 : fcntl(pin, F_DUPFD_CLOEXEC, 0)};
	memcpy(k->name, name, len);
	d->names = k;
}

static void forget_stat(struct distant *d, uint64_t ino)
{
	struct stat_known *k;

	for (k = d->stats; k; k = k->next)
		if (k->ino == ino)
			k->until = 0;
}

/* --- calls on names --- */

static struct open_file *opened(struct distant *d, int fd)
{
	struct open_file *f;

	if (fd < 0 || fd >= FDS_MAX)
		return NULL;
	f = &d->open[fd];
	free(f->content);
	free(f->pending); /* closed without a sync: nobody was promised anything */
	memset(f, 0, sizeof(*f));
	return f;
}

static int d_create(struct distant *d, int dir, const char *name, int flags, mode_t mode,
		    uint64_t resolve)
{
	bool made;
	int err, fd = -1;

	step(d);
	lost(d, -EEXIST, &made, &err);
	if (made)
		fd = REAL(open, d, dir, name, flags, mode, resolve);
	if (made && fd < 0)
		return fd;
	if (err) {
		if (made)
			close(fd);
		return err;
	}
	forget_name(d, ino_of(dir), name);
	opened(d, fd);
	return fd;
}

static int d_open(void *arg, int dir, const char *name, int flags, mode_t mode, uint64_t resolve)
{
	struct distant *d = arg;
	struct name_known *k;
	struct stat now;
	int fd;

	if (flags & O_CREAT)
		return d_create(d, dir, name, flags, mode, resolve);
	step(d);
	if (d->cut)
		return d->cut;
	k = know_name(d, ino_of(dir), name);
	if (k) {
		bool there = !fstatat(dir, name, &now, AT_SYMLINK_NOFOLLOW);

		d->lies += there != (k->pin >= 0);
		return k->pin < 0 ? -ENOENT : fcntl(k->pin, F_DUPFD_CLOEXEC, 0);
	}
	if (chance(d, 1000) < d->server->lost)
		return -EIO;
	fd = REAL(open, d, dir, name, flags, mode, resolve);
	if (fd >= 0 || fd == -ENOENT)
		learn_name(d, ino_of(dir), name, fd);
	opened(d, fd);
	return fd;
}

static int d_mkdir(void *arg, int dir, const char *name, mode_t mode)
{
	struct distant *d = arg;

	return LOSING(d, -EEXIST, REAL(mkdir, d, dir, name, mode));
}

static int d_link(void *arg, int fd, int dir, const char *name)
{
	struct distant *d = arg;
	int err = d->server->links ? LOSING(d, -EEXIST, REAL(link, d, fd, dir, name)) : -EOPNOTSUPP;

	if (!err)
		forget_name(d, ino_of(dir), name);
	return err;
}

static int d_symlink(void *arg, const char *target, int dir, const char *name)
{
	struct distant *d = arg;
	int err = LOSING(d, -EEXIST, REAL(symlink, d, target, dir, name));

	if (!err)
		forget_name(d, ino_of(dir), name);
	return err;
}

static int d_unlink(void *arg, int dir, const char *name, int flags)
{
	struct distant *d = arg;
	const struct name_known *k = know_name(d, ino_of(dir), name);
	int err;

	if (k && k->pin < 0 && !d->cut)
		return -ENOENT; /* not even asked */
	err = LOSING(d, -ENOENT, REAL(unlink, d, dir, name, flags));
	if (!err)
		forget_name(d, ino_of(dir), name);
	return err;
}

static int d_rename(void *arg, int dir, const char *name, int new_dir, const char *new_name,
		    unsigned flags)
{
	struct distant *d = arg;
	int err = flags ? -EINVAL
			: LOSING(d, -ENOENT, REAL(rename, d, dir, name, new_dir, new_name, 0));

	if (!err) {
		forget_name(d, ino_of(dir), name);
		forget_name(d, ino_of(new_dir), new_name);
	}
	return err;
}

/* --- inodes and open files --- */

/* With all that others have synced by now. */
static void take_content(struct distant *d, int fd, struct open_file *f)
{
	char path[32];
	int real;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	real = open(path, O_RDONLY | O_CLOEXEC);
	f->content = calloc(1, CONTENT_MAX);
	MUTEX_SCOPE(&d->server->lock);
	f->content_len = (size_t)pread(real, f->content, CONTENT_MAX, 0);
	close(real);
}

static int d_reopen(void *arg, int fd, int flags)
{
	struct distant *d = arg;
	struct open_file *f;
	int new_fd = LOSING(d, -EIO, 0);
	struct stat st;

	if (!new_fd && !fstat(fd, &st) &&
	    !st.st_nlink) { /* what a name was known to be, and is no more */
		forget_inode(d, st.st_ino);
		return -ESTALE;
	}
	if (!new_fd)
		new_fd = REAL(reopen, d, fd, flags);
	f = opened(d, new_fd);
	if (new_fd < 0)
		return new_fd;
	if (flags & O_DIRECTORY) {
		if (d->server->asks)
			forget_name(d, ino_of(fd), NULL);
	} else {
		forget_stat(d, ino_of(fd));
		if ((flags & O_ACCMODE) == O_RDONLY && f)
			take_content(d, new_fd, f);
	}
	return new_fd;
}

/* A listing through it goes on where that through @fd was. */
static int d_dup(void *arg, int fd)
{
	struct distant *d = arg;
	int new_fd = REAL(dup, d, fd);
	struct open_file *f = opened(d, new_fd);

	if (f)
		f->listed = d->open[fd].listed;
	return new_fd;
}

static int d_stat(void *arg, int dir, const char *name, int flags, struct statx *stx)
{
	struct distant *d = arg;
	int err = LOSING(d, -EIO, REAL(stat, d, dir, name, flags, stx));
	struct stat_known *k;

	for (k = d->stats; !err && k && k->ino != stx->stx_ino;)
		k = k->next;
	if (err)
		return err;
	if (k && d->server->now_ns < k->until) {
		d->lies += k->stx.stx_size != stx->stx_size;
		*stx = k->stx;
		return 0;
	}
	if (!k) {
		k = calloc(1, sizeof(*k));
		k->next = d->stats;
		k->ino = stx->stx_ino;
		d->stats = k;
	}
	k->until = until(d);
	k->stx = *stx;
	return 0;
}

static ssize_t d_read(void *arg, int fd, void *buf, size_t size, off_t off)
{
	struct distant *d = arg;
	const struct open_file *f = &d->open[fd];
	int err = LOSING(d, -EIO, 0);

	if (err)
		return err;
	if ((size_t)off >= f->content_len)
		return 0;
	if (size > f->content_len - (size_t)off)
		size = f->content_len - (size_t)off;
	memcpy(buf, f->content + off, size);
	return (ssize_t)size;
}

/* Only what ckptfs does here: all of a file, from its beginning. */
static ssize_t d_write(void *arg, int fd, const void *buf, size_t size, off_t off, int rwf)
{
	struct distant *d = arg;
	struct open_file *f = &d->open[fd];
	int err = off || rwf ? -EINVAL : d->read_only ? d->read_only : LOSING(d, -EIO, 0);

	if (err)
		return err;
	free(f->pending);
	f->pending = malloc(size);
	f->pending_len = size;
	memcpy(f->pending, buf, size);
	return (ssize_t)size;
}

static void give_half(struct distant *d, int fd, size_t from, size_t to)
{
	MUTEX_SCOPE(&d->server->lock);
	if (pwrite(fd, d->open[fd].pending + from, to - from, (off_t)from) < 0)
		abort();
}

static int d_sync(void *arg, int fd, enum backing_sync what)
{
	struct distant *d = arg;
	struct open_file *f = &d->open[fd];
	bool made;
	int err;

	(void)what; /* nothing here survives a crash of the machine, so it is not asked for it */
	step(d);
	lost(d, -EIO, &made, &err);
	if (f->pending && made) {
		give_half(d, fd, 0, f->pending_len / 2);
		give_half(d, fd, f->pending_len / 2, f->pending_len);
		free(f->pending);
		f->pending = NULL;
		forget_stat(d, ino_of(fd));
	}
	return err;
}

static struct list_known *list_dir(struct distant *d, int fd)
{
	uint64_t dir = ino_of(fd);
	struct list_known *k = d->lists;
	char buf[32768];
	ssize_t n;

	while (k && k->dir != dir)
		k = k->next;
	if (k && d->server->now_ns < k->until)
		return k;
	if (!k) {
		k = calloc(1, sizeof(*k));
		k->next = d->lists;
		d->lists = k;
	}
	k->dir = dir;
	k->until = until(d);
	k->len = 0;
	lseek(fd, 0, SEEK_SET);
	while ((n = REAL(getdents, d, fd, buf, sizeof(buf))) > 0) {
		k->dents = realloc(k->dents, k->len + (size_t)n);
		memcpy(k->dents + k->len, buf, (size_t)n);
		k->len += (size_t)n;
	}
	return k;
}

static ssize_t d_getdents(void *arg, int fd, void *buf, size_t size)
{
	struct distant *d = arg;
	struct open_file *f = &d->open[fd];
	const struct list_known *k;
	int err = LOSING(d, -EIO, 0);
	size_t n = 0;

	if (err)
		return err;
	k = list_dir(d, fd);
	while (f->listed < k->len) {
		const struct dirent64 *e = (const void *)(k->dents + f->listed);

		if (n + e->d_reclen > size)
			break;
		memcpy((char *)buf + n, e, e->d_reclen);
		n += e->d_reclen;
		f->listed += e->d_reclen;
	}
	return (ssize_t)n;
}

/* --- the clients --- */

void distant_server_init(struct distant_server *s, const char *path, unsigned seed)
{
	memset(s, 0, sizeof(*s));
	s->path = path;
	s->seed = seed;
	s->links = true;
	s->stale_ns = 60 * NSEC_PER_SEC;
	s->now_ns = NSEC_PER_SEC;
	pthread_mutex_init(&s->lock, NULL);
}

struct backing *distant_open(struct distant_server *s)
{
	struct distant *d = calloc(1, sizeof(*d));
	struct error e;

	if (!d || backing_open(&d->b, s->path, &e))
		abort();
	features_probe(d->b.features, d->b.root_fd, true);
	d->server = s;
	d->seed = s->seed++;
	d->ops = backing_real_ops;
	d->ops.open = d_open;
	d->ops.mkdir = d_mkdir;
	d->ops.link = d_link;
	d->ops.symlink = d_symlink;
	d->ops.unlink = d_unlink;
	d->ops.rename = d_rename;
	d->ops.reopen = d_reopen;
	d->ops.dup = d_dup;
	d->ops.stat = d_stat;
	d->ops.read = d_read;
	d->ops.write = d_write;
	d->ops.sync = d_sync;
	d->ops.getdents = d_getdents;
	d->b.ops = &d->ops;
	d->b.fuse = s->fuse;
	return &d->b;
}

void distant_close(struct backing *b)
{
	struct distant *d = (struct distant *)b;
	int fd;

	while (d->names)
		forget_name(d, d->names->dir, NULL);
	while (d->stats) {
		struct stat_known *k = d->stats;

		d->stats = k->next;
		free(k);
	}
	while (d->lists) {
		struct list_known *k = d->lists;

		d->lists = k->next;
		free(k->dents);
		free(k);
	}
	for (fd = 0; fd < FDS_MAX; fd++) {
		free(d->open[fd].content);
		free(d->open[fd].pending);
	}
	backing_close(b);
	free(d);
}

void distant_cut(struct backing *b, int err, bool writes)
{
	struct distant *d = (struct distant *)b;

	d->cut = writes ? 0 : err;
	d->read_only = writes ? err : 0;
}

unsigned long distant_lies(const struct backing *b)
{
	return ((const struct distant *)b)->lies;
}
