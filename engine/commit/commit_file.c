/* SPDX-License-Identifier: MIT */
/*
 * Writes the commit file: fills in its header, with the place of the checkpoint among those beside
 * it, and writes it into staging (O3 of commit.c).
 *
 * Assumes a complete listing (commit_list.c), and that the caller acts for the owner. Takes the
 * units' lock, and makes no call to the backing with it. engine/format/commit.h defines the format.
 */
#include "engine/commit/commit_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/backing/dirwalk.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/lock.h"
#include "engine/cluster/cluster.h"
#include "engine/coord/nodes.h"
#include "engine/redo/unit_header.h"
#include "engine/save/commit_describe.h"

#define WRITE_BUFFER 65536
#define COMMIT_MODE  0644

struct file_writer {
	struct backing *b;
	int fd;
	off_t off;
	size_t len;
	char buf[WRITE_BUFFER];
};

static int write_out(struct file_writer *f)
{
	ssize_t n = backing_write(f->b, f->fd, f->buf, f->len, f->off, 0);

	if (n < 0)
		return (int)n;
	if ((size_t)n < f->len)
		return -ENOSPC;
	f->off += n;
	f->len = 0;
	return 0;
}

static int write_some(void *file_writer, const void *data, size_t len)
{
	struct file_writer *f = file_writer;

	while (len) {
		size_t n = WRITE_BUFFER - f->len < len ? WRITE_BUFFER - f->len : len;
		int err;

		memcpy(f->buf + f->len, data, n);
		f->len += n;
		data = (const char *)data + n;
		len -= n;
		err = f->len == WRITE_BUFFER ? write_out(f) : 0;
		if (err)
			return err;
	}
	return 0;
}

static int write_entries(struct listing *l, const struct commit_header *header,
			 struct file_writer *f)
{
	struct commit_stats stats = {.node = l->cp->units->node,
				     .bytes = l->bytes,
				     .files = l->files,
				     .seconds = (double)(clock_mono_ns() - l->cp->opened_ns) /
						NSEC_PER_SEC};
	struct commit_writer *w;
	size_t i;
	int err = commit_writer_create(&w, header, write_some, f);

	if (err)
		return err;
	for (i = 0; !err && i < l->nr; i++)
		err = commit_writer_add(w, &l->entries[i]);
	if (!err)
		err = shards_write(&l->shards, w);
	if (!err)
		err = commit_writer_add_stats(w, &stats);
	if (!err)
		err = commit_writer_end(w);
	commit_writer_destroy(w);
	return err ? err : write_out(f);
}

static int write_as(struct listing *l, const struct commit_header *header, const char *name)
{
	struct checkpoint *cp = l->cp;
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	__cleanup_free struct file_writer *f = malloc(sizeof(*f));
	bool created;
	int err;

	if (!f)
		return -ENOMEM;
	*f = (struct file_writer){.b = &b};
	err = backing_unlink(&b, cp->fd, name, false); /* left by an earlier try */
	if (err && err != -ENOENT)
		return err;
	f->fd = backing_create(&b, cp->fd, name, O_RDWR | O_EXCL, COMMIT_MODE, &created);
	if (f->fd < 0)
		return f->fd;
	err = write_entries(l, header, f);
	if (!err && !FAULT(COMMIT_FILE_UNSYNCED))
		err = backing_sync(&b, f->fd, false);
	close(f->fd);
	return err;
}

/* True if the commit file of @cp is there, whole, from this node or another. */
static bool has_commit_file(struct checkpoint *cp)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	char generation[COMMIT_HEX];

	return !unit_generation(&b, cp->fd, generation) &&
	       !strcmp(generation, staging_id(cp->staging));
}

/*
 * For a checkpoint that another node may commit, too, or already has. The commit file that stands
 * is never removed nor written to: each node writes one under its own name, and renames it when
 * whole. All list the same files, so any will do. A node that was held up finds that one stands.
 */
static int write_beside_others(struct listing *l, const struct commit_header *header)
{
	struct checkpoint *cp = l->cp;
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	char own[STAGING_MAX];
	int err;

	own_commit_name(own, nodes_id(cp->units->nodes));
	err = write_as(l, header, own);
	if (!err && !has_commit_file(cp)) {
		err = backing_rename(&b, cp->fd, own, cp->fd, COMMIT_FILE, 0);
		return err == -ENOENT ? -EAGAIN : err; /* another node has decided, and tidied up */
	}
	backing_unlink(&b, cp->fd, own, false);
	return err;
}

/* (O3) */
static int write_commit_file(struct listing *l, const struct commit_header *header)
{
	return accord_has_heirs(l->cp) ? write_beside_others(l, header)
				       : write_as(l, header, COMMIT_FILE);
}

int commit_put_into_staging(struct listing *l, const struct commit_header *header)
{
	struct checkpoint *cp = l->cp;
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	struct statx stx;
	int err = backing_stat(&b, cp->fd, &stx);

	if (!err)
		err = write_commit_file(l, header);
	if (!err) {
		struct timespec times[2] = {
			{.tv_nsec = UTIME_OMIT},
			{.tv_sec = stx.stx_mtime.tv_sec, .tv_nsec = stx.stx_mtime.tv_nsec},
		};

		err = backing_utimens(&b, cp->fd, times);
	}
	return err || FAULT(DIRECTORY_UNSYNCED) ? err : backing_sync(&b, cp->fd, false);
}

static ssize_t read_header_bytes(void *opened, void *buf, size_t len, uint64_t off)
{
	return commit_read_opened(opened, buf, len, off);
}

/* Raises *@last to the sequence of the unit @name in @dir, if it is one. -ESTALE: look again. */
static int raise_to(struct checkpoint *cp, int dir, const char *name, uint64_t *last)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	struct opened o = {.b = &b, .fd = -1};
	struct source src = {.read = read_header_bytes, .arg = &o};
	struct commit_header h;
	struct error e;
	int unit = backing_pin(&b, dir, name), pin, err;

	pin = unit < 0 ? unit : backing_pin(&b, unit, COMMIT_FILE);
	o.fd = pin < 0 ? pin : backing_reopen(&b, pin, O_RDONLY | O_NONBLOCK);
	err = o.fd < 0 ? o.fd : commit_read_header(&src, name, &h, &e);
	if (!err && h.sequence > *last)
		*last = h.sequence;
	if (o.fd >= 0)
		close(o.fd);
	if (pin >= 0)
		close(pin);
	if (unit >= 0)
		close(unit);
	return err == -ESTALE ? err : 0;
}

static int look_for_last(struct checkpoint *cp, uint64_t *last)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	int err = dirwalk_begin(&w, &b, cp->target.dir);

	while (!err && dirwalk_next_visible(&w))
		if (w.type == DT_DIR || w.type == DT_UNKNOWN)
			err = raise_to(cp, w.fd, w.name, last);
	return err ? err : w.err;
}

/* The largest sequence that is visible beside it. */
static uint64_t last_sequence(struct checkpoint *cp)
{
	uint64_t last = 0;

	(void)BACKING_ANEW(look_for_last(cp, &last));
	return last;
}

int commit_fill_header(struct checkpoint *cp, const char *path, struct commit_header *h)
{
	commit_describe(cp, path, h);
	accord_inherit_header(cp, h);
	h->committed_ns = clock_wall_ns();
	h->sequence = FAULT(SEQUENCE_FORGOTTEN) ? 1 : last_sequence(cp) + 1;
	LOCK_SCOPE(&cp->units->lock);
	h->nodes = accord_nodes(cp);
	return 0;
}
