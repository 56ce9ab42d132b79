/* SPDX-License-Identifier: MIT */
/*
 * A mount without FUSE: an engine over a directory, and the calls of programs as fs/op_file.c and
 * fs/op_name.c pass them on to fs/route.c and fs/data.c. Files that are whole, and that can tell.
 */
#ifndef TESTS_UNIT_MNT_H
#define TESTS_UNIT_MNT_H

#include "tests/unit/unit.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <sys/xattr.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/base/wait.h"
#include "engine/calls/file.h"
#include "engine/commit/report.h"
#include "engine/commit/start.h"
#include "engine/content/digest.h"
#include "fs/data.h"
#include "fs/evidence_name.h"
#include "fs/fs.h"
#include "fs/in_checkpoint.h"
#include "fs/route.h"
#include "tests/backing/memory_engine.h"
#include "tests/unit/versions.h"

/* The backing @b as @caller, for as long as the block is run. */
#define AS(b, caller) ((struct backing[]){backing_as((b), (caller))})

struct mnt {
	struct engine en;
	struct fs fs;
	struct node *root;
	char path[PATH_MAX];	  /* of the backing */
	int top;		  /* the same, open */
	struct caller user;	  /* who calls */
	struct features features; /* of the backing, as of the last mnt_close */
};

struct file {
	struct mnt *m;
	struct handle *h;
	uint64_t key; /* of the process that has it open */
};

/* Set by a test: posted whenever this thread is about to block. */
static _Thread_local sem_t *waiting;

static inline void tell_block(void)
{
	if (waiting)
		sem_post(waiting);
}

/* Small enough to fill. */
#define CHUNK	      ((size_t)64 << 10)
#define SMALL_CHUNKS  8
#define SMALL_CACHE   "chunk_size=64K,host_cache_size=512K"
#define LEAST_TIMEOUT "io_retry_s=1,stall_timeout_s=1"

/* A mount of the directory @path; what records or fails its backing is attached between the two. */
static inline void mnt_open(struct mnt *m, const char *path, const char *options)
{
	struct config config;
	struct error e;

	memset(m, 0, sizeof(*m));
	snprintf(m->path, sizeof(m->path), "%s", path);
	m->user = (struct caller){.uid = getuid(), .gid = getgid(), .pid = getpid()};
	config_init(&config);
	if (config_apply_options(&config, "log_level=error,pin_host_cache=false", &e) ||
	    config_apply_options(&config, options, &e) || engine_open(&m->en, &config, path, &e))
		fail_msg("%s", e.text);
	m->top = m->en.backing.root_fd;
}

/* The same of the filesystem @memory. @m->top is no directory for calls of the kernel then. */
static inline void mnt_open_memory(struct mnt *m, struct memory *memory, const char *options)
{
	struct config config;
	struct error e;

	memset(m, 0, sizeof(*m));
	m->user = (struct caller){.uid = getuid(), .gid = getgid(), .pid = getpid()};
	config_init(&config);
	if (config_apply_options(&config, "log_level=error,pin_host_cache=false", &e) ||
	    config_apply_options(&config, options, &e) ||
	    engine_open_memory(&m->en, &config, memory, &e))
		fail_msg("%s", e.text);
	m->top = m->en.backing.root_fd;
}

static inline void mnt_start(struct mnt *m)
{
	struct error e;

	wait_observe(tell_block);
	if (engine_start(&m->en, "test", NULL, &e))
		fail_msg("%s", e.text);
	m->fs.engine = &m->en;
	m->fs.tree = tree_create(&m->en, 64);
	assert_non_null(m->fs.tree);
	m->root = node_get(m->fs.tree, NODE_ROOT);
	units_set_knower(m->en.units, tree_knows, m->fs.tree);
}

/* Publishes what is closed. 0, or as engine_drain. */
static inline int mnt_drain(struct mnt *m, unsigned seconds)
{
	return engine_drain(&m->en, clock_mono_ns() + seconds * NSEC_PER_SEC);
}

