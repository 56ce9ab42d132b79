/* SPDX-License-Identifier: MIT */
/*
 * What the files of journal_removal.h share:
 *
 * - journal_removal.c: hides names, and finds removals
 * - journal_removal_begin.c: begins removals
 * - journal_removal_due.c: a commit makes removals due
 * - journal_removal_judge.c: what becomes of a waiting removal
 * - journal_removal_work.c: the committers look at waiting removals from time to time
 * - journal_removal_way.c: a removal leaves the backing, since something else gets its name
 * - journal_removal_apply.c: a removal leaves the backing, or becomes a change
 * - journal_removal_report.c: what people are told
 *
 * Functions that end in _locked are for callers that hold the units' lock.
 */
#ifndef ENGINE_JOURNAL_JOURNAL_REMOVAL_IMPL_H
#define ENGINE_JOURNAL_JOURNAL_REMOVAL_IMPL_H

#include "engine/gen/fate.h"
#include "engine/journal/journal_removal.h"
#include "engine/save/units.h"

/* What one job, or one person, has removed of a checkpoint. */
struct part {
	struct list link; /* removal.parts */
	struct caller owner;
	struct process *process; /* its last remover, referenced */
	bool watched;		 /* the end of that process is watched */
	struct list hidden;
};

struct removal {
	struct list link;
	struct list parts; /* ordered by the last removed name, newest last */
	int dir;	   /* of the checkpoint's parent */
	struct inode_id dir_id, id;
	char name[NAME_MAX + 1];
	bool file;     /* of a single-file checkpoint */
	bool whole;    /* its own name was removed, too */
	bool emptied;  /* no file is left in it, and it waits as if it were whole */
	bool due;      /* a newer checkpoint was committed */
	bool replaced; /* ... and has its name */
	bool left;     /* the remover has ended, and nothing newer was there then */
	bool looked;   /* the thread that is busy with it has looked at the backing */
	bool newer;    /* at the last look: a newer checkpoint was there */
	bool named;    /* ... a pointer named it */
	unsigned busy; /* BUSY_APPLY: a thread works on it */
	uint64_t since_ns, changed_ns, again_ns;
	unsigned looked_at; /* round of removals_hasten that looked at it last */
};

/* Finds the removal of a name. Removals whose name another checkpoint has by now do not count. */
struct removal *removal_find_locked(struct units *us, const struct inode_id *dir, const char *name);

struct unit_place removal_place_of(const struct removal *r);

/* The part that a whole removal belongs to. For callers that hold the lock, or are busy with @r. */
struct part *removal_last_part(const struct removal *r);

/* The part hides no name. */
void removal_destroy_part(struct part *part);

/* @r is off the list, and hides no name. */
void removal_destroy(struct removal *r);

void removal_list_remove_locked(struct units *us, struct removal *r);

/* Hides @name in @dir, for the last part of @r. 0 or -ENOMEM. */
int removal_hide_locked(struct units *us, struct removal *r, const struct inode_id *dir,
			const char *name);

/* Takes @part off: its names reappear, and the removal is partial. */
void removal_undo_locked(struct units *us, struct removal *r, struct part *part);

/* The caller stops being busy with @r; @done: takes it off the list. */
void removal_let_go_locked(struct units *us, struct removal *r, bool done);

/* True if @cp is a checkpoint directory of the same job and in the same directory. */
bool removal_is_for_locked(const struct removal *r, const struct checkpoint *cp);

/* True if a new checkpoint is about to get its name. */
bool removal_is_being_replaced_locked(struct units *us, const struct removal *r);

/* --- lock not held; the caller is busy with the removal --- */

/* (O7) Moves what @r removed to trash, unless something else has the name by now. 0 or -errno. */
int removal_apply_whole(struct units *us, struct removal *r);

/* The caller was busy with @r. */
void removal_let_go(struct units *us, struct removal *r, bool done);

#endif
