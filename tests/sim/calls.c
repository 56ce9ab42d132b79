/* SPDX-License-Identifier: MIT */
#include "tests/sim/calls_inside.h"

#include "engine/base/wait.h"
#include "engine/commit/report.h"
#include "engine/save/units.h"
#include "fs/other_nodes.h"
#include "tests/sim/sched.h"
#include "tests/sim/world.h"

int reach(struct proc *who, const char *path, struct reached *p)
{
	struct tree *t = who->m->fs.tree;
	const char *slash;
	int err = 0;

	*p = (struct reached){.p = who, .dir = node_get(t, NODE_ROOT), .name = path};
	while (!err && (slash = strchr(p->name, '/'))) {
		char dir[NAME_MAX + 1];
		struct node *below;
		struct statx stx;

		snprintf(dir, sizeof(dir), "%.*s", (int)(slash - p->name), p->name);
		err = fs_look_up(&who->m->fs, &who->who, p->dir, dir, &below, &stx);
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
		err = tree_fd(t, &who->m->en.backing, p->dir, &p->fd);
	if (err)
		node_put(t, p->dir);
	return err;
}

void reach_end(struct reached *p)
{
	tree_fd_put(p->p->m->fs.tree, &p->fd);
	node_put(p->p->m->fs.tree, p->dir);
}

static struct entry_name name_at(const struct reached *p)
{
	return (struct entry_name){p->dir, p->fd.fd, p->name};
}

int reached_node(const struct reached *p, struct node **n, struct statx *stx)
{
	int err = fs_look_up(&p->p->m->fs, &p->p->who, p->dir, p->name, n, stx);

	return err;
}

void node_forget(struct mnt *m, struct node *n)
{
	tree_forget(m->fs.tree, n->id, 1);
	node_put(m->fs.tree, n);
}

int reached_type(const struct reached *p, mode_t *type)
{
	struct node *n;
	struct statx stx;
	int err = reached_node(p, &n, &stx);

	if (err)
		return err;
	*type = stx.stx_mode & S_IFMT;
	node_forget(p->p->m, n);
	return 0;
}

/* Of op_mkdir. */
static int mkdir_once(struct proc *who, const char *path)
{
	struct fs *fs = &who->m->fs;
	const struct caller *c = &who->who;
	struct in_checkpoint in = {.checkpoint = NULL};
	struct inode_id dir;
	struct entry_name n;
	struct reached p;
	mode_t type;
	int err = reach(who, path, &p);

	if (err)
		return err;
	n = name_at(&p);
	err = reached_type(&p, &type);
	err = !err ? -EEXIST : err == -ENOENT ? 0 : err;
	dir = node_inode(p.dir);
	if (!err && names_look_saved(fs->engine->units, &dir, p.name, 0, NULL))
		err = -EEXIST;
	if (!err)
		err = in_checkpoint_enter(fs, c, p.dir, p.name, (struct change){0}, &in);
	if (!err)
		err = in_checkpoint_begin_change(fs, c, p.dir, p.name, (struct change){0});
	if (err >= 0)
		err = route_mkdir(fs, c, &n, in.checkpoint, 0755);
	if (err == -ENOTSUP)
		err = backing_mkdir(AS(&fs->engine->backing, c), p.fd.fd, p.name, 0755);
	in_checkpoint_leave(&in);
	reach_end(&p);
	return err;
}

int node_open(struct proc *who, struct node *n, int flags, struct opened *o)
{
	struct mnt *m = who->m;
	const struct caller *c = &who->who;
	struct generation *g;
	struct node_fd nf;
	int fd = -1, err = 0;

	if (!(flags & O_TRUNC))
		err = other_nodes_await(&m->fs, c, n);
	if (!err)
		err = route_open(&m->fs, c, n, flags, &g);
	if (err)
		return err;
	err = tree_fd(m->fs.tree, AS(&m->en.backing, c), n, &nf);
	if (!err) {
		flags &= O_ACCMODE | O_TRUNC;
		fd = backing_reopen(AS(&m->en.backing, c), nf.fd, g ? flags & ~O_TRUNC : flags);
		tree_fd_put(m->fs.tree, &nf);
		err = fd < 0 ? fd : 0;
	}
	o->h = err ? NULL : handle_create(m->fs.tree, n, fd, flags);
	if (!o->h) {
		route_not_opened(g);
		return err ? err : -ENOMEM;
	}
	route_opened(o->h, g);
	return 0;
}

/* Of op_create. */
static int create_new(struct reached *p, int flags, struct opened *o)
{
	struct mnt *m = p->p->m;
	const struct caller *c = &p->p->who;
	struct generation *g = NULL;
	bool created = true;
	struct statx stx;
	struct node *n;
	int fd, err = route_create(&m->fs, c, p->dir, p->fd.fd, p->name, 0644, flags, &g);

	if (err)
		return err;
	if (g)
		fd = fcntl(g->content->fd, F_DUPFD_CLOEXEC, 0);
	else
		fd = backing_create(AS(&m->en.backing, c), p->fd.fd, p->name, O_RDWR, 0644,
				    &created);
	err = fd < 0 ? fd
		     : tree_adopt(m->fs.tree, &m->en.backing, p->dir, p->name, fd, created, &n,
				  &stx);
	if (err) {
		if (fd >= 0)
			close(fd);
		route_not_opened(g);
		return err;
	}
	o->h = handle_create(m->fs.tree, n, fd, flags);
	route_opened(o->h, g);
	tree_forget(m->fs.tree, n->id, 1);
	node_put(m->fs.tree, n);
	return 0;
}

static int open_once(struct proc *who, const char *path, int flags, struct opened *o)
{
	struct node *n;
	struct statx stx;
	struct reached p;
	int err = reach(who, path, &p);

	if (err)
		return err;
	err = reached_node(&p, &n, &stx);
	if (!err) {
		err = S_ISDIR(stx.stx_mode) ? -EISDIR : node_open(who, n, flags, o);
		node_forget(who->m, n);
	} else if (err == -ENOENT && flags != O_RDONLY) {
		err = create_new(&p, flags, o);
	}
	reach_end(&p);
	return err;
}

static int unlink_once(struct proc *who, const char *path)
{
	const struct caller *c = &who->who;
	struct reached p;
	mode_t type;
	int err = reach(who, path, &p);

	if (err)
		return err;
	err = reached_type(&p, &type);
	if (!err && S_ISDIR(type))
		err = -EISDIR;
	if (!err) {
		struct entry_name n = name_at(&p);

		err = route_unlink(&who->m->fs, c, &n);
		if (err == -ENOTSUP)
			err = backing_unlink(AS(&who->m->en.backing, c), p.fd.fd, p.name, false);
	}
	reach_end(&p);
	return err;
}

static int rmdir_once(struct proc *who, const char *path)
{
	const struct caller *c = &who->who;
	struct reached p;
	mode_t type;
	int err = reach(who, path, &p);

	if (err)
		return err;
	err = reached_type(&p, &type);
	if (!err && !S_ISDIR(type))
		err = -ENOTDIR;
	if (!err) {
		struct entry_name n = name_at(&p);

		err = route_rmdir(&who->m->fs, c, &n);
		if (err == -ENOTSUP)
			err = backing_unlink(AS(&who->m->en.backing, c), p.fd.fd, p.name, true);
	}
	reach_end(&p);
	return err;
}

static bool is_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	return !strncmp(path, dir, len) && path[len] == '/';
}