static inline void mnt_close(struct mnt *m)
{
	engine_stop(&m->en);
	if (m->fs.tree) {
		node_put(m->fs.tree, m->root);
		tree_destroy(m->fs.tree);
	}
	m->features = *m->en.backing.features;
	engine_close(&m->en);
}

/* --- paths --- */

struct at {
	struct node *dir;
	struct node_fd fd;
	const char *name;
};

/* 0 or -errno, and then there is nothing to end. */
static inline int at_try(struct mnt *m, const char *path, struct at *at)
{
	const char *slash;
	int err = 0;

	*at = (struct at){.dir = node_get(m->fs.tree, NODE_ROOT), .name = path};
	while (!err && (slash = strchr(at->name, '/'))) {
		char dir[NAME_MAX + 1];
		struct node *below;
		struct statx stx;

		snprintf(dir, sizeof(dir), "%.*s", (int)(slash - at->name), at->name);
		err = tree_lookup(m->fs.tree, &m->en.backing, at->dir, dir, 0, &below, &stx);
		if (err)
			break;
		tree_forget(m->fs.tree, below->id, 1);
		node_put(m->fs.tree, at->dir);
		at->dir = below;
		at->name = slash + 1;
	}
	if (!err)
		err = tree_fd(m->fs.tree, &m->en.backing, at->dir, &at->fd);
	if (err)
		node_put(m->fs.tree, at->dir);
	return err;
}

static inline struct at at_begin(struct mnt *m, const char *path)
{
	struct at at;

	assert_int_equal(at_try(m, path, &at), 0);
	return at;
}

static inline void at_end(struct mnt *m, struct at *at)
{
	tree_fd_put(m->fs.tree, &at->fd);
	node_put(m->fs.tree, at->dir);
}

static inline int file_rename(struct mnt *m, const char *from, const char *to)
{
	struct at a, b;
	int err = at_try(m, from, &a);

	if (err)
		return err;
	err = at_try(m, to, &b);
	if (!err) {
		err = route_rename(&m->fs, &m->user, &(struct entry_name){a.dir, a.fd.fd, a.name},
				   &(struct entry_name){b.dir, b.fd.fd, b.name}, 0);
		at_end(m, &b);
	}
	at_end(m, &a);
	return err;
}

static inline int file_unlink(struct mnt *m, const char *path)
{
	struct at at = at_begin(m, path);
	int err = route_unlink(&m->fs, &m->user, &(struct entry_name){at.dir, at.fd.fd, at.name});

	if (err == -ENOTSUP)
		err = backing_unlink(AS(&m->en.backing, &m->user), at.fd.fd, at.name, false);
	at_end(m, &at);
	return err;
}

/* Of op_mkdir. */
static inline int dir_make(struct mnt *m, const char *path)
{
	struct at at;
	struct in_checkpoint in;
	int err = at_try(m, path, &at);

	if (err)
		return err;
	err = in_checkpoint_enter(&m->fs, &m->user, at.dir, at.name, (struct change){0}, &in);

	if (err >= 0)
		err = err ? -ENOTSUP
			  : route_mkdir(&m->fs, &m->user,
					&(struct entry_name){at.dir, at.fd.fd, at.name},
					in.checkpoint, 0755);
	if (err == -ENOTSUP)
		err = backing_mkdir(AS(&m->en.backing, &m->user), at.fd.fd, at.name, 0755);
	in_checkpoint_leave(&in);
	at_end(m, &at);
	return err;
}

/* Of op_rmdir. */
static inline int dir_remove(struct mnt *m, const char *path)
{
	struct at at = at_begin(m, path);
	int err = route_rmdir(&m->fs, &m->user, &(struct entry_name){at.dir, at.fd.fd, at.name});

	at_end(m, &at);
	return err;
}

/* Of op_symlink. */
static inline int link_make(struct mnt *m, const char *target, const char *path)
{
	struct at at = at_begin(m, path);
	int err = evidence_name_hold_link(&m->fs, &m->user,
					  &(struct entry_name){at.dir, at.fd.fd, at.name}, target);

	if (err == -ENOTSUP)
		err = backing_symlink(AS(&m->en.backing, &m->user), target, at.fd.fd, at.name);
	at_end(m, &at);
	return err;
}

