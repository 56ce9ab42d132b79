/* SPDX-License-Identifier: MIT */
#include "tests/model/calls.h"
#include "engine/backing/dirwalk.h"
#include "engine/save/checkpoint.h"

#include <dirent.h>

#define TRIES 2 /* of the kernel, for a path that gets ESTALE */

static struct caller caller_of(pid_t pid)
{
	return (struct caller){.uid = getuid(), .gid = getgid(), .pid = pid};
}

/* A name in a directory, found from the top as the kernel finds it. */
struct reached {
	pid_t pid; /* for whom */
	struct node *dir;
	struct node_fd fd;
	const char *name;
};

static int place_begin(pid_t pid, const char *path, struct reached *p)
{
	struct tree *t = world.m.fs.tree;
	const char *slash;
	int err = 0;

	*p = (struct reached){.pid = pid, .dir = node_get(t, NODE_ROOT), .name = path};
	while (!err && (slash = strchr(p->name, '/'))) {
		char dir[NAME_MAX + 1];
		struct node *below;
		struct statx stx;

		snprintf(dir, sizeof(dir), "%.*s", (int)(slash - p->name), p->name);
		err = tree_lookup(t, &world.m.en.backing, p->dir, dir, pid, &below, &stx);
		if (err)
			break;
		if (!S_ISDIR(stx.stx_mode))
			err = -ENOTDIR;
		node_put(t, p->dir);
		tree_forget(t, below->id, 1);
		p->dir = below;
		p->name = slash + 1;
	}
	if (!err)
		err = tree_fd(t, &world.m.en.backing, p->dir, &p->fd);
	if (err)
		node_put(t, p->dir);
	return err;
}

static void place_end(struct reached *p)
{
	tree_fd_put(world.m.fs.tree, &p->fd);
	node_put(world.m.fs.tree, p->dir);
}

static struct entry_name name_at(const struct reached *p)
{
	return (struct entry_name){p->dir, p->fd.fd, p->name};
}

static int lookup(const struct reached *p, struct node **n, struct statx *stx)
{
	return tree_lookup(world.m.fs.tree, &world.m.en.backing, p->dir, p->name, p->pid, n, stx);
}

static void forget(struct node *n)
{
	tree_forget(world.m.fs.tree, n->id, 1);
	node_put(world.m.fs.tree, n);
}

/* What the kernel finds out itself, before it asks: is there a name, and what is it? */
static int look_up(const struct reached *p, mode_t *type)
{
	struct node *n;
	struct statx stx;
	int err = lookup(p, &n, &stx);

	if (err)
		return err;
	*type = stx.stx_mode & S_IFMT;
	forget(n);
	return 0;
}

/* Of op_mkdir. */
static int mkdir_once(pid_t pid, const char *path)
{
	struct fs *fs = &world.m.fs;
	struct caller c = caller_of(pid);
	struct in_checkpoint in = {.checkpoint = NULL};
	struct inode_id dir;
	struct entry_name n;
	struct reached p;
	mode_t type;
	int err = place_begin(pid, path, &p);

	if (err)
		return err;
	n = name_at(&p);
	err = look_up(&p, &type);
	err = !err ? -EEXIST : err == -ENOENT ? 0 : err;
	dir = node_inode(p.dir);
	if (!err && names_look_saved(fs->engine->units, &dir, p.name, 0, NULL))
		err = -EEXIST;
	if (!err)
		err = in_checkpoint_enter(fs, &c, p.dir, p.name, (struct change){0}, &in);
	if (!err)
		err = in_checkpoint_begin_change(fs, &c, p.dir, p.name, (struct change){0});
	if (err >= 0)
		err = route_mkdir(fs, &c, &n, in.checkpoint, 0755);
	if (err == -ENOTSUP)
		err = backing_mkdir(AS(&fs->engine->backing, &c), p.fd.fd, p.name, 0755);
	in_checkpoint_leave(&in);
	place_end(&p);
	return err;
}

