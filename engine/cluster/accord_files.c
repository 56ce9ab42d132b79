/* SPDX-License-Identifier: MIT */
/*
 * Files of a checkpoint that other nodes write: whose a file is, whether it is whole, and what this
 * node's client of the backing may remember of it. Takes the units' lock, and makes no call to the
 * backing with it. The lists that votes carry are written elsewhere (vote_list.h).
 */
#include "engine/cluster/accord_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/cluster/other_nodes.h"
#include "engine/content/recorded.h"

bool accord_may_have_company(const struct checkpoint *cp)
{
	return cp->accord;
}

bool accord_is_elsewhere(struct checkpoint *cp, const struct inode_id *id)
{
	struct generation *g = cp->accord ? units_find_inode(cp->units, id) : NULL;
	const struct filed *f;

	generation_put(g);
	if (!cp->accord || g || checkpoint_shares(cp, id))
		return false;
	LOCK_SCOPE(&cp->units->lock);
	f = filed_find(&cp->filed, id);
	return !f || f->node;
}

/*
 * What the backing may believe of a file: this node's own is as it is; an inherited one has two
 * links, the other where it was inherited from; one that was made has one.
 */
static struct backing_known know_file(void *checkpoint, const struct statx *stx)
{
	struct checkpoint *cp = checkpoint;
	struct inode_id id = inode_id_of(stx);
	struct generation *own = units_find_inode(cp->units, &id);
	bool inherited = !own && checkpoint_shares(cp, &id);

	generation_put(own);
	return (struct backing_known){.links = own ? 0 : inherited ? 2 : 1, .rests = inherited};
}

int accord_follow_name(struct checkpoint *cp, int dir, const char *name)
{
	struct backing b = accord_backing(cp->units, NULL, &cp->owner);

	return backing_refresh_name(&b, dir, name, know_file, cp);
}

/* 1: the file is whole; 0: not yet, and *@mark tells its progress; -errno. */
static int is_whole(struct checkpoint *cp, int fd, uint64_t *mark)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	struct statx stx;
	char hex[DIGEST_HEX];
	int r = backing_reopen(&b, fd, O_RDONLY | O_NONBLOCK), err;

	if (r < 0)
		return r;
	err = backing_stat(&b, r, &stx);
	/*
	 * The attributes may be remembered from when the record was made. A file that has a record
	 * is synced: to ask again costs little.
	 */
	if (!err && recorded_valid(&b, r, &stx, hex))
		err = backing_stat_now(&b, fd, &stx);
	if (!err) {
		*mark = stx.stx_size + stx.stx_blocks +
			(uint64_t)stx.stx_mtime.tv_sec * NSEC_PER_SEC + stx.stx_mtime.tv_nsec;
		err = recorded_valid(&b, r, &stx, hex);
	}
	close(r);
	return err;
}

static int tell_held(struct checkpoint *cp, const char *rel)
{
	struct units *us = cp->units;
	char text[MESSAGE_MAX], path[2 * PATH_MAX];
	size_t len;

	checkpoint_path(cp, path, PATH_MAX);
	len = strlen(path);
	snprintf(path + len, sizeof(path) - len, "/%s", rel);
	MESSAGE(text, FILE_HELD_ELSEWHERE, path,
		(unsigned long long)(us->commit_ns / NSEC_PER_SEC));
	failures_add(us->failures, cp->owner.uid, "open", path, ETIMEDOUT, text);
	return -ETIMEDOUT;
}

/* True if no progress was seen for commit_timeout_s. */
static bool is_given_up_locked(const struct checkpoint *cp, uint64_t *mark, uint64_t *seen,
			       uint64_t *since)
{
	*mark += cp->accord->nr_heard;
	if (*mark != *seen)
		*since = clock_mono_ns();
	*seen = *mark;
	return clock_mono_ns() - *since > cp->units->commit_ns;
}

int accord_await_file(struct checkpoint *cp, const struct inode_id *id, const char *rel, int fd)
{
	struct units *us = cp->units;
	uint64_t since = clock_mono_ns(), mark = 0, seen = 0;
	int whole = 0;

	while (accord_is_elsewhere(cp, id) && checkpoint_is_pending(cp) &&
	       !(whole = is_whole(cp, fd, &mark))) {
		bool given_up;
		{
			LOCK_SCOPE(&us->lock);
			given_up = is_given_up_locked(cp, &mark, &seen, &since);
			if (!given_up && units_wait(us))
				return -EINTR;
		}
		if (given_up)
			return tell_held(cp, rel);
	}
	if (whole < 0)
		return whole;
	LOCK_SCOPE(&us->lock);
	/* Nobody knows what the file would have become. */
	return whole || cp->state != GENERATION_FAILED ? 0 : cp->err ? cp->err : -EIO;
}

void accord_show_size(struct generation *g)
{
	bool open;

	if (!g->checkpoint || !g->checkpoint->accord)
		return;
	{
		LOCK_SCOPE(&g->units->lock);
		open = g->state == GENERATION_OPEN;
	}
	if (open)
		content_show_size(g->content); /* if it fails, so does the flush */
}

int accord_gather(struct checkpoint *cp)
{
	struct accord *a = cp->accord;
	struct vote_list lists[AGREE_FANOUT + 1];
	unsigned nr;
	int err;

	if (!a || a->gathered)
		return 0;
	{
		LOCK_SCOPE(&cp->units->lock);
		nr = accord_lists(a, lists);
	}
	err = vote_list_gather(cp, lists, nr);
	a->gathered = !err;
	return err == -ENOENT ? -EAGAIN : err; /* another node has decided, and removed a list */
}
