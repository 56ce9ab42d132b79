/* SPDX-License-Identifier: MIT */
#include "fs/data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "client/ckptfs_abi.h"
#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/wait.h"
#include "engine/cache/cache.h"
#include "engine/calls/directory.h"
#include "engine/calls/file.h"
#include "engine/capture/capture.h"
#include "engine/cluster/other_nodes.h"
#include "engine/content/content.h"
#include "engine/liveness/writer.h"
#include "fs/late_call.h"
#include "fs/route.h"
#include "fs/unclaimed.h"

/* A smaller ordinary write costs the backing's page cache no more than it costs this cache. */
#define BULK_MIN ((size_t)256 << 10)

/* Retries at a full backing, 200 ms in all. Too short: ENOSPC right after a removal. */
#define FULL_NAPS   100
#define FULL_NAP_NS (2 * NSEC_PER_MSEC)

/* With less room than this, each write asks the backing; an answer counts for ROOM_VALID_NS. */
#define ROOM_MARGIN   ((int64_t)64 << 20)
#define ROOM_VALID_NS (1 * NSEC_PER_SEC)

ssize_t data_read(struct fs *fs, const struct caller *c, struct handle *h, void *buf, size_t size,
		  off_t off)
{
	struct backing b = fs_for(fs, c);
	struct content *ct;
	ssize_t n = late_call_wait(fs->tree, h->node);

	if (n)
		return n;
	ct = route_content(fs, h->node);
	if (ct && (content_is_staged(ct) || content_serves_reads(ct)))
		n = content_read(ct, h->fd, buf, size, (uint64_t)off);
	else
		n = backing_read(&b, h->fd, buf, size, off);
	content_put(ct);
	return n;
}

size_t data_pin(struct fs *fs, struct handle *h, size_t size, off_t off, struct content_pins *p)
{
	struct content *ct = route_content(fs, h->node);
	size_t n = 0;

	if (ct && !late_call_wait(fs->tree, h->node))
		n = content_pin(ct, size, (uint64_t)off, p);
	if (!n)
		content_put(ct);
	return n;
}

void data_unpin(struct content_pins *p)
{
	content_unpin(p);
	content_put(p->content);
}

/* --- to the backing --- */

/*
 * True if a full backing may have room again; may wait for that. *err becomes -EINTR if the call
 * was given up.
 */
static bool may_get_room(struct fs *fs, struct handle *h, struct shortage *s, int *err)
{
	int room = fs->engine->units && room_is_short(*err)
			   ? room_await(fs->engine->units, NULL, NULL, h->generation, s)
			   : *err;

	if (room == -EINTR)
		*err = room;
	return !room;
}

/*
 * Retries on a full backing before that counts: space that a program frees is there for its next
 * write, although the kernel reports closed and forgotten files a moment later. The bytes written;
 * *err is why that is not all.
 */
static size_t write_patiently(struct fs *fs, struct backing *b, struct handle *h, const char *data,
			      size_t size, off_t off, int rwf, int *err)
{
	struct shortage shortage = {0};
	size_t done = 0;
	int naps = 0;

	do {
		ssize_t n =
			backing_write(b, h->fd, data + done, size - done, off + (off_t)done, rwf);

		*err = n < 0 ? (int)n : 0;
		if (n > 0)
			shortage = (struct shortage){0};
		if (n >= 0)
			done += (size_t)n;
		else if (room_is_short(*err) && naps++ < FULL_NAPS)
			wait_ns(FULL_NAP_NS);
		else if (may_get_room(fs, h, &shortage, err))
			naps = 0;
		else
			break;
	} while (done < size);
	return done;
}

/* Writes as the caller, so that the backing clears suid bits and counts quota. */
static ssize_t write_through(struct fs *fs, const struct caller *c, struct handle *h,
			     struct content *ct, const char *data, size_t size, off_t off, int rwf)
{
	struct backing b = fs_as(fs, c);
	int err = ct ? content_begin_write(ct) : 0;
	size_t done = 0;

	if (err)
		return err;
	/* An append must find the end. */
	if (ct && (rwf & RWF_APPEND || content_covers(ct, (uint64_t)off, size)))
		err = content_settle(ct);
	if (!err) {
		done = write_patiently(fs, &b, h, data, size, off, rwf, &err);
	}
	if (ct && done && rwf & RWF_APPEND)
		content_reload(ct, 0, UINT64_MAX);
	else if (ct && done)
		content_wrote_past(ct, (uint64_t)off, done);
	if (ct)
		content_end_write(ct);
	return err && !done ? err : (ssize_t)done;
}

/* --- into the cache --- */

