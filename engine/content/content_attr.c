/* SPDX-License-Identifier: MIT */
/*
 * Size, times and blocks of a content as programs see them, from the time it is staged until it is
 * an ordinary file, which others may change.
 */
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/content/content_inside.h"

static struct statx_timestamp timestamp(uint64_t ns)
{
	return (struct statx_timestamp){.tv_sec = (int64_t)(ns / NSEC_PER_SEC),
					.tv_nsec = (uint32_t)(ns % NSEC_PER_SEC)};
}

static uint64_t dirty_bytes_locked(const struct content *ct)
{
	uint64_t sum = 0;
	struct list *l;

	list_for_each (l, &ct->dirty) {
		const struct chunk *ck = container_of(l, struct chunk, mine);

		sum += ck->dirty_hi - ck->dirty_lo;
	}
	return sum;
}

/* Returns false if the backing's values are right. */
static bool overlay_locked(const struct content *ct, struct statx *stx)
{
	if ((!ct->staged || ct->published) && list_empty(&ct->dirty))
		return false;
	if ((ct->staged && !ct->published) || ct->size > stx->stx_size)
		stx->stx_size = ct->size;
	if (ct->written_ns) {
		stx->stx_mtime = timestamp(ct->written_ns);
		if (ct->written_ns >
		    (uint64_t)stx->stx_ctime.tv_sec * NSEC_PER_SEC + stx->stx_ctime.tv_nsec)
			stx->stx_ctime = stx->stx_mtime;
	}
	stx->stx_blocks += (dirty_bytes_locked(ct) + 511) / 512;
	return true;
}

void content_overlay(struct content *ct, struct statx *stx)
{
	struct backing b = content_backing(ct);
	struct statx fresh;
	{
		LOCK_SCOPE(&ct->all->cache->lock);
		if (overlay_locked(ct, stx))
			return;
	}
	/* All bytes are flushed by now, but @stx may be older than that. */
	if (!backing_stat(&b, ct->fd, &fresh))
		*stx = fresh;
}

static uint64_t stamp_ns(struct statx_timestamp t)
{
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + t.tv_nsec;
}

void content_published(struct content *ct, const struct statx *stx)
{
	int fd;
	{
		LOCK_SCOPE(&ct->all->cache->lock);
		ct->published = true;
		ct->written_ns = stamp_ns(stx->stx_mtime);
		ct->ctime_ns = stamp_ns(stx->stx_ctime);
		fd = ct->nr_submitted ? -1 : take_fd(&ct->direct_fd); /* little will fly any more */
	}
	if (fd >= 0)
		close(fd);
}

bool content_is_pending(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	return ct->staged && !ct->published;
}

void content_refresh(struct content *ct)
{
	struct backing b = content_backing(ct);
	uint64_t size, written_ns, mtime_ns, ctime_ns;
	struct statx stx;
	{
		LOCK_SCOPE(&ct->all->cache->lock);
		if (!ct->published || !list_empty(&ct->dirty))
			return;
		size = ct->size;
		written_ns = ct->written_ns;
		ctime_ns = ct->ctime_ns;
	}
	if (backing_stat(&b, ct->fd, &stx)) {
		content_forget(ct); /* the backing no longer tells what the file is */
		return;
	}
	mtime_ns = stamp_ns(stx.stx_mtime);
	if (stx.stx_size == size && mtime_ns == written_ns && stamp_ns(stx.stx_ctime) == ctime_ns)
		return;
	LOCK_SCOPE(&ct->all->cache->lock);
	if (ct->size != size || ct->written_ns != written_ns || !list_empty(&ct->dirty))
		return; /* this node has just changed it */
	content_empty_list_locked(ct, &ct->clean);
	ct->size = ct->backing_end = stx.stx_size;
	ct->written_ns = mtime_ns;
	ct->ctime_ns = stamp_ns(stx.stx_ctime);
}

void content_set_mtime(struct content *ct, uint64_t wall_ns)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	ct->written_ns = wall_ns;
}

uint64_t content_size(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	return ct->size;
}

uint64_t content_dirty_bytes(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	return dirty_bytes_locked(ct);
}
