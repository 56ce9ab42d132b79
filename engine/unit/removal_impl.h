/* SPDX-License-Identifier: MIT */
/*
 * What the files of removal.h have between them:
 *
 * - removal.c: begins one, hides names, and finds it
 * - removal_due.c: a commit makes it due
 * - removal_judge.c: it is looked at from time to time
 * - removal_apply.c: it leaves the backing, or becomes a change
 * - removal_report.c: what people are told
 *
 * Functions that end in _locked are for callers that hold the units' lock.
 */
#ifndef ENGINE_UNIT_REMOVAL_IMPL_H
#define ENGINE_UNIT_REMOVAL_IMPL_H

#include "engine/unit/internal.h"
#include "engine/unit/removal.h"

/* What one job, or one person, has removed of it. */
struct part {
	struct list link; /* removal.parts */
	struct caller owner;
	struct process *process; /* who did so last, referenced */
	bool watched;		 /* that */
	struct list hidden;
};

struct removal {
	struct list link;
	struct list parts; /* of who has removed something last comes last */
	int dir;	   /* of the unit's parent */
	struct inode_id dir_id, id;
	char name[NAME_MAX + 1];
	bool file;     /* a checkpoint of one */
	bool whole;    /* its own name was removed, too */
	bool emptied;  /* no file is left in it, and it waits as if it were whole */
	bool due;      /* a newer one was committed */
	bool replaced; /* ... and has its name */
	bool named;    /* ... but a pointer names it, when that was looked at last */
	bool left;     /* who removed it has ended, and nothing newer was there then */
	unsigned busy; /* BUSY_APPLY: a thread is at it */
	uint64_t since_ns, changed_ns, again_ns;
	unsigned looked_at; /* by which removals_hasten last */
};

/* One whose name is another's by now is no longer a removal of that name. */
struct removal *removal_find_locked(struct units *us, const struct inode_id *dir, const char *name);

struct unit_place removal_place_of(const struct removal *r);

/* Whose removal it is, if it is whole. Lock held, or it is taken. */
struct part *removal_last_part(const struct removal *r);

/* Nothing is hidden for it. */
void removal_destroy_part(struct part *part);

/* Off the list, and nothing is hidden for it. */
void removal_destroy(struct removal *r);

void removal_list_remove_locked(struct units *us, struct removal *r);

/* What was removed with that is there again, and no more than a part was. */
void removal_undo_locked(struct units *us, struct removal *r, struct part *part);

/* Nobody is at it any more; @done: it is off the list. */
void removal_let_go_locked(struct units *us, struct removal *r, bool done);

/* True if @cp is a checkpoint directory of the same job, and in the same directory. */
bool removal_is_for_locked(const struct removal *r, const struct checkpoint *cp);

/* True if a new one is about to get its name. */
bool removal_is_being_replaced_locked(struct units *us, const struct removal *r);

/* --- lock not held; the caller is busy with it --- */

/* What is left of it begins to replace it. */
int removal_change(struct units *us, const struct removal *r);

/*
 * Applies a removal that is due. -EAGAIN: a pointer names it, which may change, and order_timeout_s
 * has not passed.
 */
int removal_apply_one_due(struct units *us, struct removal *r);

#endif
