/* SPDX-License-Identifier: MIT */
#include "tests/sim/calls.h"

#include "engine/base/wait.h"
#include "engine/unit/internal.h"
#include "fs/elsewhere.h"
#include "tests/sim/sched.h"
#include "tests/sim/world.h"

#define TRIES 2 /* of the kernel, for a path that gets ESTALE */

/* A name in a directory, found from the top as the kernel finds it. */
struct reached {
	struct proc *p; /* for whom */
	struct node *dir;
	struct node_fd fd;
	const char *name;
};

static int place_begin(struct proc *who, const char *path, struct reached *p)
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
		creds_restore();
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
		err = tree_fd(t, p->dir, &p->fd);
	if (err)
		node_put(t, p->dir);
	return err;
}

static void place_end(struct reached *p)
{
	creds_restore();
	tree_fd_put(p->p->m->fs.tree, &p->fd);
	node_put(p->p->m->fs.tree, p->dir);
}

static struct save_name name_at(const struct reached *p)
{
	return (struct save_name){p->dir, p->fd.fd, p->name};
}

static int lookup(const struct reached *p, struct node **n, struct statx *stx)
{
	int err = fs_look_up(&p->p->m->fs, &p->p->who, p->dir, p->name, n, stx);

	creds_restore();
	return err;
}

static void forget(struct mnt *m, struct node *n)
{
	tree_forget(m->fs.tree, n->id, 1);
	node_put(m->fs.tree, n);
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
	forget(p->p->m, n);
	return 0;
}

/* Of op_mkdir. */
static int mkdir_once(struct proc *who, const char *path)
{
	struct fs *fs = &who->m->fs;
	const struct caller *c = &who->who;
	struct inside in = {.checkpoint = NULL};
	struct save_name n;
	struct reached p;
	mode_t type;
	int err = place_begin(who, path, &p);

	if (err)
		return err;
	n = name_at(&p);
	err = look_up(&p, &type);
	err = !err ? -EEXIST : err == -ENOENT ? 0 : err;
	if (!err && save_has_name(fs, p.dir, p.name))
		err = -EEXIST;
	if (!err)
		err = inside_enter(fs, c, p.dir, p.name, (struct change){0}, &in);
	if (!err)
		err = inside_begin(fs, c, p.dir, p.name, (struct change){0});
	if (err >= 0)
		err = save_mkdir(fs, c, &n, in.checkpoint, 0755);
	if (err == -ENOTSUP)
		err = AS_CALLER(c, backing_mkdir(&fs->engine->backing, p.fd.fd, p.name, 0755));
	creds_restore();
	inside_leave(&in);
	place_end(&p);
	return err;
}

/* Of op_open. */
static int open_found(struct proc *who, struct node *n, int flags, struct opened *o)
{
	struct mnt *m = who->m;
	const struct caller *c = &who->who;
	struct generation *g;
	struct node_fd nf;
	int fd = -1, err = 0;

	if (!(flags & O_TRUNC))
		err = elsewhere_await(&m->fs, n);
	if (!err)
		err = save_open(&m->fs, c, n, flags, &g);
	if (err)
		return err;
	err = AS_CALLER(c, tree_fd(m->fs.tree, n, &nf));
	if (!err) {
		flags &= O_ACCMODE | O_TRUNC;
		fd = AS_CALLER(c,
			       backing_reopen(&m->en.backing, nf.fd, g ? flags & ~O_TRUNC : flags));
		tree_fd_put(m->fs.tree, &nf);
		err = fd < 0 ? fd : 0;
	}
	o->h = err ? NULL : handle_create(m->fs.tree, n, fd, flags);
	if (!o->h) {
		save_not_opened(g);
		return err ? err : -ENOMEM;
	}
	save_opened(o->h, g);
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
	int fd, err = save_create(&m->fs, c, p->dir, p->fd.fd, p->name, 0644, flags, &g);

	if (err)
		return err;
	if (g)
		fd = fcntl(g->content->fd, F_DUPFD_CLOEXEC, 0);
	else
		fd = AS_CALLER(c, backing_create(&m->en.backing, p->fd.fd, p->name, O_RDWR, 0644,
						 &created));
	err = fd < 0 ? fd : tree_adopt(m->fs.tree, p->dir, p->name, fd, created, &n, &stx);
	if (err) {
		if (fd >= 0)
			close(fd);
		save_not_opened(g);
		return err;
	}
	o->h = handle_create(m->fs.tree, n, fd, flags);
	save_opened(o->h, g);
	tree_forget(m->fs.tree, n->id, 1);
	node_put(m->fs.tree, n);
	return 0;
}

