/* SPDX-License-Identifier: MIT */
/*
 * Lists what is in a checkpoint, for its commit file: files with their digests, symbolic links,
 * empty directories. Syncs its directories except the top one, and files that did not come through
 * publish.c (O1, O2 of commit.c).
 *
 * Assumes that no program and no other node changes the checkpoint any more, and that the caller
 * acts for its owner. Takes no lock itself. Writes nothing, and judges nothing but whether a tensor
 * file is whole.
 */
#include "engine/commit/commit_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ckptfs_abi.h"
#include "engine/backing/dirwalk.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/cluster/cluster.h"
#include "engine/content/recorded.h"
#include "engine/content/structure.h"

#define DIGEST_THREADS 2

static int add(struct listing *l, const struct commit_entry *entry)
{
	struct commit_entry *e;

	if (l->nr == l->room) {
		size_t room = l->room ? 2 * l->room : 64;
		struct commit_entry *more = realloc(l->entries, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		l->entries = more;
		l->room = room;
	}
	e = &l->entries[l->nr];
	*e = *entry;
	e->path = strdup(entry->path);
	e->target = entry->target ? strdup(entry->target) : NULL;
	if (!e->path || (entry->target && !e->target)) {
		free((void *)e->path);
		return -ENOMEM;
	}
	l->nr++;
	return 0;
}

void commit_listing_finish(struct listing *l)
{
	while (l->nr) {
		struct commit_entry *e = &l->entries[--l->nr];

		free((void *)e->path);
		free((void *)e->target);
	}
	free(l->entries);
	shards_free(&l->shards);
	filed_free(l->filed, l->nr_filed);
	overwrites_finish(&l->overwrites);
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct commit_entry *)a)->path,
		      ((const struct commit_entry *)b)->path);
}

static int by_inode(const void *a, const void *b)
{
	const struct filed *x = a, *y = b;

	if (x->id.ino != y->id.ino)
		return x->id.ino < y->id.ino ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order; /* the last one counts */
}

/* What publish.c found out last about the file @id; NULL: nothing. */
static const struct filed *last_filed(const struct listing *l, const struct inode_id *id)
{
	size_t lo = 0, hi = l->nr_filed;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (l->filed[mid].id.ino <= id->ino)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && same_inode(&l->filed[lo - 1].id, id) ? &l->filed[lo - 1] : NULL;
}

/* The same for the file with @stx, if it has not changed since. */
static const struct filed *find_filed(const struct listing *l, const struct statx *stx)
{
	struct inode_id id = inode_id_of(stx);
	uint64_t mtime_ns = (uint64_t)stx->stx_mtime.tv_sec * NSEC_PER_SEC + stx->stx_mtime.tv_nsec;
	const struct filed *f = last_filed(l, &id);

	return f && f->size == stx->stx_size && f->mtime_ns == mtime_ns ? f : NULL;
}

static const char *node_of(const struct listing *l, const struct filed *f)
{
	return f->node ? f->node : l->cp->units->node;
}

/* Tells people of other content that another node wrote under the name of @f, and that is lost. */
static void tell_overwrites(const struct listing *l, const char *rel, const struct filed *f)
{
	const struct inode_id *id = overwrites_find(&l->overwrites, &f->id);
	struct units *us = l->cp->units;
	char text[MESSAGE_MAX], path[PATH_MAX + COMMIT_PATH_MAX];
	size_t i;

	for (i = 0; id && i < l->overwrites.nr; i++) {
		const struct filed *other = last_filed(l, id);

		if (other && strcmp(other->xxh3, f->xxh3)) {
			snprintf(path, sizeof(path), "%s/%s", l->path, rel);
			MESSAGE(text, CHECKPOINT_OVERWRITTEN, path, node_of(l, other),
				node_of(l, f), node_of(l, f));
			failures_add(us->failures, l->cp->owner.uid, "save", path, EEXIST, text);
		}
		id = overwrites_find(&l->overwrites, id);
	}
}