/* True if the backing has room for @size more bytes, as far as is known without asking. */
static bool has_room(struct fs *fs, const struct caller *c, struct handle *h, size_t size)
{
	struct backing b = fs_for(fs, c);
	uint64_t now = clock_mono_ns();
	struct statvfs sv;
	int64_t room;

	if (now - atomic_load(&fs->room_asked_ns) < ROOM_VALID_NS &&
	    atomic_fetch_sub(&fs->room_left, (int64_t)size) > ROOM_MARGIN)
		return true;
	if (backing_statfs(&b, h->fd, &sv))
		return false;
	room = (int64_t)(sv.f_bavail * sv.f_frsize) -
	       (int64_t)cache_unflushed_bytes(fs->engine->cache) - (int64_t)size;
	atomic_store(&fs->room_left, room);
	atomic_store(&fs->room_asked_ns, now);
	return room > ROOM_MARGIN;
}

static bool has_suid(struct backing *b, struct handle *h)
{
	struct statx stx;

	return backing_stat(b, h->fd, &stx) || stx.stx_mode & (S_ISUID | S_ISGID);
}

static bool is_passthrough(struct fs *fs, const struct node *n)
{
	LOCK_SCOPE(tree_lock(fs->tree));
	return n->io_mode == IO_PASSTHROUGH;
}

/* Makes an ordinary file known to the cache, at its first large write. NULL: write through. */
static struct content *begin_caching(struct fs *fs, const struct caller *c, struct handle *h)
{
	struct backing b = fs_for(fs, c);
	struct inode_id id = node_inode(h->node);
	struct content *ct = NULL;
	struct statx stx;
	int fd;

	if (!fs->engine->contents || has_suid(&b, h) || is_passthrough(fs, h->node) ||
	    backing_stat(&b, h->fd, &stx))
		return NULL;
	fd = backing_dup(&b, h->fd);
	if (fd >= 0)
		ct = content_create(fs->engine->contents, fd, &id, stx.stx_size, c, false);
	return ct;
}

/*
 * True if the cache takes this write, as far as the write alone tells. O_DIRECT asks for no copy in
 * the page cache, and says nothing of durability. So a checkpoint's file goes through the cache of
 * the mount even then, aligned or not, and its writer does not wait for the storage.
 */
static bool cacheable(struct fs *fs, const struct caller *c, struct handle *h, size_t size, int rwf)
{
	int around = h->generation ? O_APPEND : O_DIRECT | O_APPEND;

	return fs->engine->contents && !rwf && !(h->flags & around) && has_room(fs, c, h, size);
}

/* The key for a writer whose process is not known: stands for the holder of @h. */
static uint64_t handle_key(const struct handle *h)
{
	return ~h->id;
}

/* What a change of an open file has to report when it is done. */
struct change {
	struct generation *generation;
	struct checkpoint *checkpoint;
	bool published; /* it has its name, or is durable in its checkpoint */
};

/* Call before process @key (0: unknown) writes to @h. After 0 the caller calls end_change. */
static int begin_change(struct fs *fs, const struct caller *caller, struct handle *h, uint64_t key,
			struct change *c)
{
	struct generation *g = h->generation;
	struct checkpoint *cp;
	int err = 0;

	*c = (struct change){.generation = g};
	if (!g)
		return 0;
	cp = generation_checkpoint(g);
	err = generation_write(g, key ? key : handle_key(h));
	if (err != -EEXIST)
		return err;
	*c = (struct change){.published = true};
	err = cp ? checkpoint_enter_open(cp) : -EEXIST;
	if (!err)
		c->checkpoint = cp;
	else if (err != -EEXIST)
		return err;
	route_drop_record(fs, caller, h->fd);
	return 0;
}

static void end_change(const struct change *c)
{
	if (c->generation)
		generation_changed(c->generation);
	if (c->checkpoint)
		checkpoint_leave(c->checkpoint);
}

