/* SPDX-License-Identifier: MIT */
#include "fs/open.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/list.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/base/message.h"
#include "engine/base/wait.h"
#include "engine/content/content.h"
#include "fs/route.h"
#include "fs/wire.h"

/* A change this soon after another may get the same time stamp. Too short: stale pages are used. */
#define TIMESTAMP_DOUBT_NS (2 * NSEC_PER_SEC)

/*
 * How often, and how far apart, an open checks whether a closed writer is gone. Too short: the
 * reader cannot map the file.
 */
#define CLOSE_NAPS   50
#define CLOSE_NAP_NS NSEC_PER_MSEC

static bool writes(const struct handle *h)
{
	return (h->flags & O_ACCMODE) != O_RDONLY;
}

/*
 * Registers @fd with the kernel as a backing file. If none was accepted yet, a refusal (but for
 * lack of memory) turns passthrough off for the mount. The kernel's number for it, or 0.
 */
static int register_backing(struct fs *fs, int fd)
{
	struct features *f = fs->engine->backing.features;
	struct wire_backing_map map = {.fd = fd};
	int id;

	if (!requests_negotiated(fs->requests).passthrough ||
	    !(feature(f, FEATURE_PASSTHROUGH) || feature_untried(f, FEATURE_PASSTHROUGH)))
		return 0;
	id = ioctl(fuse_session_fd(fs->session), WIRE_DEV_IOC_BACKING_OPEN, &map);
	if (id > 0) {
		if (!feature(f, FEATURE_PASSTHROUGH))
			features_set(f, FEATURE_PASSTHROUGH, true);
		return id;
	}
	if (id < 0 && errno != ENOMEM && !feature(f, FEATURE_PASSTHROUGH)) {
		char text[MESSAGE_MAX];

		MESSAGE(text, PASSTHROUGH_OFF, strerror(errno));
		log_info("%s", text);
		features_set(f, FEATURE_PASSTHROUGH, false);
	}
	return 0;
}

static void unregister_backing(struct fs *fs, int id)
{
	uint32_t number = (uint32_t)id;

	if (id > 0 && ioctl(fuse_session_fd(fs->session), WIRE_DEV_IOC_BACKING_CLOSE, &number))
		log_debug("closing backing file %d: %m", id);
}

/* The mode of a node's first open. @backing_id: 0 without passthrough. */
static enum io_mode first_choice(struct fs *fs, const struct handle *h, int backing_id,
				 bool in_cache)
{
	/* What the mount's cache has needs no second copy in the kernel's. */
	if (!writes(h) && in_cache && requests_negotiated(fs->requests).direct_mmap)
		return IO_DIRECT;
	if (!writes(h))
		return backing_id ? IO_PASSTHROUGH : IO_CACHED;
	/* A shared mapping needs the page cache, if the kernel cannot map direct I/O. */
	if ((h->flags & O_ACCMODE) == O_RDWR && !requests_negotiated(fs->requests).direct_mmap)
		return IO_CACHED;
	return IO_DIRECT;
}

/* True if all opens but @h are of writers that have closed their descriptors. */
static bool only_closed_locked(const struct node *n, const struct handle *h)
{
	unsigned nr_closed = 0;
	struct list *l;

	list_for_each (l, &n->handles) {
		const struct handle *other = container_of(l, struct handle, link);

		if (other == h || !writes(other))
			continue;
		if (atomic_load(&other->written))
			return false;
		nr_closed++;
	}
	return nr_closed >= n->nr_opens;
}

/*
 * If the kernel cannot map a file that is open directly, a reader waits for writers that have
 * closed it: the kernel waits for the FLUSH of a close, but not for its RELEASE.
 */
