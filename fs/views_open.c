/* SPDX-License-Identifier: MIT */
/* What is open of views, and their listings. A handle belongs to the kernel until its release. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/content/content.h"
#include "engine/save/checkpoint.h"
#include "engine/views/view.h"
#include "fs/view_assets.h"
#include "fs/view_files.h"
#include "fs/views_inside.h"

struct opened {
	struct fs *fs;
	struct caller caller;
	struct shown *shown; /* referenced; NULL: it is a text */
	size_t file;
	struct view_files files;
	int dir; /* of the unit, as the caller has opened it */
	char *text;
};

/* Opens the file of the unit with the rights of the opener: no link is followed. */
static int open_source(void *opened, const char *path)
{
	const struct opened *o = opened;
	struct backing b = fs_as(o->fs, &o->caller);
	int at = o->dir, fd = -ENOENT;
	char name[NAME_MAX + 1];

	while (*path) {
		size_t len = strcspn(path, "/");
		int next;

		if (len > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(name, path, len);
		name[len] = '\0';
		next = backing_name_ok(name) ? backing_pin(&b, at, name) : -EINVAL;
		if (at != o->dir)
			close(at);
		if (next < 0)
			return next;
		at = next;
		path += len + (path[len] == '/');
	}
	if (at != o->dir) {
		fd = backing_reopen(&b, at, O_RDONLY | O_NONBLOCK);
		close(at);
	}
	return fd;
}

/* A file that was saved just now may still be in the cache, and not in the pages of the backing. */
static void *find_content(void *opened, int fd)
{
	const struct opened *o = opened;
	struct backing b = fs_as(o->fs, &o->caller);
	struct contents *all = o->fs->engine->contents;
	struct inode_id id;
	struct statx stx;

	if (!all || backing_stat(&b, fd, &stx))
		return NULL;
	id = inode_id_of(&stx);
	return content_find(all, &id);
}

static ssize_t read_content(void *content, int fd, void *buf, size_t len, uint64_t off)
{
	return content_read(content, fd, buf, len, off);
}

static void put_content(void *content)
{
	content_put(content);
}

static const struct view_files_ops files_ops = {
	.open = open_source, .find = find_content, .read = read_content, .put = put_content};

static void free_opened(struct opened *o)
{
	if (!o)
		return;
	if (o->shown)
		view_files_finish(&o->files);
	shown_put(o->fs->views, o->shown);
	if (o->dir >= 0)
		close(o->dir);
	free(o->text);
	free(o);
}

static int open_file(struct opened *o, struct view_node *n)
{
	struct views *vs = o->fs->views;
	struct shown *s = NULL;
	struct statx stx;
	int err = views_shown_of(vs, &o->caller, n, &s);

	if (err)
		return err;
	o->dir = views_open_unit(vs, &o->caller, n, &stx);
	err = o->dir < 0 ? o->dir : view_files_init(&o->files, s->view, &files_ops, o);
	if (err) {
		shown_put(vs, s);
		return err;
	}
	o->shown = s;
	o->file = n->file;
	return view_files_open(&o->files, o->file);
}

void views_open(fuse_req_t req, uint64_t id, struct fuse_file_info *fi)
{
	struct fs *fs = req_fs(req);
	struct view_node *n = views_get(fs->views, id);
	struct opened *o = n ? calloc(1, sizeof(*o)) : NULL;
	int err = o ? 0 : n ? -ENOMEM : -ESTALE;

	if (o) {
		*o = (struct opened){.fs = fs, .caller = req_caller(req), .dir = -1};
		if ((fi->flags & O_ACCMODE) != O_RDONLY || fi->flags & O_TRUNC)
			err = -EROFS;
		else if (n->kind == VIEW_FILE)
			err = open_file(o, n);
		else if (n->kind == VIEW_WHY || n->kind == VIEW_TOP_WHY ||
			 n->kind == VIEW_TOP_INDEX)
			o->text = views_text(fs->views, &o->caller, n, &err);
		else
			err = -EISDIR;
		fi->direct_io = o->text != NULL; /* its size is known only now */
	}
	if (n)
		views_put(fs->views, n);
	fi->fh = (uintptr_t)o;
	fi->noflush = 1;
	fi->keep_cache = o && o->shown;
	if (err)
		fuse_reply_err(req, -err);
	if (err || fuse_reply_open(req, fi))
		free_opened(o);
}

void views_read(fuse_req_t req, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct opened *o = (struct opened *)(uintptr_t)fi->fh;
	char *buf = requests_data_buffer();
	ssize_t n;

	size = size < REQUEST_MAX_BYTES ? size : REQUEST_MAX_BYTES;
	if (o->text) {
		size_t len = strlen(o->text), at = (size_t)off < len ? (size_t)off : len;

		n = (ssize_t)(len - at < size ? len - at : size);
		memcpy(buf, o->text + at, (size_t)n);
	} else {
		struct view_source src = view_files_source(&o->files);

		n = view_read(o->shown->view, o->file, buf, size, (uint64_t)off, &src);
	}
	if (n < 0)
		fuse_reply_err(req, (int)-n);
	else
		fuse_reply_buf(req, buf, (size_t)n);
}

void views_release(fuse_req_t req, struct fuse_file_info *fi)
{
	free_opened((struct opened *)(uintptr_t)fi->fh);
	fuse_reply_err(req, 0);
}

void views_getattr(fuse_req_t req, uint64_t id)
{
	struct views *vs = req_fs(req)->views;
	struct view_node *n = views_get(vs, id);

	if (!n) {
		fuse_reply_err(req, ESTALE);
		return;
	}
	fuse_reply_attr(req, &n->st, 1);
	views_put(vs, n);
}

void views_readlink(fuse_req_t req, uint64_t id)
{
	struct views *vs = req_fs(req)->views;
	struct view_node *n = views_get(vs, id);

	if (!n || n->kind != VIEW_LINK || !n->target)
		fuse_reply_err(req, n ? EINVAL : ESTALE);
	else
		fuse_reply_readlink(req, n->target);
	if (n)
		views_put(vs, n);
}

/* The @i-th name in a view, and whether it is a link. NULL: there are no more. */
static const char *name_in(const struct view *v, size_t i, bool *link)
{
	*link = i > v->nr_files;
	if (i < v->nr_files)
		return v->files[i].name;
	return i == v->nr_files ? "why" : view_asset(i - v->nr_files - 1);
}

void views_readdir(fuse_req_t req, uint64_t id, size_t size, off_t off)
{
	struct fs *fs = req_fs(req);
	struct caller c = req_caller(req);
	struct view_node *n = views_get(fs->views, id);
	char *buf = requests_data_buffer(), target[VIEWS_LINK_MAX];
	struct shown *s = NULL;
	size_t len = 0;
	int err = !n			 ? -ESTALE
		  : n->kind == VIEW_SPEC ? views_shown_of(fs->views, &c, n, &s)
		  : n->kind == VIEW_TOP	 ? 0
					 : -ENOTDIR;

	if (err) {
		fuse_reply_err(req, -err);
		if (n)
			views_put(fs->views, n);
		return;
	}
	size = size < REQUEST_MAX_BYTES ? size : REQUEST_MAX_BYTES;
	for (size_t i = (size_t)off;; i++) {
		bool link = false;
		struct stat st = {.st_ino = id, .st_mode = i < 2 ? S_IFDIR : S_IFREG};
		const char *name = i == 0 ? "." : i == 1 ? ".." : NULL;
		size_t need;

		if (!name && n->kind == VIEW_SPEC)
			name = name_in(s->view, i - 2, &link);
		else if (!name)
			name = i == 2 ? "index.json" : i == 3 ? "why" : NULL;
		if (!name)
			break;
		if (link && !views_asset(fs->views, &c, n, name, target))
			continue;
		st.st_mode = link ? S_IFLNK : st.st_mode;
		need = fuse_add_direntry(req, buf + len, size - len, name, &st, (off_t)i + 1);
		if (need > size - len)
			break;
		len += need;
	}
	fuse_reply_buf(req, buf, len);
	shown_put(fs->views, s);
	views_put(fs->views, n);
}
