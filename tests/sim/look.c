/* SPDX-License-Identifier: MIT */
/* What processes look at on a mount: listings, names and bytes. */
#include "engine/unit/internal.h"
#include "fs/other_nodes.h"
#include "tests/sim/calls_inside.h"

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

	if (e->type == DT_DIR && name_is_reserved(e->name) && strlen(e->name) < STAGING_MAX)
		add_name(&l->staged, e->name, NULL, S_IFDIR);
}

static void show_entry(void *listing, const struct entry *e)
{
	struct listing *l = listing;

	if (backing_name_ok(e->name) && !name_is_reserved(e->name) &&
	    !has_name(&l->extra, e->name) && !removals_hide(l->who->m->en.units, &l->dir, e->name))
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
		err = accord_await_removed(fs->engine->units, &l->dir, NULL);
	for (i = 0; i < l->staged.nr && !err; i++)
		err = other_nodes_join_staged(fs, &l->who->who, l->node, l->fd, l->staged.name[i]);
	return err;
}

int node_list(struct proc *who, struct node *n,
	      void (*add)(void *arg, const char *name, bool directory), void *arg)
{
	struct fs *fs = &who->m->fs;
	__cleanup_free struct listing *l = calloc(1, sizeof(*l));
	struct backing *b = &fs->engine->backing;
	struct node_fd nf;
	size_t i;
	int fd, err = tree_fd(fs->tree, b, n, &nf);

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
		return node_list(who, who->m->root, add, arg);
	err = reach(who, path, &p);
	if (err)
		return err;
	err = reached_node(&p, &n, &stx);
	reach_end(&p);
	if (err)
		return err;
	err = S_ISDIR(stx.stx_mode) ? node_list(who, n, add, arg) : -ENOTDIR;
	node_forget(who->m, n);
	return err;
}

int call_is_directory(struct proc *who, const char *path)
{
	struct reached p;
	mode_t type = 0;
	int err = reach(who, path, &p);

	if (err)
		return err;
	err = reached_type(&p, &type);
	reach_end(&p);
	return err ? err : S_ISDIR(type);
}

int call_look(struct proc *who, const char *path)
{
	struct reached p;
	mode_t type;
	int err = reach(who, path, &p);

	if (err)
		return err;
	err = reached_type(&p, &type);
	reach_end(&p);
	return err;
}

ssize_t call_read(struct proc *who, const char *path, void *buf, size_t size)
{
	struct opened o;
	ssize_t n;
	int err = call_open(who, path, O_RDONLY, &o);

	if (err)
		return err;
	n = data_read(&who->m->fs, &who->who, o.h, buf, size, 0);
	call_close(&o);
	return n;
}