static int open_once(pid_t pid, const char *path, int flags, struct opened *o)
{
	struct node *n;
	struct statx stx;
	struct reached p;
	int err = place_begin(pid, path, &p);

	if (err)
		return err;
	world.m.user = caller_of(pid);
	err = lookup(&p, &n, &stx);
	if (!err) {
		err = S_ISDIR(stx.stx_mode) ? -EISDIR : open_there(&world.m, n, flags, &o->file);
		forget(n);
	} else if (err == -ENOENT && flags != O_RDONLY) {
		struct at at = {.dir = p.dir, .fd = p.fd, .name = p.name};

		err = open_new(&world.m, &at, flags, &o->file);
	}
	place_end(&p);
	return err;
}

static int unlink_once(pid_t pid, const char *path)
{
	struct caller c = caller_of(pid);
	struct reached p;
	mode_t type;
	int err = place_begin(pid, path, &p);

	if (err)
		return err;
	err = look_up(&p, &type);
	if (!err && S_ISDIR(type))
		err = -EISDIR;
	if (!err) {
		struct entry_name n = name_at(&p);

		err = route_unlink(&world.m.fs, &c, &n);
	}
	place_end(&p);
	return err;
}

static int rmdir_once(pid_t pid, const char *path)
{
	struct caller c = caller_of(pid);
	struct reached p;
	mode_t type;
	int err = place_begin(pid, path, &p);

	if (err)
		return err;
	err = look_up(&p, &type);
	if (!err && !S_ISDIR(type))
		err = -ENOTDIR;
	if (!err) {
		struct entry_name n = name_at(&p);

		err = route_rmdir(&world.m.fs, &c, &n);
	}
	place_end(&p);
	return err;
}

static int cut_once(pid_t pid, const char *path, size_t size)
{
	struct fs *fs = &world.m.fs;
	struct caller c = caller_of(pid);
	struct node *n;
	struct statx stx;
	struct node_fd nf;
	struct reached p;
	int err = place_begin(pid, path, &p);

	if (err)
		return err;
	err = lookup(&p, &n, &stx);
	if (err) {
		place_end(&p);
		return err;
	}
	err = S_ISDIR(stx.stx_mode) ? -EISDIR : route_truncate(fs, &c, n, size);
	if (err == -ENOTSUP)
		err = data_truncate(fs, &c, n, size);
	if (err == -ENOTSUP) {
		err = tree_fd(fs->tree, &world.m.en.backing, n, &nf);
		if (!err) {
			err = backing_truncate(AS(&fs->engine->backing, &c), nf.fd, (off_t)size);
			tree_fd_put(fs->tree, &nf);
		}
	}
	forget(n);
	place_end(&p);
	return err;
}

static bool is_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	return !strncmp(path, dir, len) && path[len] == '/';
}

/* Of op_symlink. */
static int symlink_once(pid_t pid, const char *target, const char *path)
{
	struct fs *fs = &world.m.fs;
	struct caller c = caller_of(pid);
	struct entry_name n;
	struct reached p;
	mode_t type;
	int err = place_begin(pid, path, &p);

	if (err)
		return err;
	n = name_at(&p);
	err = look_up(&p, &type);
	err = !err ? -EEXIST : err == -ENOENT ? evidence_name_hold_link(fs, &c, &n, target) : err;
	if (err == -ENOTSUP)
		err = backing_symlink(AS(&fs->engine->backing, &c), target, p.fd.fd, p.name);
	place_end(&p);
	return err;
}

static int rename_once(pid_t pid, const char *from, const char *to)
{
	struct caller c = caller_of(pid);
	struct reached a, b;
	mode_t type, to_type;
	int err = place_begin(pid, from, &a);

	if (err)
		return err;
	err = place_begin(pid, to, &b);
	if (err) {
		place_end(&a);
		return err;
	}
	err = look_up(&a, &type);
	if (!err && is_below(to, from))
		err = -EINVAL; /* the kernel sees it before it asks */
	if (!err && is_below(from, to))
		err = -ENOTEMPTY;
	if (!err && !look_up(&b, &to_type) && S_ISDIR(type) != S_ISDIR(to_type))
		err = S_ISDIR(type) ? -ENOTDIR : -EISDIR;
	if (!err && strcmp(from, to)) {
		struct entry_name x = name_at(&a), y = name_at(&b);

		err = route_rename(&world.m.fs, &c, &x, &y, 0);
	}
	place_end(&b);
	place_end(&a);
	return err;
}

#define WITH_PATH(call) \
	({ \
		int err_, tries_ = 0; \
		do \
			err_ = (call); \
		while (err_ == -ESTALE && ++tries_ < TRIES); \
		err_; \
	})