ssize_t commit_read_opened(void *opened, void *buf, size_t len, uint64_t off)
{
	struct opened *o = opened;

	return backing_read(o->b, o->fd, buf, len, (off_t)off);
}

/* Makes a file durable that did not come through publish.c, and digests it. */
static int digest_now(struct listing *l, int pin, const struct statx *stx, char hex[DIGEST_HEX])
{
	struct backing b = backing_owner(l->cp->units->contents->backing, &l->cp->owner);
	struct opened o = {.b = &b, .fd = backing_reopen(&b, pin, O_RDONLY)};
	struct source src = {.read = commit_read_opened, .arg = &o};
	int err;

	if (o.fd < 0)
		return o.fd;
	err = backing_sync(&b, o.fd, false);
	if (!err && recorded_valid(&b, o.fd, stx, hex)) {
		close(o.fd);
		return 0;
	}
	if (!err)
		err = digest_of_source(&src, stx->stx_size, DIGEST_THREADS, NULL, NULL, hex);
	close(o.fd);
	return err;
}

/* *@lacks: the file begins with the mark of client/file.c, or a length of 0: it has no header. */
static int lacks_header(const struct source *src, uint64_t size, bool *lacks)
{
	unsigned char length[8] = "", none[8] = "";
	ssize_t n = size < sizeof(length) ? 0 : src->read(src->arg, length, sizeof(length), 0);

	*lacks = n == sizeof(length) && (!memcmp(length, none, sizeof(none)) ||
					 !memcmp(length, CKPTFS_UNFINISHED, sizeof(length)));
	return n < 0 ? (int)n : 0;
}

/*
 * Checks that a tensor file is whole. Its header or directory may be written last, so it may have
 * been left in the middle although the checkpoint has its end. @all: check the structure as for a
 * single file; else only if the header was never written.
 */
static int check_whole(struct listing *l, int pin, const char *rel, const struct statx *stx,
		       bool all)
{
	struct backing b = backing_owner(l->cp->units->contents->backing, &l->cp->owner);
	struct opened o = {.b = &b, .fd = backing_reopen(&b, pin, O_RDONLY)};
	struct source src = {.read = commit_read_opened, .arg = &o};
	char path[PATH_MAX + COMMIT_PATH_MAX];
	int err = 0;

	if (o.fd < 0)
		return o.fd;
	snprintf(path, sizeof(path), "%s/%s", l->path, rel);
	if (!all)
		err = lacks_header(&src, stx->stx_size, &all);
	if (!err && all)
		err = structure_check(&src, path, stx->stx_size, l->e);
	close(o.fd);
	return err;
}

/*
 * Decides what to check by the name. Most names promise no format: a file of DCP is many of
 * torch.save, one behind the other. But any file that was written by handle may be a tensor file.
 */
static int check_end(struct listing *l, int pin, const char *rel, const struct statx *stx,
		     bool by_handle)
{
	static const char suffix[] = ".safetensors";
	size_t len = strlen(rel), n = strlen(suffix);

	if (by_handle && rules_single(l->cp->units->rules, rel))
		return check_whole(l, pin, rel, stx, true);
	if (by_handle || (len > n && !strcmp(rel + len - n, suffix)))
		return check_whole(l, pin, rel, stx, false);
	return 0;
}

static int list_file(struct listing *l, int pin, const char *rel, const struct statx *stx)
{
	const struct filed *f = find_filed(l, stx);
	struct commit_entry e = {.kind = COMMIT_IS_FILE,
				 .path = rel,
				 .size = stx->stx_size,
				 .node = f ? node_of(l, f) : l->cp->units->node,
				 .rank = f ? f->rank : -1};
	int err = check_end(l, pin, rel, stx, f && f->by_handle);

	if (f)
		memcpy(e.xxh3, f->xxh3, sizeof(e.xxh3));
	else if (!err)
		err = digest_now(l, pin, stx, e.xxh3);
	l->bytes += stx->stx_size;
	l->files++;
	if (!err)
		err = add(l, &e);
	if (!err && f)
		tell_overwrites(l, rel, f);
	if (!err && f && f->tensors)
		err = shards_add(&l->shards, f->tensors, l->entries[l->nr - 1].path);
	return err;
}

