/* SPDX-License-Identifier: MIT */
/*
 * Names and attributes that another node may have changed a moment ago, while this node's client of
 * the backing still answers from its cache. Only this file knows how clients cache:
 *
 * - A listing refreshes the names that most clients cache. An NFS client asks for names again when
 *   it sees that the directory has changed. A FUSE client takes names and attributes from a
 *   listing; GlusterFS does so only without replicas. So a name is compared with what a listing
 *   says, and while they differ, this module waits and looks again.
 * - The number of links of an inode reveals a stale name without a listing, if the caller knows the
 *   right number.
 * - Some FUSE clients answer every question from memory until a call goes through to the file. A
 *   sync goes through and changes nothing. Their listings give inode numbers, or never do.
 *
 * No lock. The only state says whether listings give inode numbers.
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
#include "engine/format/digest_record.h"
#include "engine/format/format.h"

/*
 * Bounds the time that a client caches a name which a listing does not refresh. If it is too short,
 * a name fails with -ESTALE, or a refresh leaves a stale name.
 */
#define SETTLE_NS  (5 * NSEC_PER_SEC)
#define PAUSE_NS   (20 * NSEC_PER_MSEC)
#define ABSENT_MAX 3 /* listings in a row; one may miss a name during a rename */

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
 * The inode number with which @dir lists @name, or 0. Reads the whole directory, because that
 * refreshes the other names, which a caller may look up next.
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
 * Pins @name; *ino is its inode number, or 0. Asks only for the name: GlusterFS trusts a name as
 * long as it has recently heard of the inode that it takes the name for.
 */
static int look_up(struct backing *b, int dir, const char *name, uint64_t *ino)
{
	int pin = backing_pin(b, dir, name);
	struct statx stx;

	*ino = pin >= 0 && !backing_stat_known(b, pin, &stx) ? stx.stx_ino : 0;
	return pin;
}

/*
 * True unless a file that is never replaced is listed with another inode number than it has. Some
 * filesystems list no inode numbers.
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

/* True if a name may lead to a replaced inode, and a listing shows that. */
static bool may_be_stale(struct backing *b)
{
	enum { UNKNOWN, YES, NO };

	if (!b->fuse || !b->shared)
		return false;
	if (atomic_load(&b->features->lists_inodes) == UNKNOWN)
		atomic_store(&b->features->lists_inodes, finds_lists_inodes(b) ? YES : NO);
	return atomic_load(&b->features->lists_inodes) == YES;
}

/* Waits a moment. -ESTALE: the time @until has passed; -EINTR. */
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
			return -ENOENT; /* removed meanwhile */
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

/* The inode that a name leads to here. */
struct lead {
	bool sure;
	uint64_t ino;
};

/*
 * A client may cache the attributes of a file that is gone, but not the extended ones: it asks the
 * server, whether the file has them or not.
 */
static int stat_there(struct backing *b, int pin, struct statx *stx)
{
	ssize_t there = b->fuse ? backing_getxattr(b, pin, DIGEST_XATTR, NULL, 0) : 0;

	return is_gone((int)there) ? (int)there : backing_stat_asked(b, pin, stx);
}

/* Where @name leads. A name that cannot be pinned is sure: the next call reports the error. */
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
		/* Right after a listing the name is looked up again; only then time must pass. */
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
