/* SPDX-License-Identifier: MIT */
#include "tests/sim/program.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "engine/backing/dirwalk.h"
#include "engine/base/fault.h"
#include "engine/commit/report.h"
#include "engine/content/recorded.h"
#include "engine/journal/journal.h"
#include "engine/save/units.h"
#include "fs/control_socket.h"
#include "fs/mountinfo.h"
#include "tests/backing/util.h"
#include "tests/sim/calls_inside.h"
#include "tests/sim/eye.h"
#include "tests/sim/world.h"

#define FDS_MAX 65536

/* What a descriptor of a program is open on. */
struct seen {
	struct proc *p;	   /* in whose mount; NULL: on the backing */
	struct node *node; /* in a mount */
	int fd;		   /* the backing's */
	struct stat st;	   /* of it, when it was opened */
	struct opened o;   /* of a file in a mount */
};

static _Thread_local struct proc *running;
static _Thread_local unsigned errors;
static struct seen *opened[FDS_MAX];

void program_begin(struct proc *p)
{
	running = p;
	errors = 0;
}

void program_end(void)
{
	running = NULL;
}

unsigned program_errors(void)
{
	return errors;
}

static struct seen *seen_of(int fd)
{
	return fd >= 0 && fd < FDS_MAX ? opened[fd] : NULL;
}

/* As libc returns: -1 and errno. */
static int said(int err)
{
	if (err >= 0)
		return err;
	errors += err != -ENOENT && err != -ENODATA;
	errno = -err;
	return -1;
}

/* --- attributes --- */

static void to_stat(const struct statx *stx, struct stat *st)
{
	memset(st, 0, sizeof(*st));
	st->st_mode = stx->stx_mode;
	st->st_size = (off_t)stx->stx_size;
	st->st_ino = stx->stx_ino;
	st->st_uid = stx->stx_uid;
	st->st_gid = stx->stx_gid;
	st->st_mtim.tv_sec = stx->stx_mtime.tv_sec;
	st->st_mtim.tv_nsec = stx->stx_mtime.tv_nsec;
}

/* What has @name in the directory of @s. The caller drops *@n. */
static int find_node(const struct seen *s, const char *name, struct node **n, struct stat *st)
{
	struct mnt *m = s->p->m;
	struct statx stx;
	int err, tries = 0;

	do
		err = fs_look_up(&m->fs, &s->p->who, s->node, name, n, &stx);
	while (err == -ESTALE && ++tries < TRIES);
	if (err)
		return err;
	tree_forget(m->fs.tree, (*n)->id, 1);
	to_stat(&stx, st);
	return 0;
}

static int stat_at(const struct seen *s, const char *name, struct stat *st)
{
	struct node *n;
	struct statx stx;
	int err;

	if (s->p) {
		err = find_node(s, name, &n, st);
		if (!err)
			node_put(s->p->m->fs.tree, n);
		return err;
	}
	err = backing_stat_at(world_eye(), s->fd, name, &stx);
	if (!err)
		to_stat(&stx, st);
	return err;
}

int __real_fstat64(int fd, struct stat *st);
int __wrap_fstat64(int fd, struct stat *st);
int __wrap_fstat64(int fd, struct stat *st)
{
	const struct seen *s = seen_of(fd);

	if (!s)
		return __real_fstat64(fd, st);
	*st = s->st;
	return 0;
}

int __real_fstatat64(int dir, const char *name, struct stat *st, int flags);
int __wrap_fstatat64(int dir, const char *name, struct stat *st, int flags);
int __wrap_fstatat64(int dir, const char *name, struct stat *st, int flags)
{
	const struct seen *s = seen_of(dir);

	return s ? said(stat_at(s, name, st)) : __real_fstatat64(dir, name, st, flags);
}

int __real_faccessat(int dir, const char *name, int mode, int flags);
int __wrap_faccessat(int dir, const char *name, int mode, int flags);
int __wrap_faccessat(int dir, const char *name, int mode, int flags)
{
	const struct seen *s = seen_of(dir);
	struct stat st;

	return s ? said(stat_at(s, name, &st)) : __real_faccessat(dir, name, mode, flags);
}

/* Nothing is mounted in there. */
int __real_statx(int fd, const char *path, int flags, unsigned mask, struct statx *stx);
int __wrap_statx(int fd, const char *path, int flags, unsigned mask, struct statx *stx);
int __wrap_statx(int fd, const char *path, int flags, unsigned mask, struct statx *stx)
{
	const struct seen *s = seen_of(fd);

	if (!s)
		return __real_statx(fd, path, flags, mask, stx);
	memset(stx, 0, sizeof(*stx));
	stx->stx_mode = (uint16_t)s->st.st_mode;
	return 0;
}