static int open_once(struct proc *who, const char *path, int flags, struct opened *o)
{
	struct node *n;
	struct statx stx;
	struct reached p;
	int err = place_begin(who, path, &p);

	if (err)
		return err;
	err = lookup(&p, &n, &stx);
	if (!err) {
		err = S_ISDIR(stx.stx_mode) ? -EISDIR : open_found(who, n, flags, o);
		forget(who->m, n);
	} else if (err == -ENOENT && flags != O_RDONLY) {
		err = create_new(&p, flags, o);
	}
	place_end(&p);
	return err;
}

static int unlink_once(struct proc *who, const char *path)
{
	const struct caller *c = &who->who;
	struct reached p;
	mode_t type;
	int err = place_begin(who, path, &p);

	if (err)
		return err;
	err = look_up(&p, &type);
	if (!err && S_ISDIR(type))
		err = -EISDIR;
	if (!err) {
		struct save_name n = name_at(&p);

		err = save_unlink(&who->m->fs, c, &n);
		if (err == -ENOTSUP)
			err = AS_CALLER(
				c, backing_unlink(&who->m->en.backing, p.fd.fd, p.name, false));
	}
	place_end(&p);
	return err;
}

static int rmdir_once(struct proc *who, const char *path)
{
	const struct caller *c = &who->who;
	struct reached p;
	mode_t type;
	int err = place_begin(who, path, &p);

	if (err)
		return err;
	err = look_up(&p, &type);
	if (!err && !S_ISDIR(type))
		err = -ENOTDIR;
	if (!err) {
		struct save_name n = name_at(&p);

		err = save_rmdir(&who->m->fs, c, &n);
		if (err == -ENOTSUP)
			err = AS_CALLER(c,
					backing_unlink(&who->m->en.backing, p.fd.fd, p.name, true));
	}
	place_end(&p);
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
	int err = place_begin(who, from, &a);

	if (err)
		return err;
	err = place_begin(who, to, &b);
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
		struct save_name x = name_at(&a), y = name_at(&b);

		err = save_rename(&who->m->fs, c, &x, &y, 0);
		if (err == -ENOTSUP)
			err = AS_CALLER(c, backing_rename(&who->m->en.backing, a.fd.fd, a.name,
							  b.fd.fd, b.name, 0));
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

int call_mkdir(struct proc *who, const char *path)
{
	return WITH_PATH(mkdir_once(who, path));
}

int call_open(struct proc *who, const char *path, int flags, struct opened *o)
{
	int err;

	*o = (struct opened){.p = who};
	err = WITH_PATH(open_once(who, path, flags, o));
	creds_restore();
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
	int err = place_begin(who, path, &p);

	if (err)
		return err;
	err = look_up(&p, &type);
	err = !err ? -EEXIST : err == -ENOENT ? 0 : err;
	if (!err) {
		struct save_name n = name_at(&p);

		err = beside_hold_link(&who->m->fs, c, &n, target);
		if (err == -ENOTSUP)
			err = AS_CALLER(
				c, backing_symlink(&who->m->en.backing, target, p.fd.fd, p.name));
	}
	place_end(&p);
	return err;
}

int call_symlink(struct proc *who, const char *target, const char *path)
{
	return WITH_PATH(symlink_once(who, target, path));
}

/* --- to look --- */

struct names {
	char name[64][NAME_MAX + 1];
	bool directory[64];
	size_t nr;
};

static void add_name(void *names, const char *name, const struct inode_id *id, mode_t type)
{
	struct names *ns = names;

	(void)id;
	if (ns->nr == ARRAY_SIZE(ns->name))
		return;
	ns->directory[ns->nr] = S_ISDIR(type);
	snprintf(ns->name[ns->nr++], NAME_MAX + 1, "%s", name);
}

static bool has_name(const struct names *ns, const char *name)
{
	size_t i;

	for (i = 0; i < ns->nr; i++)
		if (!strcmp(ns->name[i], name))
			return true;
	return false;
}

/* An entry as getdents64 has it. */
struct entry {
	uint64_t ino;
	int64_t off;
	uint16_t len;
	uint8_t type;
	char name[];
};

/* Calls @each for all that the backing has in the directory @fd. */
static int each_entry(struct backing *b, int fd, void (*each)(void *arg, const struct entry *e),
		      void *arg)
{
	char buf[4096] __attribute__((aligned(8)));
	ssize_t len, at;

	while ((len = backing_getdents(b, fd, buf, sizeof(buf))) > 0)
		for (at = 0; at < len; at += ((struct entry *)(buf + at))->len)
			each(arg, (struct entry *)(buf + at));
	return (int)len;
}

/* One listing. */
struct listing {
	struct proc *who;
	struct node *node;
	struct inode_id dir;
	int fd, err;
	struct names extra, staged;
	void (*add)(void *arg, const char *name, bool directory);
	void *arg;
};

static void note_staged(void *listing, const struct entry *e)
{
	struct listing *l = listing;

	if (e->type == DT_DIR && rules_reserved(e->name) && strlen(e->name) < STAGING_MAX)
		add_name(&l->staged, e->name, NULL, S_IFDIR);
}

static void show_entry(void *listing, const struct entry *e)
{
	struct listing *l = listing;

	if (backing_name_ok(e->name) && !rules_reserved(e->name) && !has_name(&l->extra, e->name) &&
	    !removals_hide(l->who->m->en.units, &l->dir, e->name))
		l->add(l->arg, e->name, e->type == DT_DIR);
}

static int meet_staged(struct listing *l)
{
	struct fs *fs = &l->who->m->fs;
	size_t i;
	int err;

	if (!accord_has_others(fs->engine->units))
		return 0;
	err = each_entry(&fs->engine->backing, l->fd, note_staged, l);
	if (!err)
		err = accord_shed(fs->engine->units, &l->dir, NULL);
	for (i = 0; i < l->staged.nr && !err; i++)
		err = elsewhere_meet_staged(fs, &l->who->who, l->node, l->fd, l->staged.name[i]);
	return err;
}

/* Of op_readdir. */
static int list_node(struct proc *who, struct node *n,
		     void (*add)(void *arg, const char *name, bool directory), void *arg)
{
	struct fs *fs = &who->m->fs;
	__cleanup_free struct listing *l = calloc(1, sizeof(*l));
	struct backing *b = &fs->engine->backing;
	struct node_fd nf;
	size_t i;
	int fd, err = tree_fd(fs->tree, n, &nf);

	if (err)
		return err;
	*l = (struct listing){.who = who, .node = n, .dir = node_inode(n), .add = add, .arg = arg};
	l->fd = backing_reopen(b, nf.fd, O_RDONLY | O_DIRECTORY);
	if (l->fd >= 0) {
		err = meet_staged(l);
		close(l->fd);
	}
	fd = backing_reopen(b, nf.fd, O_RDONLY | O_DIRECTORY);
	tree_fd_put(fs->tree, &nf);
	if (fd < 0 || err) {
		if (fd >= 0)
			close(fd);
		return err ? err : fd;
	}
	units_list(fs->engine->units, &l->dir, add_name, &l->extra);
	err = each_entry(b, fd, show_entry, l);
	close(fd);
	for (i = 0; i < l->extra.nr; i++)
		add(arg, l->extra.name[i], l->extra.directory[i]);
	return err;
}

int call_list(struct proc *who, const char *path,
	      void (*add)(void *arg, const char *name, bool directory), void *arg)
{
	struct node *n;
	struct statx stx;
	struct reached p;
	int err;

	if (!*path)
		return list_node(who, who->m->root, add, arg);
	err = place_begin(who, path, &p);
	if (err)
		return err;
	err = lookup(&p, &n, &stx);
	place_end(&p);
	if (err)
		return err;
	err = S_ISDIR(stx.stx_mode) ? list_node(who, n, add, arg) : -ENOTDIR;
	forget(who->m, n);
	return err;
}

bool call_is_directory(struct proc *who, const char *path)
{
	struct reached p;
	mode_t type = 0;
	int err = place_begin(who, path, &p);

	if (err)
		return false;
	err = look_up(&p, &type);
	place_end(&p);
	return !err && S_ISDIR(type);
}

int call_look(struct proc *who, const char *path)
{
	struct reached p;
	mode_t type;
	int err = place_begin(who, path, &p);

	if (err)
		return err;
	err = look_up(&p, &type);
	place_end(&p);
	return err;
}

ssize_t call_read(struct proc *who, const char *path, void *buf, size_t size)
{
	struct opened o;
	ssize_t n;
	int err = call_open(who, path, O_RDONLY, &o);

	if (err)
		return err;
	n = data_read(&who->m->fs, o.h, buf, size, 0);
	call_close(&o);
	return n;
}

/* Of control_state in fs/control_file.c. */
int call_describe(struct proc *who, const char *path, json_t **out)
{
	struct reached p;
	struct inode_id dir;
	int err = place_begin(who, path, &p);

	if (err)
		return err;
	dir = node_inode(p.dir);
	*out = units_describe(who->m->en.units, &dir, p.name, NULL);
	place_end(&p);
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