static void await_release(struct fs *fs, const struct handle *h)
{
	int naps;

	if (requests_negotiated(fs->requests).direct_mmap || (h->flags & O_ACCMODE) == O_WRONLY)
		return;
	for (naps = 0; naps < CLOSE_NAPS; naps++) {
		{
			LOCK_SCOPE(tree_lock(fs->tree));
			if (h->node->io_mode != IO_DIRECT || !only_closed_locked(h->node, h))
				return;
		}
		wait_ns(CLOSE_NAP_NS);
	}
}

static uint64_t stamp(struct statx_timestamp t)
{
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + t.tv_nsec;
}

/* True if cached pages of an earlier open are good. Remembers the version of new ones. */
static bool pages_still_good_locked(struct node *n, const struct statx *stx)
{
	uint64_t mtime = stamp(stx->stx_mtime), ctime = stamp(stx->stx_ctime);
	bool same = n->seen_mtime_ns == mtime && n->seen_ctime_ns == ctime &&
		    n->seen_size == stx->stx_size;
	bool settled = clock_wall_ns() > ctime + TIMESTAMP_DOUBT_NS;

	/* Only pages that are read after the doubtful time are certain to be of this version. */
	n->seen_mtime_ns = settled ? mtime : 0;
	n->seen_ctime_ns = settled ? ctime : 0;
	n->seen_size = stx->stx_size;
	return same && settled;
}

/*
 * Puts what the cache knows of the file over @stx; @h keeps that content, even without a name. True
 * if the cache has bytes that the backing has not.
 */
static bool ask_cache(struct fs *fs, struct handle *h, struct statx *stx)
{
	struct content *ct = route_content(fs, h->node);

	if (!ct)
		return false;
	content_refresh(ct);
	content_overlay(ct, stx);
	if (h->content)
		content_put(ct);
	else
		h->content = ct;
	return content_serves_reads(h->content);
}

void open_begin(struct fs *fs, struct handle *h, const struct statx *backing_stx,
		struct fuse_file_info *fi)
{
	struct statx stx = *backing_stx;
	struct node *n = h->node;
	struct lock *lock = tree_lock(fs->tree);
	int id = 0, spare = 0;
	enum io_mode mode;
	bool register_it, in_cache;

	await_release(fs, h);
	in_cache = ask_cache(fs, h, &stx);
	{
		LOCK_SCOPE(lock);
		register_it = n->io_mode == IO_NONE && !writes(h) && !in_cache;
	}
	/* The kernel opens the backing with the caller's flags: not with a refused O_DIRECT. */
	if (h->flags & O_DIRECT && !(fcntl(h->fd, F_GETFL) & O_DIRECT))
		register_it = false;
	if (register_it)
		id = register_backing(fs, h->fd);
	{
		LOCK_SCOPE(lock);
		if (n->io_mode == IO_NONE) {
			n->io_mode = first_choice(fs, h, id, in_cache);
			n->backing_id = n->io_mode == IO_PASSTHROUGH ? id : 0;
		}
		if (id != n->backing_id)
			spare = id; /* another open was quicker, and decided */
		mode = n->io_mode;
		id = n->backing_id;
		n->nr_opens++;
		fi->keep_cache = mode == IO_CACHED && pages_still_good_locked(n, &stx);
	}
	unregister_backing(fs, spare);
	fi->direct_io = mode == IO_DIRECT || (mode == IO_PASSTHROUGH && writes(h));
	fi->noflush = !writes(h) &&
		      !h->generation; /* no bytes to write back, and no writer's death to see */
	if (mode == IO_PASSTHROUGH) {
		requests_open_extra(WIRE_FOPEN_PASSTHROUGH, id);
		atomic_fetch_add(&fs->engine->metrics.passthrough_opens, 1);
	}
}

void open_end(struct fs *fs, struct node *n)
{
	int id = 0;
	{
		LOCK_SCOPE(tree_lock(fs->tree));
		if (--n->nr_opens == 0) {
			id = n->backing_id;
			n->backing_id = 0;
			n->io_mode = IO_NONE;
		}
	}
	unregister_backing(fs, id);
}