/* --- to open and close --- */

int __real_open64(const char *path, int flags, ...);

/* A descriptor of what @like says. */
static int keep(const struct seen *like)
{
	int fd = __real_open64("/dev/null", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fd >= FDS_MAX)
		abort();
	opened[fd] = must(malloc(sizeof(*like)));
	*opened[fd] = *like;
	return fd;
}

static int may_open(const struct stat *st, int flags)
{
	if (S_ISLNK(st->st_mode))
		return -ELOOP;
	return flags & O_DIRECTORY && !S_ISDIR(st->st_mode) ? -ENOTDIR : 0;
}

/* @n is taken over. */
static int open_node(struct proc *p, struct node *n, const struct stat *st, int flags)
{
	struct seen s = {.p = p, .node = n, .st = *st};
	int err = may_open(st, flags);

	if (!err && S_ISREG(st->st_mode))
		err = node_open(p, n, O_RDONLY, &s.o);
	s.o.p = p;
	if (err) {
		node_put(p->m->fs.tree, n);
		return err;
	}
	return keep(&s);
}

static int open_in_mount(const struct seen *s, const char *name, int flags)
{
	struct stat st = s->st;
	struct node *n;
	int err;

	if (!strcmp(name, "."))
		return open_node(s->p, node_get(s->p->m->fs.tree, s->node->id), &st, flags);
	err = find_node(s, name, &n, &st);
	return err ? err : open_node(s->p, n, &st, flags);
}

/* @pin is closed. */
static int open_pin(int pin, int flags)
{
	struct backing *b = world_eye();
	struct seen s = {.p = NULL};
	struct statx stx;
	int fd = pin < 0 ? pin : backing_stat(b, pin, &stx);

	if (fd >= 0) {
		to_stat(&stx, &s.st);
		fd = may_open(&s.st, flags);
	}
	if (fd >= 0)
		s.fd = fd = backing_reopen(b, pin, O_RDONLY | (flags & O_DIRECTORY));
	if (pin >= 0)
		close(pin);
	return fd < 0 ? fd : keep(&s);
}

/* As @path lies in @top: what is below that, or NULL. */
static const char *path_in(const char *path, const char *top)
{
	size_t len = strlen(top);

	if (!running || strncmp(path, top, len) != 0 || (path[len] && path[len] != '/'))
		return NULL;
	return path + len + strspn(path + len, "/");
}

static int open_path(const char *below, int flags)
{
	struct mnt *m = running->m;
	struct seen top = {.p = running, .st = {.st_mode = S_IFDIR | 0755}};
	int fd;

	if (!m)
		return -ENOENT;
	if (!*below)
		return open_node(running, node_get(m->fs.tree, NODE_ROOT), &top.st, flags);
	top.node = node_get(m->fs.tree, NODE_ROOT);
	fd = open_in_mount(&top, below, flags);
	node_put(m->fs.tree, top.node);
	return fd;
}

int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
	const char *below;
	mode_t mode = 0;
	va_list ap;

	if ((below = path_in(path, PROGRAM_MOUNT)))
		return said(open_path(below, flags));
	if ((below = path_in(path, PROGRAM_BACKING)))
		return said(open_pin(eye_pin(below), flags));
	if (flags & (O_CREAT | __O_TMPFILE)) {
		va_start(ap, flags);
		mode = (mode_t)va_arg(ap, int);
		va_end(ap);
	}
	return __real_open64(path, flags, mode);
}

int __real_openat64(int dir, const char *name, int flags, ...);
int __wrap_openat64(int dir, const char *name, int flags, ...);
int __wrap_openat64(int dir, const char *name, int flags, ...)
{
	const struct seen *s = seen_of(dir);
	struct backing *b = world_eye();
	mode_t mode = 0;
	va_list ap;

	if (s && s->p)
		return said(open_in_mount(s, name, flags));
	if (s)
		return said(open_pin(strcmp(name, ".") ? backing_pin(b, s->fd, name)
						       : backing_reopen(b, s->fd, O_RDONLY),
				     flags));
	if (flags & (O_CREAT | __O_TMPFILE)) {
		va_start(ap, flags);
		mode = (mode_t)va_arg(ap, int);
		va_end(ap);
	}
	return __real_openat64(dir, name, flags, mode);
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
	struct seen *s = seen_of(fd);

	if (s) {
		opened[fd] = NULL;
		if (s->o.h)
			call_close(&s->o);
		if (s->p)
			node_put(s->p->m->fs.tree, s->node);
		else
			__real_close(s->fd);
		free(s);
	}
	return __real_close(fd);
}

