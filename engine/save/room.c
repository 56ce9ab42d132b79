/* SPDX-License-Identifier: MIT */
#include "engine/save/units.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/wait.h"

#define AWAITED_NS (3 * NSEC_PER_SEC)

bool room_is_short(int err)
{
	return err == -ENOSPC || err == -EDQUOT;
}

bool room_is_awaited_locked(uint64_t short_ns)
{
	return short_ns && clock_mono_ns() - short_ns < AWAITED_NS;
}

/* --- asking --- */

/* Returns a ticket; 0 without memory. */
static uint64_t ask_locked(struct units *us, uid_t uid, const struct inode_id *dir)
{
	struct room_want *w;
	struct list *l;

	list_for_each (l, &us->room.wanted) {
		w = container_of(l, struct room_want, link);
		if (w->uid == uid && same_inode(&w->dir, dir))
			return w->ticket;
	}
	w = calloc(1, sizeof(*w));
	if (!w)
		return 0;
	w->ticket = ++us->room.asked;
	w->emptied = us->room.emptied;
	w->uid = uid;
	w->dir = *dir;
	list_append(&us->room.wanted, &w->link);
	waitq_wake(&us->trashed);
	return w->ticket;
}

static bool may_come_locked(struct units *us, uid_t uid, const struct inode_id *dir,
			    struct shortage *s)
{
	uint64_t now = clock_mono_ns();

	if (us->ending)
		return false;
	if (!s->since_ns)
		s->since_ns = now;
	if (s->ticket > us->room.served)
		return true;
	if (s->ticket > us->room.freed && now - s->since_ns >= us->room.wait_ns)
		return false; /* the last request freed nothing */
	s->ticket = ask_locked(us, uid, dir);
	return s->ticket;
}

/* The directory that has the name of the unit to which @g belongs. */
static const struct inode_id *place_of_locked(const struct generation *g)
{
	return g->checkpoint ? &g->checkpoint->target.dir_id : &g->target.dir_id;
}

bool room_for_file(struct generation *g, struct shortage *s)
{
	LOCK_SCOPE(&g->units->lock);
	g->short_ns = clock_mono_ns();
	if (g->checkpoint)
		g->checkpoint->short_ns = g->short_ns;
	return may_come_locked(g->units, g->owner.uid, place_of_locked(g), s);
}

bool room_for_checkpoint(struct checkpoint *cp, struct shortage *s)
{
	LOCK_SCOPE(&cp->units->lock);
	cp->short_ns = clock_mono_ns();
	return may_come_locked(cp->units, cp->owner.uid, &cp->target.dir_id, s);
}

/* *@place: @dir; if that lies in a checkpoint, the directory that has the checkpoint's name. */
static void find_place(struct units *us, const struct inode_id *dir, struct inode_id *place)
{
	struct checkpoint *cp = checkpoints_find_inode(us, dir);

	*place = *dir;
	if (!cp)
		return;
	{
		LOCK_SCOPE(&us->lock);
		*place = cp->target.dir_id;
	}
	checkpoint_put(cp);
}

int room_await(struct units *us, const struct caller *c, const struct inode_id *dir,
	       struct generation *g, struct shortage *s)
{
	struct inode_id place = {0};
	bool may;

	if (g) {
		may = room_for_file(g, s);
	} else {
		if (dir)
			find_place(us, dir, &place);
		LOCK_SCOPE(&us->lock);
		may = may_come_locked(us, c ? c->uid : (uid_t)-1, &place, s);
	}
	if (!may)
		return -ENOSPC;
	LOCK_SCOPE(&us->lock);
	return units_wait(us);
}

void room_finish(struct units *us)
{
	while (!list_empty(&us->room.wanted)) {
		struct list *l = us->room.wanted.next;

		list_del(l);
		free(container_of(l, struct room_want, link));
	}
}
