/* SPDX-License-Identifier: MIT */
/*
 * How a checkpoint whose end was seen becomes one that is committed (DESIGN 4). In this order, so that
 * at every crash instant the name shows the old checkpoint or the new one, whole:
 *
 *   its files are durable and digested			(O1: publish.c; what escaped that, here)
 *   its directories are synced, and the one that it is in	(O2)
 *   the commit file is written and synced, in staging	(O3)
 *   the decision is recorded, write-once		(O4: a crash after this is redone by recover.c)
 *   the staging directory gets its name, the parent is synced	(O5)
 *
 * A committed one of which all files were removed gets its name so, too, but without a commit file: it is an ordinary
 * directory then.
 *
 *   what waits for it follows: pointers get their names (O6), what was removed leaves (O7; following.h)
 *   the record goes
 */
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
#include "engine/base/fault.h"
#include "engine/base/json.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/content/recorded.h"
#include "engine/content/structure.h"
#include "engine/flush/flush.h"
#include "engine/format/commit.h"
#include "engine/unit/accord.h"
#include "engine/unit/checkpoint.h"
#include "engine/unit/decision.h"
#include "engine/unit/following.h"
#include "engine/unit/fresh.h"
#include "engine/unit/held.h"
#include "engine/unit/pointer.h"
#include "engine/unit/internal.h"
#include "engine/unit/missing.h"
#include "engine/unit/removal.h"
#include "engine/unit/replace.h"
#include "engine/unit/rivals.h"
#include "engine/unit/rules.h"
#include "engine/unit/shards.h"
#include "engine/unit/wreck.h"

#define FIRST_PAUSE_NS	(10 * NSEC_PER_MSEC)
#define MOST_PAUSE_NS	NSEC_PER_SEC
#define DIGEST_THREADS	2
#define WRITE_BUFFER	65536
#define COMMIT_MODE	0644
#define COMMIT_XXH3_MAX DIGEST_HEX

#define AS_OWNER(cp, expr) AS_OWNER_FIRST(&(cp)->owner, expr)

/* --- what is in it --- */

/* Everything that the commit file will list; what one entry needs, allocated. */
struct listing {
	struct checkpoint *cp;
	struct filed *filed; /* what is known of its files, by inode */
	size_t nr_filed;
	struct commit_entry *entries;
	size_t nr, room;
	struct rival *rivals;
	size_t nr_rivals;
	struct shards shards;
	uint64_t bytes, files;
	const char *path; /* of the checkpoint, for messages */
	struct error *e;  /* filled where there is more to say than what failed */
};

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

