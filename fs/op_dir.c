/* SPDX-License-Identifier: MIT */
/*
 * Handlers for open directories. Offsets are the backing's own, so telldir works as it does there.
 * The names of generations are taken once, at the rewind, and listed behind the backing's: a name
 * that is published meanwhile is listed exactly once. One listing of a handle runs at a time
 * (dir_lock).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/base/lock.h"
#include "engine/calls/file.h"
#include "engine/cluster/other_nodes.h"
#include "engine/content/content.h"
#include "engine/format/names.h"
#include "engine/names/names.h"
#include "fs/control_dir.h"
#include "fs/fs.h"
#include "fs/other_nodes.h"
#include "fs/views.h"

#define DENTS_BYTES 65536

/*
 * Offsets behind the backing's. Where those are hashes (ext4), one in 2^23 looks like one of these.
 */
#define EXTRA_FIRST ((off_t)0x7fffff00 << 32)

static bool is_extra_off(const struct handle *h, off_t off)
{
	return h->listed.nr && off >= EXTRA_FIRST && off <= EXTRA_FIRST + (off_t)h->listed.nr;
}

/* -ESTALE: the directory was removed and made anew; the kernel looks its name up again. */
static int check_remade(struct fs *fs, const struct caller *c, struct node *n, int fd)
{
	struct backing b = fs_for(fs, c);
	struct statx stx;
	int err = backing_stat(&b, fd, &stx);

	return !err && stx.stx_nlink == 0 && tree_replaced(fs->tree, &b, n) ? -ESTALE : err;
}

/* replies: open, error */
static void op_opendir(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct fs *fs = req_fs(req);
	struct caller c = req_caller(req);
	struct backing b = fs_as(fs, &c);
	struct handle *h = NULL;
	struct node_fd nf;
	struct node *n;
	int fd, err;

	if (control_is(id) || views_is(id)) {
		control_opendir(req, fi);
		return;
	}
	n = req_node(req, id);
	if (!n)
		return;
	fd = tree_fd(fs->tree, &b, n, &nf);
	if (!fd) {
		fd = backing_reopen(&b, nf.fd, O_RDONLY | O_DIRECTORY | (fi->flags & O_NOATIME));
		tree_fd_put(fs->tree, &nf);
	}
	err = fd < 0 ? fd : check_remade(fs, &c, n, fd);
	if (err && fd >= 0)
		close(fd);
	if (!err) {
		h = handle_create(fs->tree, n, fd, O_RDONLY);
		err = h ? 0 : -ENOMEM;
	}
	fi->fh = h ? h->id : 0;
	if (err)
		reply_result(req, "opendir", id, NULL, err);
	else if (fuse_reply_open(req, fi))
		finish_handle(fs, h);
	node_put(fs->tree, n);
}

/* Makes h->dents hold what follows @off. 0 (dents_len 0: the end) or -errno. dir_lock held. */
static int fetch(struct fs *fs, const struct caller *c, struct handle *h, off_t off)
{
	struct backing b = fs_for(fs, c);
	ssize_t n;

	if (off == h->next_off && h->dents_pos < h->dents_len)
		return 0;
	if (!h->dents)
		h->dents = malloc(DENTS_BYTES);
	if (!h->dents)
		return -ENOMEM;
	if (off != h->next_off || !off) {
		off_t at = backing_seek(&b, h->fd, off, SEEK_SET);

		if (at < 0)
			return (int)at;
	}
	h->dents_pos = h->dents_len = 0;
	names_read(fs->engine->units, &h->listed);
	n = backing_getdents(&b, h->fd, h->dents, DENTS_BYTES);
	if (n < 0)
		return (int)n;
	h->dents_len = (size_t)n;
	h->next_off = off;
	return 0;
}

/* --- what other nodes have begun --- */

struct staged {
	char (*names)[STAGING_MAX];
	size_t nr, room;
};

static void note_staged(struct staged *s, const struct dirent64 *d)
{
	if ((d->d_type != DT_DIR && d->d_type != DT_UNKNOWN) || !name_is_reserved(d->d_name) ||
	    strlen(d->d_name) >= STAGING_MAX)
		return;
	if (s->nr == s->room) {
		size_t room = s->room ? 2 * s->room : 16;
		void *more = realloc(s->names, room * sizeof(*s->names));

		if (!more)
			return;
		s->names = more;
		s->room = room;
	}
	snprintf(s->names[s->nr++], STAGING_MAX, "%s", d->d_name);
}

/* Lists the staging directories that are there. 0 or -errno. */
static int list_staged(struct fs *fs, const struct caller *c, struct handle *h, struct staged *s)
{
	LOCK_SCOPE(&h->dir_lock);
	off_t off = 0;
	int err;

	while (!(err = fetch(fs, c, h, off)) && h->dents_len)
		for (; h->dents_pos < h->dents_len; off = h->next_off) {
			const struct dirent64 *d = (const void *)(h->dents + h->dents_pos);

			note_staged(s, d);
			h->next_off = d->d_off;
			h->dents_pos += d->d_reclen;
		}
	return err;
}

/* Meets other nodes' saves before the first name is listed. If none is staged: one more pass. */
static int meet_staged(struct fs *fs, const struct caller *c, struct handle *h)
{
	struct inode_id dir = node_inode(h->node);
	struct staged s = {0};
	size_t i;
	int err;

	if (!fs->engine->units || !accord_has_others(fs->engine->units))
		return 0;
	err = list_staged(fs, c, h, &s);
	if (!err)
		err = accord_await_removed(fs->engine->units, &dir, NULL);
	for (i = 0; i < s.nr && !err; i++)
		err = other_nodes_join_staged(fs, c, h->node, h->fd, s.names[i]);
	free(s.names);
	return err;
}