/* --- what a file holds --- */

ssize_t __real_pread64(int fd, void *buf, size_t size, off_t off);
ssize_t __wrap_pread64(int fd, void *buf, size_t size, off_t off);
ssize_t __wrap_pread64(int fd, void *buf, size_t size, off_t off)
{
	const struct seen *s = seen_of(fd);

	if (!s)
		return __real_pread64(fd, buf, size, off);
	if (s->p && !s->o.h)
		return said(-EISDIR);
	return said((int)(s->p ? data_read(&s->p->m->fs, &s->p->who, s->o.h, buf, size, off)
			       : backing_read(world_eye(), s->fd, buf, size, off)));
}

/* Of fs/op_xattr.c: "" where that is not the state of a file that is being saved. */
static const char *state_of_file(struct fs *fs, struct node *n)
{
	struct units *us = fs->engine->units;
	struct inode_id id = node_inode(n);
	enum generation_state state;
	char rel[PATH_MAX], reason[MESSAGE_MAX];
	struct checkpoint *cp;

	if (units_state_of(us, &id, &state, reason))
		return generation_state_name(state);
	cp = tree_checkpoint(fs->tree, n, NULL, rel, sizeof(rel));
	if (!cp)
		return "";
	if (!checkpoint_state_of(us, &cp->id, &state, reason) || state < GENERATION_COMMITTED)
		state = checkpoints_have_durable(us, &id) ? GENERATION_DURABLE : GENERATION_OPEN;
	checkpoint_put(cp);
	return generation_state_name(state);
}

static ssize_t xattr_in_mount(const struct seen *s, const char *name, char *buf, size_t size)
{
	struct fs *fs = &s->p->m->fs;
	struct node_fd nf;
	const char *state;
	ssize_t len;

	if (!strcmp(name, "user.ckptfs.state")) {
		state = state_of_file(fs, s->node);
		len = (ssize_t)strlen(state);
		if ((size_t)len > size)
			return -ERANGE;
		memcpy(buf, state, (size_t)len);
		return len ? len : -ENODATA;
	}
	len = tree_fd(fs->tree, &fs->engine->backing, s->node, &nf);
	if (len)
		return len;
	len = recorded_get(&fs->engine->backing, nf.fd, buf, size);
	tree_fd_put(fs->tree, &nf);
	return len;
}

ssize_t __real_fgetxattr(int fd, const char *name, void *buf, size_t size);
ssize_t __wrap_fgetxattr(int fd, const char *name, void *buf, size_t size);
ssize_t __wrap_fgetxattr(int fd, const char *name, void *buf, size_t size)
{
	const struct seen *s = seen_of(fd);

	if (!s)
		return __real_fgetxattr(fd, name, buf, size);
	return said((int)(s->p ? xattr_in_mount(s, name, buf, size)
			       : backing_getxattr(world_eye(), s->fd, name, buf, size)));
}

/* --- what a directory holds --- */

struct names {
	struct dirent **list;
	unsigned nr, at;
	int fd; /* of fdopendir */
};

static void add_name(void *arg, const char *name, bool directory)
{
	struct names *ns = arg;
	struct dirent *d = must(calloc(1, sizeof(*d)));

	/* Whether it is a file or a symlink is not told, as by some filesystems. */
	d->d_type = directory ? DT_DIR : DT_UNKNOWN;
	snprintf(d->d_name, sizeof(d->d_name), "%s", name);
	ns->list = must(realloc(ns->list, (ns->nr + 1) * sizeof(*ns->list)));
	ns->list[ns->nr++] = d;
}

static int list_names(int fd, struct names *ns)
{
	const struct seen *s = seen_of(fd);
	struct dirwalk w;
	int err;

	memset(ns, 0, sizeof(*ns));
	if (s->p) {
		err = node_list(s->p, s->node, add_name, ns);
		return err;
	}
	dirwalk_begin(&w, world_eye(), s->fd);
	while (dirwalk_next(&w))
		add_name(ns, w.name, w.type == DT_DIR);
	dirwalk_end(&w);
	return w.err;
}

static void free_names(struct names *ns)
{
	while (ns->nr)
		free(ns->list[--ns->nr]);
	free(ns->list);
}

int __real_scandirat64(int dir, const char *path, struct dirent ***list,
		       int (*wanted)(const struct dirent *),
		       int (*order)(const struct dirent **, const struct dirent **));
int __wrap_scandirat64(int dir, const char *path, struct dirent ***list,
		       int (*wanted)(const struct dirent *),
		       int (*order)(const struct dirent **, const struct dirent **));