static int list_symlink(struct listing *l, int pin, const char *rel)
{
	struct backing b = backing_owner(l->cp->units->contents->backing, &l->cp->owner);
	char target[PATH_MAX];
	int len = backing_readlink(&b, pin, target, sizeof(target) - 1);

	if (len < 0)
		return len;
	target[len] = '\0';
	return add(l, &(struct commit_entry){
			      .kind = COMMIT_IS_SYMLINK, .path = rel, .target = target});
}

static int list_directory(struct listing *l, int pin, const char *rel);

/* Looks again if another node told of something newer than this client of the backing shows. */
static int look(struct listing *l, int pin, struct statx *stx)
{
	struct backing b = backing_owner(l->cp->units->contents->backing, &l->cp->owner);
	struct inode_id id;
	int err = backing_stat(&b, pin, stx);

	id = inode_id_of(stx);
	if (err || !accord_is_shared(l->cp) || !last_filed(l, &id) || find_filed(l, stx))
		return err;
	return backing_stat_now(&b, pin, stx);
}

static int list_pinned(struct listing *l, int pin, const char *rel)
{
	struct statx stx;
	int err = look(l, pin, &stx);

	if (err)
		return err;
	if (S_ISREG(stx.stx_mode))
		return list_file(l, pin, rel, &stx);
	if (S_ISLNK(stx.stx_mode))
		return list_symlink(l, pin, rel);
	return S_ISDIR(stx.stx_mode) ? list_directory(l, pin, rel)
				     : 0; /* a socket or device cannot be kept */
}

/* Lists what the name has now: another node may have given it to something else. */
static int list_one(struct listing *l, int dir, const char *name, uint64_t ino, const char *rel)
{
	struct checkpoint *cp = l->cp;
	struct backing b = accord_backing(cp->units, cp->maker, &cp->owner);
	int pin = backing_pin_listed(&b, dir, name, ino), err;

	if (pin < 0)
		return pin == -ENOENT ? 0 : pin == -ESTALE ? -EAGAIN : pin;
	err = list_pinned(l, pin, rel);
	close(pin);
	return err;
}

/* Lists all in a directory, then syncs it; the top, @rel "", later, with the commit file. */
static int list_directory(struct listing *l, int pin, const char *rel)
{
	struct backing b = backing_owner(l->cp->units->contents->backing, &l->cp->owner);
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	__cleanup_free char *path = malloc(COMMIT_PATH_MAX);
	int err = path ? dirwalk_begin(&w, &b, pin) : -ENOMEM;
	bool empty = true;

	while (!err && dirwalk_next_visible(&w)) {
		empty = false;
		if (snprintf(path, COMMIT_PATH_MAX, "%s%s%s", rel, *rel ? "/" : "", w.name) >=
		    COMMIT_PATH_MAX)
			err = -ENAMETOOLONG;
		else
			err = list_one(l, w.fd, w.name, w.ino, path);
	}
	/* Else the rest of the directory would not be part of the checkpoint. */
	err = err ? err : w.err;
	if (!err && *rel)
		err = backing_sync(&b, w.fd, false);
	if (!err && empty && *rel)
		err = add(l, &(struct commit_entry){.kind = COMMIT_IS_DIRECTORY, .path = rel});
	return err;
}

int commit_listing_fill(struct listing *l)
{
	struct checkpoint *cp = l->cp;
	int err = accord_gather(cp);

	if (!err)
		err = checkpoint_take_filed(cp, &l->filed, &l->nr_filed);
	if (!err)
		err = checkpoint_take_overwrites(cp, &l->overwrites);
	if (!err) {
		qsort(l->filed, l->nr_filed, sizeof(*l->filed), by_inode);
		overwrites_sort(&l->overwrites);
		err = list_directory(l, cp->fd, "");
	}
	if (!err && l->nr)
		qsort(l->entries, l->nr, sizeof(*l->entries), by_path);
	return err;
}
