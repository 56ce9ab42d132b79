/* SPDX-License-Identifier: MIT */
/*
 * The files that a checkpoint shares with what it inherited from (inherit.c). Takes no lock: they
 * are noted before another thread knows the checkpoint.
 */
#include "engine/save/units.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/backing/dirwalk.h"

int checkpoint_note_shared(struct checkpoint *cp, const struct inode_id *id)
{
	if (cp->nr_shared == cp->shared_room) {
		size_t room = cp->shared_room ? 2 * cp->shared_room : 16;
		struct inode_id *more = realloc(cp->shared, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		cp->shared = more;
		cp->shared_room = room;
	}
	cp->shared[cp->nr_shared++] = *id;
	return 0;
}

static int by_inode(const void *a, const void *b)
{
	const struct inode_id *x = a, *y = b;

	if (x->ino != y->ino)
		return x->ino < y->ino ? -1 : 1;
	if (x->btime_ns != y->btime_ns)
		return x->btime_ns < y->btime_ns ? -1 : 1;
	return x->dev == y->dev ? 0 : x->dev < y->dev ? -1 : 1;
}

void checkpoint_sort_shared(struct checkpoint *cp)
{
	if (cp->nr_shared)
		qsort(cp->shared, cp->nr_shared, sizeof(*cp->shared), by_inode);
}

bool checkpoint_shares(const struct checkpoint *cp, const struct inode_id *id)
{
	return cp->nr_shared &&
	       bsearch(id, cp->shared, cp->nr_shared, sizeof(*cp->shared), by_inode);
}

/* Notes all that is in the directory @dir (a descriptor), which another node has linked to. */
static int note_inherited(struct checkpoint *cp, int dir)
{
	struct backing b = backing_for(cp->units->contents->backing, &cp->owner);
	struct backing shared = accord_backing(cp->units, cp->maker, &cp->owner);
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	int err = 0;

	dirwalk_begin_fd(&w, &b, dir);
	while (!err && dirwalk_next_visible(&w)) {
		struct inode_id id;
		struct statx stx;
		int pin = backing_pin_listed(&shared, w.fd, w.name, w.ino);

		if (pin == -ESTALE || pin == -EINTR) {
			err = pin;
			break;
		}
		if (pin < 0 || backing_stat(&b, pin, &stx)) {
			if (pin >= 0)
				close(pin);
			continue; /* gone: then the staging link is not shared */
		}
		id = inode_id_of(&stx);
		if (S_ISDIR(stx.stx_mode)) {
			int below = backing_reopen(&b, pin, O_RDONLY | O_DIRECTORY);

			err = below < 0 ? below : note_inherited(cp, below);
		} else {
			err = checkpoint_note_shared(cp, &id);
		}
		close(pin);
	}
	return err ? err : w.err;
}

int checkpoint_knows_inherited(struct checkpoint *cp)
{
	struct backing b = backing_for(cp->units->contents->backing, &cp->owner);
	struct backing shared = accord_backing(cp->units, cp->maker, &cp->owner);
	int pin = backing_pin_now(&shared, cp->target.dir, cp->target.name);
	int dir, err;

	if (pin < 0)
		return pin == -ENOENT ? 0 : pin;
	dir = backing_reopen(&b, pin, O_RDONLY | O_DIRECTORY);
	close(pin);
	err = dir < 0 ? dir : note_inherited(cp, dir);
	checkpoint_sort_shared(cp);
	return err;
}