int call_mkdir(pid_t pid, const char *path)
{
	return WITH_PATH(mkdir_once(pid, path));
}

int call_open(pid_t pid, const char *path, int flags, struct opened *o)
{
	int err;

	o->file = (struct file){.m = &world.m, .key = (uint64_t)pid};
	err = WITH_PATH(open_once(pid, path, flags, o));
	o->used = !err;
	return err;
}

int call_unlink(pid_t pid, const char *path)
{
	return WITH_PATH(unlink_once(pid, path));
}

int call_rmdir(pid_t pid, const char *path)
{
	return WITH_PATH(rmdir_once(pid, path));
}

int call_cut_path(pid_t pid, const char *path, size_t size)
{
	return WITH_PATH(cut_once(pid, path, size));
}

int call_rename(pid_t pid, const char *from, const char *to)
{
	return WITH_PATH(rename_once(pid, from, to));
}

int call_symlink(pid_t pid, const char *target, const char *path)
{
	return WITH_PATH(symlink_once(pid, target, path));
}

int call_write(pid_t pid, struct opened *o, const void *data, size_t len, size_t off)
{
	ssize_t n;

	world.m.user = caller_of(pid);
	n = file_write(&o->file, data, len, off);
	return n < 0 ? (int)n : (size_t)n == len ? 0 : -EIO;
}

/* Of set_size in fs/op_attr.c. */
int call_cut(pid_t pid, struct opened *o, size_t size)
{
	struct caller c = caller_of(pid);
	int err = file_truncate(&o->file, size);

	if (err == -ENOTSUP)
		err = backing_ftruncate(AS(&world.m.en.backing, &c), o->file.h->fd, (off_t)size);
	return err;
}

int call_sync(pid_t pid, struct opened *o)
{
	int err;

	world.m.user = caller_of(pid);
	err = file_sync(&o->file);
	return err;
}

int call_close(pid_t pid, struct opened *o)
{
	o->used = false;
	world.m.user = caller_of(pid);
	return file_close(&o->file);
}

int call_commit(const char *path)
{
	struct reached p;
	struct checkpoint *cp;
	struct inode_id dir;
	int err = place_begin(getpid(), path, &p);

	if (err)
		return err;
	dir = node_inode(p.dir);
	cp = names_checkpoint(world.m.en.units, &dir, p.name);
	err = cp ? checkpoint_ask(cp) : -ENOENT;
	checkpoint_put(cp);
	place_end(&p);
	return err;
}

/* --- to look --- */

/* Of op_readdir. */
int call_list(const char *path, void (*add)(void *arg, const char *name, bool directory), void *arg)
{
	struct fs *fs = &world.m.fs;
	struct units *us = fs->engine->units;
	struct names_listed l = {0};
	struct place at;
	struct node *n;
	struct statx stx;
	struct node_fd nf;
	struct reached p;
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	size_t i;
	int err = place_begin(getpid(), path, &p);

	if (err)
		return err;
	err = lookup(&p, &n, &stx);
	place_end(&p);
	if (err)
		return err;
	err = S_ISDIR(stx.stx_mode) ? tree_fd(fs->tree, &world.m.en.backing, n, &nf) : -ENOTDIR;
	if (!err) {
		err = dirwalk_begin(&w, &fs->engine->backing, nf.fd);
		tree_fd_put(fs->tree, &nf);
	}
	if (!err) {
		at = (struct place){w.fd, node_inode(n), NULL};
		names_list(us, &at.id, &l);
		names_read(us, &l);
		while (dirwalk_next(&w)) {
			at.name = w.name;
			if (names_list_shows(us, &fs->engine->backing, &l, &at))
				add(arg, w.name, w.type == DT_DIR);
		}
		for (i = 0; i < l.nr; i++)
			add(arg, l.names[i].name, S_ISDIR(l.names[i].type));
		names_list_end(&l);
	}
	forget(n);
	return err;
}

ssize_t call_read(const char *path, void *buf, size_t size)
{
	struct opened o;
	ssize_t n;
	int err = call_open(getpid(), path, O_RDONLY, &o);

	if (err)
		return err;
	n = file_read(&o.file, buf, size, 0);
	file_close(&o.file);
	return n;
}