/* fsync of the top directory. */
static inline int dir_sync(struct mnt *m)
{
	struct inode_id id = node_inode(m->root);
	int err = units_settle_dir(m->en.units, &id), fd;

	if (err)
		return err;
	fd = backing_reopen(&m->en.backing, m->top, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return fd;
	err = backing_sync(&m->en.backing, fd, false);
	close(fd);
	return err;
}

/* --- open files --- */

/* Of op_open. */
static inline int open_there(struct mnt *m, struct node *n, int flags, struct file *f)
{
	struct generation *g;
	struct node_fd nf;
	int fd, err = route_open(&m->fs, &m->user, n, flags, &g);

	if (err)
		return err;
	err = tree_fd(m->fs.tree, AS(&m->en.backing, &m->user), n, &nf);
	if (!err) {
		flags &= O_ACCMODE | O_TRUNC;
		fd = backing_reopen(AS(&m->en.backing, &m->user), nf.fd,
				    g ? flags & ~O_TRUNC : flags);
		tree_fd_put(m->fs.tree, &nf);
		err = fd < 0 ? fd : 0;
	}
	f->h = err ? NULL : handle_create(m->fs.tree, n, fd, flags);
	if (!f->h) {
		route_not_opened(g);
		return err ? err : -ENOMEM;
	}
	route_opened(f->h, g);
	return 0;
}

/* Of op_create. */
static inline int open_new(struct mnt *m, struct at *at, int flags, struct file *f)
{
	struct generation *g = NULL;
	struct statx stx;
	bool created = true;
	struct node *n;
	int fd, err = route_create(&m->fs, &m->user, at->dir, at->fd.fd, at->name, 0644, flags, &g);

	if (err)
		return err;
	if (g)
		fd = fcntl(generation_content(g)->fd, F_DUPFD_CLOEXEC, 0);
	else
		fd = backing_create(AS(&m->en.backing, &m->user), at->fd.fd, at->name, O_RDWR, 0644,
				    &created);
	err = fd < 0 ? fd
		     : tree_adopt(m->fs.tree, &m->en.backing, at->dir, at->name, fd, created, &n,
				  &stx);
	if (err) {
		if (fd >= 0)
			close(fd);
		route_not_opened(g);
		return err;
	}
	f->h = handle_create(m->fs.tree, n, fd, flags);
	assert_non_null(f->h);
	route_opened(f->h, g);
	tree_forget(m->fs.tree, n->id, 1);
	node_put(m->fs.tree, n);
	return 0;
}

/* open(2) with O_CREAT: what gets ESTALE is looked up anew, by the kernel. */
static inline int file_open(struct mnt *m, struct file *f, const char *path, int flags)
{
	static atomic_uint_fast64_t keys;
	struct statx stx;
	struct node *n;
	int err, tries = 0;

	*f = (struct file){.m = m, .key = ++keys};
	do {
		struct at at;

		err = at_try(m, path, &at);
		if (err)
			continue;
		err = tree_lookup(m->fs.tree, &m->en.backing, at.dir, at.name, m->user.pid, &n,
				  &stx);
		if (!err) {
			err = open_there(m, n, flags, f);
			tree_forget(m->fs.tree, n->id, 1);
			node_put(m->fs.tree, n);
		} else if (err == -ENOENT && flags != O_RDONLY) {
			err = open_new(m, &at, flags, f);
		}
		at_end(m, &at);
	} while (err == -ESTALE && ++tries < 3);
	return err;
}

/* write(2), again for the rest. */
static inline ssize_t file_write(struct file *f, const void *data, size_t len, uint64_t off)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n =
			data_write(&f->m->fs, &f->m->user, f->h, f->key, (const char *)data + done,
				   len - done, (off_t)(off + done), 0);

		if (n < 0)
			return done ? (ssize_t)done : n;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static inline ssize_t file_read(struct file *f, void *buf, size_t len, uint64_t off)
{
	return data_read(&f->m->fs, &f->m->user, f->h, buf, len, (off_t)off);
}

static inline int file_truncate(struct file *f, uint64_t size)
{
	return data_truncate(&f->m->fs, &f->m->user, f->h->node, size);
}

static inline int file_sync(struct file *f)
{
	return data_sync(&f->m->fs, &f->m->user, f->h, false);
}

/* close(2): what FLUSH answers; then RELEASE. */
static inline int file_close(struct file *f)
{
	int err = data_close(&f->m->fs, &f->m->user, f->h, f->key), ignored;

	if (f->h->generation)
		generation_released(f->h->generation);
	handle_put(f->m->fs.tree, f->h, &ignored);
	f->h = NULL;
	return err;
}

/* What `ckptfs wait` would: 0 if what has the name now is committed, or nothing is pending. */
static inline int name_wait(struct mnt *m, const char *path)
{
	struct at at = at_begin(m, path);
	struct inode_id dir = node_inode(at.dir);
	struct generation *g = units_find(m->en.units, &dir, at.name, 0);
	int err = g ? generation_wait(g) : 0;

	generation_put(g);
	at_end(m, &at);
	return err;
}

/*
 * Closes the only descriptor of @f, which has @name. It is committed, and is the @size bytes at
 * @want, in the mount as on the backing.
 */
static inline void file_commit(struct file *f, const char *name, const char *want, size_t size)
{
	struct content *ct = generation_content(f->h->generation);
	__cleanup_free char *got = malloc(size + 1);
	__cleanup_fd int fd = -1;
	struct mnt *m = f->m;

	assert_non_null(got);
	assert_int_equal(content_size(ct), size);
	assert_int_equal(content_read(ct, ct->fd, got, size + 1, 0), size);
	assert_memory_equal(got, want, size);
	assert_int_equal(generation_write(f->h->generation, f->key), 0);
	generation_changed(f->h->generation);
	assert_int_equal(file_close(f), 0);
	assert_int_equal(name_wait(m, name), 0);
	fd = openat(m->top, name, O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, got, size + 1), size);
	assert_memory_equal(got, want, size);
}