ssize_t data_write(struct fs *fs, const struct caller *c, struct handle *h, uint64_t key,
		   const char *data, size_t size, off_t off, int rwf)
{
	struct content *ct;
	struct change change;
	bool cached;
	ssize_t n;

	/* A thread does not wait while its request holds a part of the cache. */
	if (late_call_any(fs->tree, h->node->id) ||
	    (h->generation && !generation_is_open(h->generation)))
		request_copy_out();
	n = late_call_settle(fs->tree, h->node);
	if (!n)
		n = begin_change(fs, c, h, key, &change);
	if (n)
		return n;
	ct = route_content(fs, h->node);
	cached = cacheable(fs, c, h, size, rwf) && !change.published;
	if (cached && !ct && size >= BULK_MIN) {
		ct = begin_caching(fs, c, h);
		if (ct && !h->content) {
			content_get(ct);
			h->content = ct; /* the kernel sends one write at a time to an inode */
		}
	}
	if (cached && ct && !content_is_staged(ct) && size < BULK_MIN)
		cached = content_covers(ct, (uint64_t)off, size);
	if (cached && ct && !is_passthrough(fs, h->node)) {
		bool landed = request_take_landed(ct);

		if (!landed)
			unclaimed_notice(fs, c, h, data, size, off);
		n = landed ? (ssize_t)size : content_write(ct, data, size, (uint64_t)off);
		if (n == (ssize_t)size && size >= BULK_MIN)
			requests_expect(fs->requests, ct, (uint64_t)off + size);
	} else {
		request_copy_out();
		unclaimed_notice(fs, c, h, data, size, off);
		n = write_through(fs, c, h, ct, data, size, off, rwf);
	}
	if (n < 0 && n != -EINTR && n != -EINVAL && ct && content_is_staged(ct) &&
	    !change.published)
		content_fail(ct, (int)n); /* a program may ignore this; its file is not whole */
	content_put(ct);
	end_change(&change);
	return n;
}

/*
 * Has the kernel write back and forget its pages of what is to be captured: they are older. That
 * waits for requests that carry pages, so it comes before the promise of bytes, which they would
 * wait for.
 */
static void forget_pages(struct fs *fs, const struct node *n, const struct ckptfs_write *w)
{
	uint64_t from = INT64_MAX, to = 0;
	unsigned i;

	for (i = 0; i < w->nr && i < CKPTFS_WRITES_MAX; i++) {
		const struct ckptfs_capture *c = &w->captures[i];

		if (c->file_off > INT64_MAX || c->len > (uint64_t)INT64_MAX - c->file_off)
			continue; /* captures_write refuses it */
		from = c->file_off < from ? c->file_off : from;
		to = c->file_off + c->len > to ? c->file_off + c->len : to;
	}
	if (from < to)
		fuse_lowlevel_notify_inval_inode(fs->session, n->id, (off_t)from,
						 (off_t)(to - from));
}

int data_capture(struct fs *fs, const struct caller *c, struct handle *h,
		 const struct ckptfs_write *w)
{
	int err;

	if ((h->flags & O_ACCMODE) == O_RDONLY)
		return -EBADF;
	if (!h->generation || h->flags & O_APPEND)
		return -EOPNOTSUPP;
	err = late_call_settle(fs->tree, h->node);
	if (err)
		return err;
	atomic_store(&h->written, true);
	forget_pages(fs, h->node, w);
	err = captures_write(fs->engine->captures, c->uid, h->generation, handle_key(h), w);
	if (!err)
		fuse_lowlevel_notify_inval_inode(fs->session, h->node->id, -1, 0); /* its size */
	return err;
}

/* The bytes written; *err is why that is not all. */
static size_t write_pages_through(struct fs *fs, struct handle *h, struct content *ct,
				  const char *data, size_t size, off_t off, int *err)
{
	size_t done = 0;

	*err = ct ? content_begin_write(ct) : 0;
	if (*err)
		return 0;
	if (ct && content_covers(ct, (uint64_t)off, size))
		*err = content_settle(ct);
	if (!*err)
		done = write_patiently(fs, &fs->engine->backing, h, data, size, off, 0, err);
	if (ct && done)
		content_wrote_past(ct, (uint64_t)off, done);
	if (ct)
		content_end_write(ct);
	return done;
}

ssize_t data_write_pages(struct fs *fs, struct handle *h, const char *data, size_t size, off_t off)
{
	struct content *ct;
	struct change change;
	size_t done = 0;
	ssize_t n;
	int err;

	if (request_is_behind())
		late_call_wait_out(fs->tree, h->node); /* late writes may hold older pages */
	err = begin_change(fs, NULL, h, 0, &change);
	if (err)
		return err;
	ct = route_content(fs, h->node);
	if (ct && !change.published &&
	    (content_is_staged(ct) || content_covers(ct, (uint64_t)off, size))) {
		n = content_write(ct, data, size, (uint64_t)off);
		done = n < 0 ? 0 : (size_t)n;
		err = n < 0 ? (int)n : 0;
	} else {
		done = write_pages_through(fs, h, ct, data, size, off, &err);
	}
	if (done < size && !err)
		err = -EIO;
	if (err && ct && content_is_staged(ct) && !change.published)
		content_fail(ct, err); /* no program may ever ask about these pages */
	content_put(ct);
	end_change(&change);
	return done == size ? (ssize_t)size : err;
}

/* --- close --- */

