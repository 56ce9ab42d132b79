/* SPDX-License-Identifier: MIT */
/*
 * What names lead to, and how files are, where another node may have changed that a moment ago, and
 * this node's client of the backing remembers what was. Nobody but this file knows how clients
 * remember:
 *
 * - A listing refreshes what most of them remember of names: NFS asks for names anew when it sees
 *   that the directory has changed; a FUSE client takes names and attributes from it, but GlusterFS
 *   only where it has no replicas. So a name is compared with what a listing says, and where they
 *   differ there is time to pass.
 * - How many links an inode has gives a stale name away, without a listing, to a caller who knows
 *   how many it should have.
 * - Some clients that are FUSE filesystems answer from memory, whatever they are asked, until a
 *   call went through to the file: of those that change nothing, a sync does. They tell by a
 *   listing with which inode numbers (or never do so).
 *
 * Has no lock, and no state but what is found out about listings.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "engine/backing/backing.h"
#include "engine/backing/dirwalk.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/wait.h"
#include "engine/format/format.h"

#define SETTLE_NS \
	(5 * \
	 NSEC_PER_SEC) /* no client remembers for longer, of those that tell nothing by a listing */
#define PAUSE_NS   (20 * NSEC_PER_MSEC)
#define ABSENT_MAX 3 /* listings in a row: one may miss what is renamed meanwhile */
#define ASKED_XATTR \
	"user.ckptfs.xxh3" /* extended attributes are asked of the server, there or not */

static bool is_gone(int err)
{
	return err == -ESTALE || err == -ENOENT;
}

int backing_stat_now(struct backing *b, int fd, struct statx *stx)
{
	int r = !b->fuse ? -1 : backing_reopen(b, fd, O_RDONLY | O_NONBLOCK);

	if (r >= 0) {
		backing_sync(b, r, true);
		close(r);
	}
	return backing_stat_asked(b, fd, stx);
}

/*
 * All of it is read, which is what refreshes the other names: each of them may be asked for next.
 */
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
 * @name as it is pinned, and its inode, 0: none. Only the name is looked up: there are clients
 * (GlusterFS) that believe a name for as long as they have just heard of the inode that they take
 * it for.
 */
static int look_up(struct backing *b, int dir, const char *name, uint64_t *ino)
{
	int pin = backing_pin(b, dir, name);
	struct statx stx;

	*ino = pin >= 0 && !backing_stat_known(b, pin, &stx) ? stx.stx_ino : 0;
	return pin;
}

/*
 * Is a file that nobody replaces listed with the inode number that it has? There are filesystems
 * that list none.
 */
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
static bool may_be_stale(struct backing *b)
{
	enum { UNKNOWN, YES, NO };

	if (!b->fuse || !b->shared)
		return false;
	if (atomic_load(&b->features->lists_inodes) == UNKNOWN)
		atomic_store(&b->features->lists_inodes, finds_lists_inodes(b) ? YES : NO);
	return atomic_load(&b->features->lists_inodes) == YES;
}

/* Waits a moment. -ESTALE: @until has come; -EINTR. */
static int settle(uint64_t until)
{
	return clock_mono_ns() > until ? -ESTALE : wait_ns(PAUSE_NS);
}

int backing_pin_listed(struct backing *b, int dir, const char *name, uint64_t ino)
{
	uint64_t until = clock_mono_ns() + SETTLE_NS, there, listed;
	int err;

	for (;;) {
		int pin = look_up(b, dir, name, &there);

		if (there == ino || (pin < 0 && !is_gone(pin)) || !may_be_stale(b))
			return pin;
		if (pin < 0 && !list(b, dir, name, &listed) && !listed)
			return -ENOENT; /* meanwhile */
		if (pin >= 0)
			close(pin);
		err = settle(until);
		if (err)
			return err;
	}
}

int backing_pin_now(struct backing *b, int dir, const char *name)
{
	uint64_t until = clock_mono_ns() + SETTLE_NS, listed, ino;
	unsigned absent = 0;
	int err;

	for (;;) {
		int pin = look_up(b, dir, name, &ino);

		if ((pin < 0 && !is_gone(pin)) || !may_be_stale(b) || list(b, dir, name, &listed) ||
		    listed == ino)
			return pin;
		absent = listed ? 0 : absent + 1;
		if (pin >= 0)
			close(pin);
		err = absent == ABSENT_MAX ? -ENOENT : settle(until);
		if (err)
			return err;
	}
}

/* --- by the number of links --- */

/* What a name leads to here. */
struct lead {
	bool sure;
	uint64_t ino;
};

/* Attributes of a file that is gone may be remembered, extended ones are not. */
static int stat_there(struct backing *b, int pin, struct statx *stx)
{
	ssize_t there = b->fuse ? backing_getxattr(b, pin, ASKED_XATTR, NULL, 0) : 0;

	return is_gone((int)there) ? (int)there : backing_stat_asked(b, pin, stx);
}

/* What cannot be asked for is not judged: the call that is to come will tell. */
static struct lead follow(struct backing *b, int dir, const char *name, backing_knows *knows,
			  void *arg)
{
	struct lead lead = {.sure = true};
	struct backing_known known = {0};
	struct statx stx;
	int pin, err;

	backing_stat_asked(b, dir, &stx);
	pin = backing_pin(b, dir, name);
	if (pin < 0)
		return lead;
	err = backing_stat(b, pin, &stx);
	if (is_gone(err) && !backing_stat_known(b, pin, &stx))
		lead = (struct lead){.ino = stx.stx_ino};
	if (!err && S_ISREG(stx.stx_mode)) {
		lead.ino = stx.stx_ino;
		known = knows(arg, &stx);
	}
	if (known.links) {
		err = known.rests ? backing_stat_now(b, pin, &stx) : stat_there(b, pin, &stx);
		lead.sure = err ? !is_gone(err) : stx.stx_nlink == known.links;
	}
	close(pin);
	return lead;
}

int backing_refresh_name(struct backing *b, int dir, const char *name, backing_knows *knows,
			 void *arg)
{
	uint64_t until = clock_mono_ns() + SETTLE_NS, listed, ino;
	unsigned absent = 0;
	struct lead lead;
	int err = 0;

	for (lead = follow(b, dir, name, knows, arg); !lead.sure;) {
		int pin;

		if (list(b, dir, name, &listed) || listed == lead.ino)
			return 0;
		/* Right after a listing it is looked at again; after that there is time to pass. */
		pin = look_up(b, dir, name, &ino);
		if (pin >= 0)
			close(pin);
		if (listed && ino == listed)
			return 0;
		absent = listed ? 0 : absent + 1;
		if (absent == ABSENT_MAX)
			return -ENOENT;
		if (ino && ino != lead.ino && clock_mono_ns() < until)
			lead = follow(b, dir, name, knows, arg);
		else
			err = settle(until);
		if (err)
			return err == -ESTALE ? 0 : err;
	}
	return 0;
}
