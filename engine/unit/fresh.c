/* SPDX-License-Identifier: MIT */
#include "engine/unit/fresh.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/unit/accord.h"
#include "engine/unit/internal.h"

#define DENTS_BYTES (64u << 10)
#define SETTLE_NS \
	(5 * \
	 NSEC_PER_SEC) /* no client remembers for longer, of those that tell nothing by a listing */
#define ABSENT_MAX 3   /* listings in a row: one may miss what is renamed meanwhile */

/* What a name leads to here. */
struct lead {
	bool sure;
	uint64_t ino;
};

/*
 * Some clients answer from memory, whatever they are asked, until a call went through to the file: of those that change
 * nothing, a sync does.
 */
int fresh_stat(struct checkpoint *cp, int fd, struct statx *stx)
{
	struct backing *b = cp->units->contents->backing;
	int r = AS_OWNER_FIRST(&cp->owner, backing_reopen(b, fd, O_RDONLY | O_NONBLOCK));

	if (r >= 0) {
		backing_sync(b, r, true);
		close(r);
	}
	return backing_stat_now(b, fd, stx);
}

/* What cannot be asked for is not judged: the call that is to come will tell. */
static struct lead follow(struct checkpoint *cp, int dir, const char *name)
{
	struct units *us = cp->units;
	struct backing *b = us->contents->backing;
	struct lead lead = {.sure = true};
	struct generation *own;
	struct inode_id id;
	struct statx stx;
	bool inherited;
	int pin, err;

	backing_stat_now(b, dir, &stx);
	pin = AS_OWNER_FIRST(&cp->owner, backing_pin(b, dir, name));
	if (pin < 0)
		return lead;
	err = backing_stat(b, pin, &stx);
	id = inode_id_of(&stx);
	own = err ? NULL : units_find_inode(us, &id);
	if (!err && !own && S_ISREG(stx.stx_mode)) {
		inherited = checkpoint_shares(cp, &id);
		/* What is inherited has nothing left to be synced. */
		err = inherited ? fresh_stat(cp, pin, &stx) : backing_stat_now(b, pin, &stx);
		lead.ino = id.ino;
		lead.sure = err ? err != -ESTALE && err != -ENOENT
				: stx.stx_nlink == (inherited ? 2 : 1);
	}
	generation_put(own);
	close(pin);
	return lead;
}

/* All of it is read, which is what refreshes the other names: each of them may be asked for next. */
static int list(struct checkpoint *cp, int dir, const char *name, uint64_t *ino)
{
	__cleanup_free char *dents = malloc(DENTS_BYTES);
	struct backing *b = cp->units->contents->backing;
	int fd =
		!dents ? -ENOMEM
		       : AS_OWNER_FIRST(&cp->owner, backing_reopen(b, dir, O_RDONLY | O_DIRECTORY));
	ssize_t len = 0, at;

	*ino = 0;
	if (fd < 0)
		return fd;
	while ((len = backing_getdents(b, fd, dents, DENTS_BYTES)) > 0) {
		for (at = 0; at < len;) {
			const struct dirent64 *d = (const struct dirent64 *)(dents + at);

			if (!strcmp(d->d_name, name))
				*ino = d->d_ino;
			at += d->d_reclen;
		}
	}
	close(fd);
	return (int)len;
}

/*
 * The inode that @name leads to, 0: none. Only the name is looked up: there are clients (GlusterFS) that believe a name for as
 * long as they have just heard of the inode that they take it for.
 */
static uint64_t look_up(struct checkpoint *cp, int dir, const char *name)
{
	struct backing *b = cp->units->contents->backing;
	int pin = AS_OWNER_FIRST(&cp->owner, backing_pin(b, dir, name));
	struct statx stx;
	uint64_t ino = 0;

	if (pin < 0)
		return 0;
	if (!backing_stat_known(b, pin, &stx))
		ino = stx.stx_ino;
	close(pin);
	return ino;
}

int fresh_name(struct checkpoint *cp, int dir, const char *name)
{
	uint64_t until = clock_mono_ns() + SETTLE_NS, listed, ino;
	unsigned absent = 0;
	struct lead lead;

	for (lead = follow(cp, dir, name); !lead.sure;) {
		if (list(cp, dir, name, &listed) || listed == lead.ino)
			return 0;
		/* Right after a listing it is looked at again; after that there is time to pass. */
		ino = look_up(cp, dir, name);
		if (listed && ino == listed)
			return 0;
		if (ino && ino != lead.ino) {
			lead = follow(cp, dir, name);
			continue;
		}
		absent = listed ? 0 : absent + 1;
		if (absent == ABSENT_MAX)
			return -ENOENT;
		LOCK_SCOPE(&cp->units->lock);
		if (clock_mono_ns() > until)
			return 0;
		if (units_wait(cp->units))
			return -EINTR;
	}
	return 0;
}