/* The same of a checkpoint of many files; -EIO: it failed. */
static inline int checkpoint_wait(struct mnt *m, const char *path)
{
	struct at at = at_begin(m, path);
	struct inode_id dir = node_inode(at.dir);
	bool committed = false, failed = false;

	while (!committed && !failed) {
		const char *state;
		json_t *o;

		assert_int_equal(mnt_drain(m, 60), 0);
		o = units_describe(m->en.units, &dir, at.name, NULL);
		state = json_get_text(o, "state", "");
		committed = !strcmp(state, "committed");
		failed = !o || !strcmp(state, "failed");
		json_decref(o);
	}
	at_end(m, &at);
	return committed ? 0 : -EIO;
}

/* What a program that opens it in the mount reads. */
static inline int version_in(struct mnt *m, const char *path)
{
	const size_t most = 4 << 20;
	__cleanup_free char *data = malloc(most);
	struct file f;
	ssize_t n;
	int err = file_open(m, &f, path, O_RDONLY);

	if (err)
		return err == -ENOENT ? ABSENT : TORN;
	n = file_read(&f, data, most, 0);
	file_close(&f);
	return n < 0 ? TORN : version_of(data, (size_t)n);
}

/* Writes all of a version as a program does: in pieces that are not aligned. 0 or -errno. */
static inline int file_fill(struct file *f, int version, size_t size)
{
	__cleanup_free char *data = bytes_of(version, size);
	const size_t step = 50000;
	size_t at;

	for (at = 0; at < size; at += step) {
		size_t len = size - at < step ? size - at : step;
		ssize_t n = file_write(f, data + at, len, at);

		if (n < 0)
			return (int)n;
	}
	return 0;
}

/* Opens, writes and closes. The first error. */
static inline int save(struct mnt *m, const char *path, int version, size_t size, bool sync)
{
	struct file f;
	int err = file_open(m, &f, path, O_WRONLY | O_TRUNC), close_err;

	if (err)
		return err;
	err = file_fill(&f, version, size);
	if (!err && sync)
		err = file_sync(&f);
	close_err = file_close(&f);
	return err ? err : close_err;
}

#endif