static int rename_once(struct proc *who, const char *from, const char *to)
{
	const struct caller *c = &who->who;
	struct reached a, b;
	mode_t type, to_type;
	int err = reach(who, from, &a);

	if (err)
		return err;
	err = reach(who, to, &b);
	if (err) {
		reach_end(&a);
		return err;
	}
	err = reached_type(&a, &type);
	if (!err && is_below(to, from))
		err = -EINVAL; /* the kernel sees it before it asks */
	if (!err && is_below(from, to))
		err = -ENOTEMPTY;
	if (!err && !reached_type(&b, &to_type) && S_ISDIR(type) != S_ISDIR(to_type))
		err = S_ISDIR(type) ? -ENOTDIR : -EISDIR;
	if (!err && strcmp(from, to)) {
		struct entry_name x = name_at(&a), y = name_at(&b);

		err = route_rename(&who->m->fs, c, &x, &y, 0);
		if (err == -ENOTSUP)
			err = backing_rename(AS(&who->m->en.backing, c), a.fd.fd, a.name, b.fd.fd,
					     b.name, 0);
	}
	reach_end(&b);
	reach_end(&a);
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

int call_mkdir(struct proc *who, const char *path)
{
	return WITH_PATH(mkdir_once(who, path));
}

int call_open(struct proc *who, const char *path, int flags, struct opened *o)
{
	int err;

	*o = (struct opened){.p = who};
	err = WITH_PATH(open_once(who, path, flags, o));
	return err;
}

int call_unlink(struct proc *who, const char *path)
{
	return WITH_PATH(unlink_once(who, path));
}

int call_rmdir(struct proc *who, const char *path)
{
	return WITH_PATH(rmdir_once(who, path));
}

int call_rename(struct proc *who, const char *from, const char *to)
{
	return WITH_PATH(rename_once(who, from, to));
}

/* Of op_symlink. */
static int symlink_once(struct proc *who, const char *target, const char *path)
{
	const struct caller *c = &who->who;
	struct reached p;
	mode_t type;
	int err = reach(who, path, &p);

	if (err)
		return err;
	err = reached_type(&p, &type);
	err = !err ? -EEXIST : err == -ENOENT ? 0 : err;
	if (!err) {
		struct entry_name n = name_at(&p);

		err = evidence_name_hold_link(&who->m->fs, c, &n, target);
		if (err == -ENOTSUP)
			err = backing_symlink(AS(&who->m->en.backing, c), target, p.fd.fd, p.name);
	}
	reach_end(&p);
	return err;
}

int call_symlink(struct proc *who, const char *target, const char *path)
{
	return WITH_PATH(symlink_once(who, target, path));
}

/* Of control_state in fs/control_file.c. */
int call_describe(struct proc *who, const char *path, json_t **out)
{
	struct reached p;
	struct inode_id dir;
	int err = reach(who, path, &p);

	if (err)
		return err;
	dir = node_inode(p.dir);
	*out = units_describe(who->m->en.units, &dir, p.name, NULL);
	reach_end(&p);
	return 0;
}

static int state_of(struct proc *who, const char *path, char state[32])
{
	json_t *o;
	int err = call_describe(who, path, &o);

	if (err)
		return err;
	snprintf(state, 32, "%s", json_get_text(o, "state", ""));
	json_decref(o);
	return 0;
}

int call_wait(struct proc *who, const char *path, uint64_t until_ns)
{
	char state[32];

	while (clock_mono_ns() < until_ns) {
		int err = wait_interrupted() ? -EINTR : state_of(who, path, state);

		if (err && err != -ENOENT)
			return err;
		if (!err && !strcmp(state, "committed"))
			return 0;
		if (!err && !strcmp(state, "failed"))
			return -EIO;
		sched_sleep(100 * NSEC_PER_MSEC);
	}
	return -ETIMEDOUT;
}