int __wrap_scandirat64(int dir, const char *path, struct dirent ***list,
		       int (*wanted)(const struct dirent *),
		       int (*order)(const struct dirent **, const struct dirent **))
{
	struct names ns;
	unsigned i, nr = 0;
	int err;

	if (!seen_of(dir))
		return __real_scandirat64(dir, path, list, wanted, order);
	err = list_names(dir, &ns);
	if (err) {
		free_names(&ns);
		return said(err);
	}
	for (i = 0; i < ns.nr; i++)
		if (wanted(ns.list[i]))
			ns.list[nr++] = ns.list[i];
		else
			free(ns.list[i]);
	if (nr)
		qsort(ns.list, nr, sizeof(*ns.list), (int (*)(const void *, const void *))order);
	*list = ns.list;
	return (int)nr;
}

/* What fdopendir has made, and closedir not yet ended. */
static _Thread_local struct names *lists[4];

static struct names **list_of(const void *d)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lists); i++)
		if (lists[i] == d)
			return &lists[i];
	return NULL;
}

DIR *__real_fdopendir(int fd);
DIR *__wrap_fdopendir(int fd);
DIR *__wrap_fdopendir(int fd)
{
	struct names *ns, **slot = list_of(NULL);
	int err;

	if (!seen_of(fd))
		return __real_fdopendir(fd);
	if (!slot)
		abort();
	*slot = ns = must(malloc(sizeof(*ns)));
	err = list_names(fd, ns);
	ns->fd = fd;
	if (!err)
		return (DIR *)ns;
	*slot = NULL;
	free_names(ns);
	free(ns);
	said(err);
	return NULL;
}

struct dirent *__real_readdir64(DIR *d);
struct dirent *__wrap_readdir64(DIR *d);
struct dirent *__wrap_readdir64(DIR *d)
{
	struct names **slot = list_of(d);

	if (!slot)
		return __real_readdir64(d);
	return (*slot)->at < (*slot)->nr ? (*slot)->list[(*slot)->at++] : NULL;
}

int __real_closedir(DIR *d);
int __wrap_closedir(DIR *d);
int __wrap_closedir(DIR *d)
{
	struct names **slot = list_of(d), *ns;

	if (!slot)
		return __real_closedir(d);
	ns = *slot;
	*slot = NULL;
	close(ns->fd);
	free_names(ns);
	free(ns);
	return 0;
}

/* --- what is mounted --- */

int __real_mountinfo_resolve(const char *path, char out[PATH_MAX]);
int __wrap_mountinfo_resolve(const char *path, char out[PATH_MAX]);
int __wrap_mountinfo_resolve(const char *path, char out[PATH_MAX])
{
	if (!running)
		return __real_mountinfo_resolve(path, out);
	snprintf(out, PATH_MAX, "%s", path);
	return 0;
}

bool __real_mountinfo_find_ckptfs(const char *path, struct mount_entry *out);
bool __wrap_mountinfo_find_ckptfs(const char *path, struct mount_entry *out);
bool __wrap_mountinfo_find_ckptfs(const char *path, struct mount_entry *out)
{
	if (!running)
		return __real_mountinfo_find_ckptfs(path, out);
	if (!path_in(path, PROGRAM_MOUNT))
		return false;
	memset(out, 0, sizeof(*out));
	snprintf(out->path, sizeof(out->path), PROGRAM_MOUNT);
	snprintf(out->root, sizeof(out->root), "/");
	snprintf(out->source, sizeof(out->source), PROGRAM_BACKING);
	return true;
}

/* Of control_status in fs/control_dir.c: what fs/catalog.c looks at. */
int __wrap_control_ask(const struct mount_entry *m, const char *verb, int limit_ms, json_t **answer,
		       int *pid, int *kept, struct error *e);
int __wrap_control_ask(const struct mount_entry *m, const char *verb, int limit_ms, json_t **answer,
		       int *pid, int *kept, struct error *e)
{
	struct units *us = running->m ? running->m->en.units : NULL;

	(void)m, (void)verb, (void)limit_ms, (void)pid, (void)kept;
	if (!us)
		return FAIL(e, ECONNREFUSED, FSCK_UNREADABLE, PROGRAM_MOUNT,
			    strerror(ECONNREFUSED));
	*answer = json_object();
	json_object_set_new(*answer, "pending",
			    FAULT(PENDING_UNTOLD) ? json_array() : units_to_json(us, 0, true));
	json_object_set_new(*answer, "units", units_counts(us));
	json_object_set_new(*answer, "removals", removals_to_json(us, 0, true));
	return 0;
}