static void finish(struct listing *l)
{
	while (l->nr) {
		struct commit_entry *e = &l->entries[--l->nr];

		free((void *)e->path);
		free((void *)e->target);
	}
	free(l->entries);
	shards_free(&l->shards);
	filed_free(l->filed, l->nr_filed);
	free(l->rivals);
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

/* What publish.c found out last of the file @id; NULL: nothing. */
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

/* The same of that which @stx is of, if it is still true. */
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

/* Is another content of it not kept, which another node has written under its name? Then people are told. */
static void tell_rivals(const struct listing *l, const char *rel, const struct filed *f)
{
	const struct inode_id *id = rivals_find(l->rivals, l->nr_rivals, &f->id);
	struct units *us = l->cp->units;
	char text[MESSAGE_MAX], path[PATH_MAX + COMMIT_PATH_MAX];
	size_t i;

	for (i = 0; id && i < l->nr_rivals; i++) {
		const struct filed *other = last_filed(l, id);

		if (other && strcmp(other->xxh3, f->xxh3)) {
			snprintf(path, sizeof(path), "%s/%s", l->path, rel);
			MESSAGE(text, CHECKPOINT_RIVALS, path, node_of(l, other), node_of(l, f),
				node_of(l, f));
			failures_add(us->failures, l->cp->owner.uid, "save", path, EEXIST, text);
		}
		id = rivals_find(l->rivals, l->nr_rivals, id);
	}
}

struct opened {
	struct backing *b;
	int fd;
};

static ssize_t read_opened(void *opened, void *buf, size_t len, uint64_t off)
{
	struct opened *o = opened;

	return backing_read(o->b, o->fd, buf, len, (off_t)off);
}

bool checkpoint_recorded(struct backing *b, int fd, const struct statx *stx, char hex[DIGEST_HEX])
{
	return recorded_valid(b, fd, stx, hex);
}

/* A file that came another way than through publish.c: made durable, and digested. */
static int digest_now(struct listing *l, int pin, const struct statx *stx, char hex[DIGEST_HEX])
{
	struct backing *b = l->cp->units->contents->backing;
	struct opened o = {.b = b, .fd = AS_OWNER(l->cp, backing_reopen(b, pin, O_RDONLY))};
	struct source src = {.read = read_opened, .arg = &o};
	int err;

	if (o.fd < 0)
		return o.fd;
	err = backing_sync(b, o.fd, false);
	if (!err && checkpoint_recorded(b, o.fd, stx, hex)) {
		close(o.fd);
		return 0;
	}
	if (!err)
		err = digest_of_source(&src, stx->stx_size, DIGEST_THREADS, NULL, NULL, hex);
	close(o.fd);
	return err;
}

/* What a file of tensors begins with until its header is written: client/file.c leaves a mark, others a length of 0. */
static int lacks_header(const struct source *src, uint64_t size, bool *lacks)
{
	unsigned char length[8] = "", none[8] = "";
	ssize_t n = size < sizeof(length) ? 0 : src->read(src->arg, length, sizeof(length), 0);

	*lacks = n == sizeof(length) && (!memcmp(length, none, sizeof(none)) ||
					 !memcmp(length, CKPTFS_UNFINISHED, sizeof(length)));
	return n < 0 ? (int)n : 0;
}

/*
 * A file of tensors may get its end last of all, its header or directory: without that it was left in the middle,
 * whatever else tells that the checkpoint is complete. @all: it is checked for structure like a file by
 * itself; else only for a header that was never written.
 */
static int check_whole(struct listing *l, int pin, const char *rel, const struct statx *stx,
		       bool all)
{
	struct backing *b = l->cp->units->contents->backing;
	struct opened o = {.b = b, .fd = AS_OWNER(l->cp, backing_reopen(b, pin, O_RDONLY))};
	struct source src = {.read = read_opened, .arg = &o};
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
 * Other names promise no format: a file of DCP is many of torch.save, one behind the other. But what is written by handle
 * may be a file of tensors, whatever its name.
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
		tell_rivals(l, rel, f);
	if (!err && f && f->tensors)
		err = shards_add(&l->shards, f->tensors, l->entries[l->nr - 1].path);
	return err;
}

static int list_symlink(struct listing *l, int pin, const char *rel)
{
	struct backing *b = l->cp->units->contents->backing;
	char target[PATH_MAX];
	int len = backing_readlink(b, pin, target, sizeof(target) - 1);

	if (len < 0)
		return len;
	target[len] = '\0';
	return add(l, &(struct commit_entry){
			      .kind = COMMIT_IS_SYMLINK, .path = rel, .target = target});
}

static int list_directory(struct listing *l, int pin, const char *rel);

/* What other nodes have told of it may be newer than what the client of the backing remembers. */
static int look(struct listing *l, int pin, struct statx *stx)
{
	struct inode_id id;
	int err = backing_stat(l->cp->units->contents->backing, pin, stx);

	id = inode_id_of(stx);
	if (err || !accord_is_shared(l->cp) || !last_filed(l, &id) || find_filed(l, stx))
		return err;
	return fresh_stat(l->cp, pin, stx);
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
				     : 0; /* a socket, a device: nothing that could be kept */
}

/* What the name leads to now: nodes may have given it to something else than what this one's client of the backing remembers. */
static int list_one(struct listing *l, int dir, const char *name, uint64_t ino, const char *rel)
{
	struct checkpoint *cp = l->cp;
	int pin = fresh_pin_listed(cp->units, cp->maker, &cp->owner, dir, name, ino), err;

	if (pin < 0)
		return pin == -ENOENT ? 0 : pin == -ESTALE ? -EAGAIN : pin;
	err = list_pinned(l, pin, rel);
	close(pin);
	return err;
}

/* All that is in a directory, which is synced after that; the top, @rel "", when the commit file is in it. */
static int list_directory(struct listing *l, int pin, const char *rel)
{
	struct backing *b = l->cp->units->contents->backing;
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	__cleanup_free char *path = malloc(COMMIT_PATH_MAX);
	int err = path ? AS_OWNER(l->cp, dirwalk_begin(&w, b, pin)) : -ENOMEM;
	bool empty = true;

	while (!err && rules_next_visible(&w)) {
		empty = false;
		if (snprintf(path, COMMIT_PATH_MAX, "%s%s%s", rel, *rel ? "/" : "", w.name) >=
		    COMMIT_PATH_MAX)
			err = -ENAMETOOLONG;
		else
			err = list_one(l, w.fd, w.name, w.ino, path);
	}
	/* Without it the rest of the directory would not be part of the checkpoint. */
	err = err ? err : w.err;
	if (!err && *rel)
		err = backing_sync(b, w.fd, false);
	if (!err && empty && *rel)
		err = add(l, &(struct commit_entry){.kind = COMMIT_IS_DIRECTORY, .path = rel});
	return err;
}

/* --- the commit file --- */

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

/* (O3) */
static int write_commit_file(struct listing *l, const struct commit_header *header)
{
	struct checkpoint *cp = l->cp;
	struct backing *b = cp->units->contents->backing;
	__cleanup_free struct file_writer *f = malloc(sizeof(*f));
	bool created;
	int err;

	if (!f)
		return -ENOMEM;
	*f = (struct file_writer){.b = b};
	err = AS_OWNER(cp, backing_unlink(b, cp->fd, COMMIT_FILE, false)); /* of an earlier try */
	if (err && err != -ENOENT)
		return err;
	f->fd = AS_OWNER(
		cp, backing_create(b, cp->fd, COMMIT_FILE, O_RDWR | O_EXCL, COMMIT_MODE, &created));
	if (f->fd < 0)
		return f->fd;
	err = write_entries(l, header, f);
	if (!err && !FAULT(COMMIT_FILE_UNSYNCED))
		err = backing_sync(b, f->fd, false);
	close(f->fd);
	return err;
}

/* The commit file is no change that a program made. */
static int put_into_staging(struct listing *l, const struct commit_header *header)
{
	struct checkpoint *cp = l->cp;
	struct backing *b = cp->units->contents->backing;
	struct statx stx;
	int err = backing_stat(b, cp->fd, &stx);

	if (!err)
		err = write_commit_file(l, header);
	if (!err) {
		struct timespec times[2] = {
			{.tv_nsec = UTIME_OMIT},
			{.tv_sec = stx.stx_mtime.tv_sec, .tv_nsec = stx.stx_mtime.tv_nsec},
		};

		err = AS_OWNER(cp, backing_utimens(b, cp->fd, times));
	}
	return err || FAULT(DIRECTORY_UNSYNCED) ? err : backing_sync(b, cp->fd, false);
}

/* --- its place among those beside it --- */

static ssize_t read_header_bytes(void *opened, void *buf, size_t len, uint64_t off)
{
	return read_opened(opened, buf, len, off);
}

/* Of the unit @name in @dir; 0: it has none. */
static uint64_t sequence_of(struct checkpoint *cp, int dir, const char *name)
{
	struct backing *b = cp->units->contents->backing;
	struct opened o = {.b = b, .fd = -1};
	struct source src = {.read = read_header_bytes, .arg = &o};
	struct commit_header h;
	struct error e;
	uint64_t sequence = 0;
	int unit = AS_OWNER(cp, backing_pin(b, dir, name)), pin;

	pin = unit < 0 ? unit : AS_OWNER(cp, backing_pin(b, unit, COMMIT_FILE));
	if (pin >= 0)
		o.fd = AS_OWNER(cp, backing_reopen(b, pin, O_RDONLY | O_NONBLOCK));
	if (o.fd >= 0 && !commit_read_header(&src, name, &h, &e))
		sequence = h.sequence;
	if (o.fd >= 0)
		close(o.fd);
	if (pin >= 0)
		close(pin);
	if (unit >= 0)
		close(unit);
	return sequence;
}

/* The largest that can be seen beside it. */
static uint64_t last_sequence(struct checkpoint *cp)
{
	struct backing *b = cp->units->contents->backing;
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	uint64_t last = 0, one;

	(void)AS_OWNER(cp, dirwalk_begin(&w, b, cp->target.dir));
	while (rules_next_visible(&w)) {
		if (w.type != DT_DIR && w.type != DT_UNKNOWN)
			continue;
		one = sequence_of(cp, w.fd, w.name);
		last = one > last ? one : last;
	}
	return last;
}

/*
 * Its path below the backing, by which recovery finds it. That for people, @path, is not exact, and need not be known
 * any more.
 */
static void unit_path(struct checkpoint *cp, const char *path, char *buf, size_t size)
{
	size_t len;

	if (backing_path_below(cp->units->contents->backing, cp->target.dir, buf, size)) {
		snprintf(buf, size, "%s", path);
		return;
	}
	len = strlen(buf);
	if (len + strlen(cp->target.name) + 2 > size)
		snprintf(buf, size, "%s", path);
	else
		snprintf(buf + len, size - len, "%s%s", len ? "/" : "", cp->target.name);
}

static int fill_header(struct checkpoint *cp, const char *path, struct commit_header *h)
{
	struct list *l;
	int world = 0;

	memset(h, 0, sizeof(*h));
	unit_path(cp, path, h->unit, sizeof(h->unit));
	snprintf(h->generation, sizeof(h->generation), "%s", cp->staging + strlen(STAGING_PREFIX));
	snprintf(h->job, sizeof(h->job), "%s", cp->maker->key);
	h->committed_ns = clock_wall_ns();
	h->sequence = last_sequence(cp) + 1;
	LOCK_SCOPE(&cp->units->lock);
	list_for_each (l, &cp->participants) {
		struct process *p = container_of(l, struct participant, link)->process;

		world = p->world > world ? p->world : world;
	}
	h->ranks = world ? (unsigned)world : 1;
	h->nodes = accord_nodes(cp);
	if (cp->done >= 0)
		rule_evidence(cp->rule, cp->done, h->done, sizeof(h->done));
	else
		snprintf(h->done, sizeof(h->done), "%s", cp->asked ? "asked" : "last close");
	return 0;
}

/* --- all of it --- */

/* What is known of tensors in files that are as they were. */
static int inherit_tensors(struct listing *l)
{
	struct checkpoint *cp = l->cp;
	struct backing *b = cp->units->contents->backing;
	__cleanup_fd int old = -1;

	if (!cp->inherits)
		return 0;
	old = AS_OWNER(cp, backing_pin(b, cp->target.dir, cp->target.name));
	if (old < 0)
		return 0; /* it is a new one after all */
	return AS_OWNER(cp, shards_inherit(&l->shards, b, old, l->entries, l->nr));
}

/* Is it a checkpoint? An ordinary directory, if nothing is left of the committed one, and nothing tells of another. */
static int judge(struct listing *l)
{
	struct checkpoint *cp = l->cp;

	if (!l->files && !cp->follows)
		return -ENODATA;
	cp->ordinary = cp->follows && (!l->files || (!cp->nr_shared && !cp->rule));
	if (!cp->ordinary)
		return 0;
	following_release(cp); /* it is committed at no time */
	return cp->may_be_ordinary ? 0 : -ECANCELED;
}

/* For one that nobody changes any more. @step: what is being done, for the message, unless @e has one. */
static int commit(struct checkpoint *cp, const char *path, const char **step, struct error *e)
{
	struct units *us = cp->units;
	struct listing l = {.cp = cp, .path = path, .e = e};
	struct commit_header *header = malloc(sizeof(*header));
	int err = header ? 0 : -ENOMEM;

	*step = "listing its files";
	if (!err)
		err = accord_gather(cp, e);
	if (!err)
		err = checkpoint_take_filed(cp, &l.filed, &l.nr_filed);
	if (!err)
		err = rivals_take(cp, &l.rivals, &l.nr_rivals);
	l.shards.unknown = cp->nr_told > SHARDS_MAX;
	if (!err) {
		qsort(l.filed, l.nr_filed, sizeof(*l.filed), by_inode);
		rivals_sort(l.rivals, l.nr_rivals);
		err = list_directory(&l, cp->fd, "");
	}
	if (!err)
		err = judge(&l);
	if (!err) {
		if (l.nr)
			qsort(l.entries, l.nr, sizeof(*l.entries), by_path);
		LOCK_SCOPE(&us->lock);
		cp->flushed_ns = clock_mono_ns();
		cp->size = l.bytes;
	}
	if (!err)
		err = inherit_tensors(&l);
	if (!err)
		err = fill_header(cp, path, header);
	if (!err && cp->ordinary) {
		err = backing_sync(us->contents->backing, cp->fd, false);
	} else if (!err) {
		*step = "writing its commit file";
		err = put_into_staging(&l, header);
	}
	if (!err) {
		following_prepare(cp);
		err = AS_OWNER(cp, backing_sync_dir(us->contents->backing, cp->target.dir));
		if (!err)
			err = above_sync(us, &cp->owner, cp->target.dir);
	}
	if (!err) {
		{
			LOCK_SCOPE(&us->lock);
			checkpoint_set_state(cp, GENERATION_NAMING);
		}
		*step = "recording the decision";
		cp->decided = true;
		if (cp->following)
			cp->following->recorded = true;
		if (FAULT(PUBLISHED_FIRST))
			replace_target(cp);
		err = decision_record(cp, header->unit,
				      cp->following ? &cp->following->order : NULL);
	}
	if (!err) {
		*step = "giving it its name";
		err = replace_target(cp);
	}
	if (!err)
		following_point(cp);
	finish(&l);
	free(header);
	return err;
}

static bool try_again(struct checkpoint *cp, int err)
{
	struct units *us = cp->units;
	/* What all nodes agree by may be away for longer than a write may fail. */
	bool outage = err == -EHOSTDOWN && us->commit_ns > us->retry_ns;
	uint64_t now = clock_mono_ns();
	uint64_t patience = outage ? us->commit_ns : flush_patience_ns(err, us->retry_ns);
	bool late = cp->failing_ns && now - cp->failing_ns > patience;

	if (!flush_error_may_pass(err) || us->ending)
		return false;
	if (late && !(room_is_short(err) && room_for_checkpoint(cp, &cp->shortage)))
		return false;
	LOCK_SCOPE(&us->lock);
	if (!cp->failing_ns || late) {
		cp->failing_ns = now;
		cp->pause_ns = FIRST_PAUSE_NS;
	}
	cp->again_ns = now + cp->pause_ns;
	cp->pause_ns = cp->pause_ns < MOST_PAUSE_NS ? cp->pause_ns * 2 : MOST_PAUSE_NS;
	return true;
}

/* @cp is COMMITTING, by this thread alone. */
static void work_on(struct checkpoint *cp)
{
	struct units *us = cp->units;
	char path[PATH_MAX], text[MESSAGE_MAX];
	struct error e = {0};
	const char *step = "";
	bool again;
	int err;

	checkpoint_path(cp, path, sizeof(path));
	err = commit(cp, path, &step, &e);
	if (!err) {
		{
			LOCK_SCOPE(&us->lock);
			free(cp->path);
			cp->path = strdup(path);
			cp->err = 0; /* what became of its job meanwhile comes too late */
			cp->reason[0] = '\0';
			checkpoint_end_locked(cp, cp->ordinary ? GENERATION_DROPPED
							       : GENERATION_COMMITTED);
			removals_committed_locked(us, cp);
			if (!cp->ordinary)
				wrecks_outlived_locked(us, cp);
		}
		accord_has_name(cp);
		log_debug("'%s' is %s", path, cp->ordinary ? "an ordinary directory" : "committed");
		if (following_remove(cp))
			decision_forget(cp);
		else
			accord_followed(cp, false);
		backing_unlock(cp->fd);
		return;
	}
	if (accord_has_refused(cp)) {
		following_release(cp);
		checkpoint_give_back(cp);
		return;
	}
	again = try_again(cp, err);
	if (!again || !cp->following || !cp->following->recorded)
		following_release(cp);
	if (!us->ending && !again) {
		if (err == -EBUSY)
			MESSAGE(text, PUBLISH_CONFLICT, path, cp->staging);
		else if (err == -ECANCELED && cp->ordinary)
			MESSAGE(text, REMOVAL_KEPT, path);
		else if (err == -EILSEQ && e.err)
			memcpy(text, e.text, sizeof(text));
		else
			MESSAGE(text, COMMIT_FAILED, path, step, strerror(-err), path);
		checkpoint_fail(cp, err, text);
	}
	checkpoint_give_back(cp);
}

/* Is one that ended before it, in the same directory, still to be committed? */
static bool must_wait_locked(struct checkpoint *cp)
{
	struct list *l;

	list_for_each (l, &cp->units->checkpoints) {
		struct checkpoint *o = container_of(l, struct checkpoint, link);

		if (o == cp || !same_inode(&o->target.dir_id, &cp->target.dir_id))
			continue;
		if (checkpoint_is_held_locked(o) ||
		    (o->state == GENERATION_SEALED && o->closed_ns < cp->closed_ns))
			return true;
	}
	if (removal_is_applied_locked(cp->units, &cp->target.dir_id, cp->target.name))
		return true;
	return !following_rests_locked(cp);
}

/* The next one to commit, or NULL. */
static struct checkpoint *choose_locked(struct units *us)
{
	uint64_t now = clock_mono_ns();
	struct list *l;

	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		checkpoint_look_for_end_locked(cp);
		if (cp->state == GENERATION_SEALED && cp->again_ns <= now &&
		    checkpoint_is_flushed_locked(cp) && accord_may_commit(cp) &&
		    !must_wait_locked(cp))
			return cp;
	}
	return NULL;
}

void *committer_main(void *units)
{
	struct units *us = units;

	lock_take(&us->lock);
	while (!us->ending) {
		struct checkpoint *cp = choose_locked(us);

		if (!cp && (missing_work_locked(us) || held_work_locked(us) ||
			    removals_work_locked(us) || pointers_work_locked(us) || held_ask(us)))
			continue;
		if (!cp) {
			units_wait_for_commits_locked(us);
			continue;
		}
		checkpoint_set_state(cp, GENERATION_COMMITTING);
		cp->refs++;
		following_take_locked(cp);
		lock_drop(&us->lock);
		creds_on_behalf(&cp->owner);
		work_on(cp);
		creds_on_behalf(NULL);
		checkpoint_put(cp);
		lock_take(&us->lock);
	}
	lock_drop(&us->lock);
	return NULL;
}
