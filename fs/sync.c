/* SPDX-License-Identifier: MIT */
/*
 * What fsync waits for. A file of a unit is of no use before the whole unit is committed, so a rank
 * gains nothing by waiting for the durability of its part. By default the fsync of a rank is a
 * barrier: afterwards what it wrote is in the cache, and is flushed and committed in that order. A
 * process without a rank may be any program, dd or a mover of files that removes the source next:
 * it gets the durability that it asked for.
 */
#include <errno.h>
#include <fcntl.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/calls/file.h"
#include "engine/commit/publish.h"
#include "engine/config/config.h"
#include "engine/content/content.h"
#include "engine/liveness/job.h"
#include "engine/save/checkpoint.h"
#include "fs/data.h"
#include "fs/late_call.h"
#include "fs/route.h"

/* True if fsync by @c makes the file of a unit durable. *@rankless: for a rank it would not. */
static bool is_durable(struct fs *fs, const struct caller *c, const struct handle *h,
		       bool *rankless)
{
	uint64_t mode = config_number(&fs->engine->config, OPT_FSYNC);
	struct process *p;

	*rankless = false;
	if (mode == FSYNC_DURABLE || h->flags & (O_SYNC | O_DSYNC))
		return true;
	if (mode == FSYNC_BARRIER_ALL)
		return false;
	p = units_process(fs->engine->units, c);
	*rankless = !p || p->rank < 0;
	process_put(p);
	return *rankless;
}

/*
 * The generation that an fsync through @h is for, referenced, or NULL. The handle need not write:
 * the file may be closed, and perhaps renamed.
 */
static struct generation *generation_of(struct fs *fs, const struct handle *h)
{
	struct inode_id id = node_inode(h->node);

	if (!h->generation)
		return fs->engine->units ? units_find_inode(fs->engine->units, &id) : NULL;
	generation_get(h->generation);
	return h->generation;
}

static int sync_file(struct fs *fs, const struct caller *c, struct handle *h, bool data_only)
{
	struct backing b = fs_as(fs, c);
	struct content *ct = route_content(fs, h->node);
	int err = ct ? content_write_back(ct) : 0;

	if (err && err != -EINTR && (h->flags & O_ACCMODE) != O_RDONLY)
		content_error_told(ct);
	content_put(ct);
	if (err)
		return err;
	return backing_sync(&b, h->fd, data_only);
}

/* For a handle that does not write: no close of it waits for the publish. */
static int sync_closed(struct generation *g, bool rankless)
{
	generation_ask_durable(g, rankless);
	return generation_wait(g);
}

int data_sync(struct fs *fs, const struct caller *c, struct handle *h, bool data_only)
{
	struct generation *g;
	bool rankless = false;
	int err = late_call_settle(fs->tree, h->node);

	if (err)
		return err;
	g = generation_of(fs, h);
	if (g && generation_is_pending(g) && !is_durable(fs, c, h, &rankless)) {
		err = content_await(generation_content(g));
		generation_put(g);
		return err;
	}
	err = h->generation ? generation_sync(g) : sync_file(fs, c, h, data_only);
	if (!err && h->generation)
		generation_ask_durable(g, rankless);
	else if (!err && g)
		err = sync_closed(g, rankless);
	generation_put(g);
	return err;
}
