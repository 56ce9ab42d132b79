/* SPDX-License-Identifier: MIT */
/* What processes look at on a mount: listings, names and bytes. */
#include "engine/cluster/other_nodes.h"
#include "engine/save/units.h"
#include "fs/other_nodes.h"
#include "tests/sim/calls_inside.h"

struct names {
	char name[64][NAME_MAX + 1];
	size_t nr;
};

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
	struct names_listed listed;
	struct names staged;
	void (*add)(void *arg, const char *name, bool directory);
	void *arg;
};

static void note_staged(void *listing, const struct entry *e)
{
	struct listing *l = listing;

	if (e->type == DT_DIR && name_is_reserved(e->name) && strlen(e->name) < STAGING_MAX &&
	    l->staged.nr < ARRAY_SIZE(l->staged.name))
		snprintf(l->staged.name[l->staged.nr++], NAME_MAX + 1, "%s", e->name);
}

static void show_entry(void *listing, const struct entry *e)
{
	struct listing *l = listing;
	struct engine *en = &l->who->m->en;
	struct place at = {l->fd, l->dir, e->name};

	if (backing_name_ok(e->name) && names_list_shows(en->units, &en->backing, &l->listed, &at))
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
	int err = tree_fd(fs->tree, b, n, &nf);

	if (err)
		return err;
	*l = (struct listing){.who = who, .node = n, .dir = node_inode(n), .add = add, .arg = arg};
	l->fd = backing_reopen(b, nf.fd, O_RDONLY | O_DIRECTORY);
	if (l->fd >= 0) {
		err = meet_staged(l);
		close(l->fd);
	}
	l->fd = backing_reopen(b, nf.fd, O_RDONLY | O_DIRECTORY);
	tree_fd_put(fs->tree, &nf);
	if (l->fd < 0 || err) {
		if (l->fd >= 0)
			close(l->fd);
		return err ? err : l->fd;
	}
	names_list(fs->engine->units, &l->dir, &l->listed);
	names_read(fs->engine->units, &l->listed);
	err = each_entry(b, l->fd, show_entry, l);
	close(l->fd);
	for (i = 0; i < l->listed.nr; i++)
		add(arg, l->listed.names[i].name, S_ISDIR(l->listed.names[i].type));
	names_list_end(&l->listed);
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