/* Reports how the process ends, if it ends, that closes a descriptor of a unit's file. */
static void note_exit(struct handle *h, uint64_t key, pid_t pid)
{
	struct writer_end end;

	accord_show_size(h->generation);
	end = writer_judge(pid);
	generation_closed(h->generation, key, end);
	generation_flushed(h->generation, handle_key(h), end);
}

/* Closes a unit's file: reports errors only; if durability was asked for, waits for its name. */
static int close_unit(struct handle *h)
{
	struct generation *g = h->generation;

	if (generation_asked_durable(g) || content_error(generation_content(g)))
		return generation_wait(g);
	return 0;
}

void data_note_exit(struct fs *fs, uint64_t fh, uint64_t key, pid_t pid)
{
	struct handle *h = handle_get(fs->tree, fh);

	if (!h)
		return;
	if (h->generation)
		note_exit(h, key, pid);
	finish_handle(fs, h);
}

int data_close(struct fs *fs, const struct caller *c, struct handle *h, uint64_t key)
{
	struct backing b = fs_as(fs, c);
	struct content *ct;
	int err;

	if (h->generation)
		note_exit(h, key, c->pid); /* at once, before the process is gone */
	err = late_call_settle(fs->tree, h->node);
	if (h->generation)
		return err ? err : close_unit(h);
	if (err || !atomic_exchange(&h->written, false))
		return err;
	ct = route_content(fs, h->node);
	if (ct)
		err = content_write_back(ct);
	if (err && err != -EINTR)
		content_error_told(ct);
	content_put(ct);
	return err ? err : backing_write_back(&b, h->fd);
}

/* --- around the cache --- */

int data_begin(struct fs *fs, struct node *n, struct data_span *s)
{
	int err = late_call_wait(fs->tree, n);

	*s = (struct data_span){.content = err ? NULL : route_content(fs, n)};
	if (s->content)
		err = content_settle(s->content);
	if (err)
		data_end(s, 0, 0);
	return err;
}

/*
 * Enters the checkpoint of @n, whose bytes no program writes through the cache right now. @h: the
 * handle that writes it, or NULL.
 */
static int enter_checkpoint(struct fs *fs, struct node *n, struct handle *h, struct data_span *s)
{
	char rel[PATH_MAX];
	struct checkpoint *cp = h && h->generation ? generation_checkpoint(h->generation) : NULL;
	int err;

	if (cp) {
		checkpoint_get(cp);
		err = checkpoint_enter_open(cp);
	} else {
		cp = tree_checkpoint(fs->tree, n, NULL, rel, sizeof(rel));
		err = cp ? checkpoint_enter(cp, NULL) : -EEXIST;
	}
	if (!err) {
		s->checkpoint = cp;
		return 0;
	}
	checkpoint_put(cp);
	return err == -EEXIST ? 0 : err;
}

int data_begin_change(struct fs *fs, const struct caller *c, struct node *n, struct handle *h,
		      int fd, struct data_span *s)
{
	struct inode_id id = node_inode(n);
	int err = data_begin(fs, n, s);

	if (err)
		return err;
	s->generation = fs->engine->units ? units_find_inode(fs->engine->units, &id) : NULL;
	if (s->generation)
		err = h ? generation_write(s->generation, handle_key(h))
			: generation_change(s->generation);
	if (!s->generation || err) {
		generation_put(s->generation);
		s->generation = NULL;
	}
	if (err == -EEXIST)
		err = 0;
	if (!err && !s->generation)
		err = enter_checkpoint(fs, n, h, s);
	if (!err && !s->generation)
		route_drop_record(fs, c, fd);
	if (!err && s->content)
		err = content_settle(s->content);
	if (err)
		data_end(s, 0, 0);
	return err;
}

void data_end(struct data_span *s, uint64_t off, uint64_t len)
{
	if (s->content && len)
		content_reload(s->content, off, len);
	content_put(s->content);
	if (s->generation)
		generation_changed(s->generation);
	generation_put(s->generation);
	if (s->checkpoint)
		checkpoint_leave(s->checkpoint);
	checkpoint_put(s->checkpoint);
	*s = (struct data_span){.content = NULL};
}

int data_truncate(struct fs *fs, const struct caller *c, struct node *n, uint64_t size)
{
	struct backing b = fs_for(fs, c);
	struct inode_id id = node_inode(n);
	struct content *ct = route_content(fs, n);
	struct generation *g =
		ct && content_is_staged(ct) ? units_find_inode(fs->engine->units, &id) : NULL;
	int err = -ENOTSUP;

	if (g) {
		err = generation_change(g);
		if (!err) {
			err = content_truncate(ct, &b, size);
			generation_changed(g);
		} else if (err == -EEXIST) {
			err = -ENOTSUP;
		}
	}
	generation_put(g);
	content_put(ct);
	return err;
}
