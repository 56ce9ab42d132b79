/* SPDX-License-Identifier: MIT */
#include "engine/unit/fresh.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/backing/dirwalk.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/content/digest.h"
#include "engine/format/format.h"
#include "engine/unit/accord.h"
#include "engine/unit/internal.h"

#define SETTLE_NS \
	(5 * \
	 NSEC_PER_SEC) /* no client remembers for longer, of those that tell nothing by a listing */
#define PAUSE_NS   (20 * NSEC_PER_MSEC)
#define ABSENT_MAX 3 /* listings in a row: one may miss what is renamed meanwhile */

/* What a name leads to here. */
struct lead {
	bool sure;
	uint64_t ino;
};

/*
 * Some clients that are FUSE filesystems answer from memory, whatever they are asked, until a call went through to the file: of
 * those that change nothing, a sync does.
 */
int fresh_stat(struct checkpoint *cp, int fd, struct statx *stx)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	int r = !b.fuse ? -1 : backing_reopen(&b, fd, O_RDONLY | O_NONBLOCK);

	if (r >= 0) {
		backing_sync(&b, r, true);
		close(r);
	}
	return backing_stat_now(&b, fd, stx);
}

static bool is_gone(int err)
{
	return err == -ESTALE || err == -ENOENT;
}

/*
 * As backing_stat_now, of what others may be writing just now, which a sync would wait for. Attributes of one that is gone may
 * be remembered, extended ones are not.
 */
static int stat_there(struct backing *b, int pin, struct statx *stx)
{
	ssize_t there = b->fuse ? backing_getxattr(b, pin, DIGEST_XATTR, NULL, 0) : 0;

	return is_gone((int)there) ? (int)there : backing_stat_now(b, pin, stx);
}

/* What cannot be asked for is not judged: the call that is to come will tell. */
static struct lead follow(struct checkpoint *cp, int dir, const char *name)
{
	struct units *us = cp->units;
	struct backing b = backing_owner(us->contents->backing, &cp->owner);
	struct lead lead = {.sure = true};
	struct generation *own;
	struct inode_id id;
	struct statx stx;
	bool inherited;
	int pin, err;

	backing_stat_now(&b, dir, &stx);
	pin = backing_pin(&b, dir, name);
	if (pin < 0)
		return lead;
	err = backing_stat(&b, pin, &stx);
	if (is_gone(err) && !backing_stat_known(&b, pin, &stx))
		lead = (struct lead){.ino = stx.stx_ino};
	id = inode_id_of(&stx);
	own = err ? NULL : units_find_inode(us, &id);
	if (!err && !own && S_ISREG(stx.stx_mode)) {
		inherited = checkpoint_shares(cp, &id);
		err = inherited ? fresh_stat(cp, pin, &stx) : stat_there(&b, pin, &stx);
		lead.ino = id.ino;
		lead.sure = err ? !is_gone(err) : stx.stx_nlink == (inherited ? 2 : 1);
	}
	generation_put(own);
	close(pin);
	return lead;
}

/* All of it is read, which is what refreshes the other names: each of them may be asked for next. */
static int list(struct backing *b, int dir, const char *name, uint64_t *ino)
{
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;

	*ino = 0;
	(void)dirwalk_begin(&w, b, dir);
	while (dirwalk_next(&w))
		if (!strcmp(w.name, name))
			*ino = w.ino;
	return w.err;
}

/*
 * @name as it is pinned, and its inode, 0: none. Only the name is looked up: there are clients (GlusterFS) that believe a name for as
 * long as they have just heard of the inode that they take it for.
 */
static int look_up(struct backing *b, int dir, const char *name, uint64_t *ino)
{
	int pin = backing_pin(b, dir, name);
	struct statx stx;

	*ino = pin >= 0 && !backing_stat_known(b, pin, &stx) ? stx.stx_ino : 0;
	return pin;
}

/* Is a file that nobody replaces listed with the inode number that it has? There are filesystems that list none. */
static bool finds_lists_inodes(struct backing *b)
{
	int dir = backing_pin(b, b->root_fd, FORMAT_DIR), pin;
	uint64_t listed, ino;

	if (dir < 0)
		return true;
	pin = look_up(b, dir, FORMAT_FILE, &ino);
	if (list(b, dir, FORMAT_FILE, &listed))
		listed = 0;
	if (pin >= 0)
		close(pin);
	close(dir);
	return !listed || !ino || listed == ino;
}

/* May names lead to what they do no more, and a listing tell? */
static bool may_be_stale(struct units *us, const struct process *p, struct backing *b)
{
	enum { UNKNOWN, YES, NO };

	if (!b->fuse || (p && !accord_is_for(us, p)))
		return false;
	if (atomic_load(&us->lists_inodes) == UNKNOWN)
		atomic_store(&us->lists_inodes, finds_lists_inodes(b) ? YES : NO);
	return atomic_load(&us->lists_inodes) == YES;
}

/* Waits a moment. -ESTALE: @until has come; -EINTR. */
static int settle(struct units *us, uint64_t until)
{
	return clock_mono_ns() > until ? -ESTALE : units_pause(us, PAUSE_NS);
}

int fresh_pin_listed(struct units *us, const struct process *p, const struct caller *owner, int dir,
		     const char *name, uint64_t ino)
{
	struct backing b = backing_owner(us->contents->backing, owner);
	uint64_t until = clock_mono_ns() + SETTLE_NS, there, listed;
	int err;

	for (;;) {
		int pin = look_up(&b, dir, name, &there);

		if (there == ino || (pin < 0 && !is_gone(pin)) || !may_be_stale(us, p, &b))
			return pin;
		if (pin < 0 && !list(&b, dir, name, &listed) && !listed)
			return -ENOENT; /* meanwhile */
		if (pin >= 0)
			close(pin);
		err = settle(us, until);
		if (err)
			return err;
	}
}

int fresh_pin(struct units *us, const struct process *p, const struct caller *owner, int dir,
	      const char *name)
{
	struct backing b = backing_owner(us->contents->backing, owner);
	uint64_t until = clock_mono_ns() + SETTLE_NS, listed, ino;
	unsigned absent = 0;
	int err;

	for (;;) {
		int pin = look_up(&b, dir, name, &ino);

		if ((pin < 0 && !is_gone(pin)) || !may_be_stale(us, p, &b) ||
		    list(&b, dir, name, &listed) || listed == ino)
			return pin;
		absent = listed ? 0 : absent + 1;
		if (pin >= 0)
			close(pin);
		err = absent == ABSENT_MAX ? -ENOENT : settle(us, until);
		if (err)
			return err;
	}
}

int fresh_name(struct checkpoint *cp, int dir, const char *name)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	uint64_t until = clock_mono_ns() + SETTLE_NS, listed, ino;
	unsigned absent = 0;
	struct lead lead;
	int err = 0;

	for (lead = follow(cp, dir, name); !lead.sure;) {
		int pin;

		if (list(&b, dir, name, &listed) || listed == lead.ino)
			return 0;
		/* Right after a listing it is looked at again; after that there is time to pass. */
		pin = look_up(&b, dir, name, &ino);
		if (pin >= 0)
			close(pin);
		if (listed && ino == listed)
			return 0;
		absent = listed ? 0 : absent + 1;
		if (absent == ABSENT_MAX)
			return -ENOENT;
		if (ino && ino != lead.ino && clock_mono_ns() < until)
			lead = follow(cp, dir, name);
		else
			err = settle(cp->units, until);
		if (err)
			return err == -ESTALE ? 0 : err;
	}
	return 0;
}
