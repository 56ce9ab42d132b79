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
 * Some clients that are FUSE filesystems answer from memory, whatever they are asked, until a call went through to the file: of
 * those that change nothing, a sync does.
 */
int fresh_stat(struct checkpoint *cp, int fd, struct statx *stx)
{
	struct backing *b = cp->units->contents->backing;
	int r = !b->fuse ? -1
			 : AS_OWNER_FIRST(&cp->owner, backing_reopen(b, fd, O_RDONLY | O_NONBLOCK));

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
		err = fresh_stat(cp, pin, &stx);
		lead.ino = id.ino;
		lead.sure = err ? err != -ESTALE && err != -ENOENT
				: stx.stx_nlink == (inherited ? 2 : 1);
	}
	generation_put(own);
	close(pin);
	return lead;
}

/* All of it is read, which is what refreshes the other names: each of them may be asked for next. */
static int list(struct backing *b, const struct caller *owner, int dir, const char *name,
		uint64_t *ino)
{
	__cleanup_free char *dents = malloc(DENTS_BYTES);
	int fd = !dents ? -ENOMEM
			: AS_OWNER_FIRST(owner, backing_reopen(b, dir, O_RDONLY | O_DIRECTORY));
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
 * @name as it is pinned, and its inode, 0: none. Only the name is looked up: there are clients (GlusterFS) that believe a name for as
 * long as they have just heard of the inode that they take it for.
 */
static int look_up(struct backing *b, const struct caller *owner, int dir, const char *name,
		   uint64_t *ino)
{
	int pin = AS_OWNER_FIRST(owner, backing_pin(b, dir, name));
	struct statx stx;

	*ino = pin >= 0 && !backing_stat_known(b, pin, &stx) ? stx.stx_ino : 0;
	return pin;
}

int fresh_pin(struct units *us, const struct process *p, const struct caller *owner, int dir,
	      const char *name)
{
	struct backing *b = us->contents->backing;
	uint64_t until = clock_mono_ns() + SETTLE_NS, listed, ino;
	unsigned absent = 0;

	for (;;) {
		int pin = look_up(b, owner, dir, name, &ino);

		if (!b->fuse || !accord_is_for(us, p) ||
		    (pin < 0 && pin != -ENOENT && pin != -ESTALE) ||
		    list(b, owner, dir, name, &listed) || listed == ino)
			return pin;
		absent = listed ? 0 : absent + 1;
		if (absent < ABSENT_MAX && clock_mono_ns() > until)
			return pin;
		if (pin >= 0)
			close(pin);
		if (absent == ABSENT_MAX)
			return -ENOENT;
		LOCK_SCOPE(&us->lock);
		if (units_wait(us))
			return -EINTR;
	}
}

int fresh_name(struct checkpoint *cp, int dir, const char *name)
{
	struct backing *b = cp->units->contents->backing;
	uint64_t until = clock_mono_ns() + SETTLE_NS, listed, ino;
	unsigned absent = 0;
	struct lead lead;

	for (lead = follow(cp, dir, name); !lead.sure;) {
		int pin;

		if (list(b, &cp->owner, dir, name, &listed) || listed == lead.ino)
			return 0;
		/* Right after a listing it is looked at again; after that there is time to pass. */
		pin = look_up(b, &cp->owner, dir, name, &ino);
		if (pin >= 0)
			close(pin);
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