/* Adds the names from @off on that are not on the backing yet. */
static void emit_extra(fuse_req_t req, struct handle *h, off_t off, char *buf, size_t size,
		       size_t *len)
{
	size_t i = off >= EXTRA_FIRST ? (size_t)(off - EXTRA_FIRST) : 0;

	for (; i < h->listed.nr; i++) {
		const struct name_listed *x = &h->listed.names[i];
		struct stat st = {.st_mode = x->type,
				  .st_ino = visible_ino(req_fs(req), x->id.dev, x->id.ino)};
		size_t need = fuse_add_direntry(req, buf + *len, size - *len, x->name, &st,
						EXTRA_FIRST + (off_t)i + 1);

		if (need > size - *len)
			return;
		*len += need;
	}
}

/* Adds the entry at dents_pos to the reply. False: it does not fit. */
static bool emit(fuse_req_t req, const struct caller *c, struct handle *h, char *buf, size_t size,
		 size_t *len)
{
	const struct dirent64 *d = (const void *)(h->dents + h->dents_pos);
	struct place at = {h->fd, node_inode(h->node), d->d_name};
	struct stat st = {.st_mode = DTTOIF(d->d_type)};
	struct fs *fs = req_fs(req);
	struct backing b = fs_for(fs, c);
	size_t need;

	if (!control_is_name(h->node->id, d->d_name) &&
	    names_list_shows(fs->engine->units, &b, &h->listed, &at)) {
		st.st_ino = visible_ino(fs, h->node->dev, d->d_ino);
		need = fuse_add_direntry(req, buf + *len, size - *len, d->d_name, &st, d->d_off);
		if (need > size - *len)
			return false;
		*len += need;
	}
	h->next_off = d->d_off;
	h->dents_pos += d->d_reclen;
	return true;
}

static int fill_reply(fuse_req_t req, struct handle *h, off_t off, char *buf, size_t size,
		      size_t *len)
{
	struct inode_id dir = node_inode(h->node);
	struct caller c = req_caller(req);
	LOCK_SCOPE(&h->dir_lock);
	if (!off)
		names_list(req_fs(req)->engine->units, &dir, &h->listed);
	for (;;) {
		int err;

		if (is_extra_off(h, off)) {
			emit_extra(req, h, off, buf, size, len);
			return 0;
		}
		err = fetch(req_fs(req), &c, h, off);

		if (err)
			return *len ? 0 : err;
		if (!h->dents_len) {
			emit_extra(req, h, 0, buf, size, len);
			return 0;
		}
		while (h->dents_pos < h->dents_len)
			if (!emit(req, &c, h, buf, size, len))
				return 0;
		off = h->next_off;
	}
}

/* replies: buf, error */
static void op_readdir(fuse_req_t req, fuse_ino_t id, size_t size, off_t off,
		       struct fuse_file_info *fi)
{
	struct fs *fs = req_fs(req);
	struct caller c = req_caller(req);
	struct handle *h;
	size_t len = 0;
	char *buf = requests_data_buffer();
	int err;

	if (views_is(id)) {
		views_readdir(req, id, size, off);
		return;
	}
	if (control_is(id)) {
		control_readdir(req, size, off);
		return;
	}
	h = req_handle(req, fi);
	if (!h)
		return;
	err = off ? 0 : meet_staged(fs, &c, h);
	if (!err)
		err = fill_reply(req, h, off, buf,
				 size < REQUEST_MAX_BYTES ? size : REQUEST_MAX_BYTES, &len);
	if (err)
		reply_result(req, "readdir", id, NULL, err);
	else
		fuse_reply_buf(req, buf, len);
	finish_handle(fs, h);
}

/* replies: error */
static void op_releasedir(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct fs *fs = req_fs(req);
	struct handle *h = control_is(id) || views_is(id) ? NULL : handle_get(fs->tree, fi->fh);

	if (h) {
		finish_handle(fs, h); /* the kernel's reference */
		finish_handle(fs, h);
	}
	fuse_reply_err(req, 0);
}

/* Waits, for a program that synced and closed a unit's file, until the file has its name. */
static int sync_dir(struct fs *fs, const struct caller *c, struct handle *h, bool data_only)
{
	struct backing b = fs_as(fs, c);
	struct inode_id dir = node_inode(h->node);
	int err = fs->engine->units ? units_settle_dir(fs->engine->units, &dir) : 0;

	if (err)
		return err;
	return backing_sync(&b, h->fd, data_only);
}

/* replies: error */
static void op_fsyncdir(fuse_req_t req, fuse_ino_t id, int data_only, struct fuse_file_info *fi)
{
	struct fs *fs = req_fs(req);
	struct caller c = req_caller(req);
	struct handle *h;

	if (control_is(id) || views_is(id)) {
		fuse_reply_err(req, 0);
		return;
	}
	h = req_handle(req, fi);
	if (!h)
		return;
	reply_result(req, "fsync", id, NULL, sync_dir(fs, &c, h, data_only));
	finish_handle(fs, h);
}

void ops_dir(struct fuse_lowlevel_ops *ops)
{
	ops->opendir = op_opendir;
	ops->readdir = op_readdir;
	ops->releasedir = op_releasedir;
	ops->fsyncdir = op_fsyncdir;
}
