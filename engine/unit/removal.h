/* SPDX-License-Identifier: MIT */
/*
 * Removals of committed checkpoints that wait for the next commit (DESIGN 4): a job that rotates
 * its checkpoints never is without its last good one. What it has removed is gone from the mount at
 * once, but leaves the backing, by one rename to trash, only when a newer one of that job beside it
 * is committed and no pointer names it any more. When who removed it has ended, at a time-out and
 * at umount, one will do that was committed before; if there is none, it is kept, and seen again:
 * at once when who removed it has died, or what his job saved on several nodes beside it has
 * failed.
 *
 * The first removal of a name in it begins one; it is whole with the rmdir of its top, and is of
 * whose call that was. One that stays in the middle is a change to it, like any other, and is made
 * after some silence (quiet_s). If no file is left, it becomes an ordinary directory by that; but
 * what a job has emptied waits as if it were removed. If who removes it is killed in the middle,
 * what his job has removed is there again, and what others have removed is not. So a person's is,
 * too, only that it does not wait when it is whole.
 */
#ifndef ENGINE_UNIT_REMOVAL_H
#define ENGINE_UNIT_REMOVAL_H

#include "engine/backing/dirwalk.h"
#include "engine/base/json.h"
#include "engine/unit/checkpoint.h"
#include "engine/unit/order.h"

/* A committed checkpoint on the backing: @name in @dir. */
struct unit_place {
	int dir;
	struct inode_id dir_id, id;
	const char *name;
	bool file; /* of one file; else a directory */
};

/* @p of @c removes @name from the directory @dir of the unit @u. 0 or -ENOMEM. */
int removal_note(struct units *us, const struct caller *c, struct process *p,
		 const struct unit_place *u, const struct inode_id *dir, const char *name);

/*
 * True if @p removes @name as a job does, not as a person: it writes, or has written, others beside
 * it. Then the removal waits.
 */
bool removal_waits(struct units *us, const struct process *p, const struct inode_id *dir,
		   const char *name);

/*
 * All names in @u were removed, and now its own is, by @p: that of a person leaves the backing at
 * once.
 */
void removal_complete(struct units *us, const struct process *p, const struct unit_place *u);

/* Those that are not done yet, oldest first: what each waits for. */
json_t *removals_to_json(struct units *us, uid_t viewer, bool all);

/* The same of that of the name @name in @dir; NULL: there is none. */
json_t *removal_describe(struct units *us, const struct inode_id *dir, const char *name);

/*
 * Was this name removed, though the backing has it? Cheap when nothing was. To be asked before the
 * backing is: what leaves that between the two would be seen, and not be hidden any more.
 */
bool removals_hide(struct units *us, const struct inode_id *dir, const char *name);

/*
 * Another number once a name is hidden no more: for who asked the backing first, as a listing does.
 */
unsigned removals_unhidden(const struct units *us);

/*
 * Goes to the next entry that programs see of the walk @w over the directory @dir. False: none is
 * left, or w->err.
 */
bool removals_next_seen(struct units *us, const struct inode_id *dir, struct dirwalk *w);

/*
 * What has the name @name in @dir was removed, and now something else gets it: it leaves at once.
 * 0, also if it was not, or -errno; waits for who is at it: -EINTR.
 */
int removal_make_way(struct units *us, const struct inode_id *dir, const char *name);

/* The same, but of a checkpoint of one file only. */
int removal_of_file_makes_way(struct units *us, const struct inode_id *dir, const char *name);

/* Do any wait? */
bool removals_any(struct units *us);

/*
 * @name in @dir was replaced on the backing by one rename; @maker: by a whole file of his job,
 * NULL: else.
 */
void removal_renamed_over(struct units *us, const struct process *maker, const struct inode_id *dir,
			  const char *name);

/*
 * The checkpoint @from in @from_dir has the name @at now: what was removed from it, but not
 * all of it, is so there. 0, or -errno: it is seen again.
 */
int removal_moved(struct units *us, const struct inode_id *from_dir, const char *from,
		  const struct place *at);

/* --- for engine/unit --- */

/* @p saves checkpoints in that directory. */
void removal_note_saver_locked(struct units *us, struct process *p, const struct inode_id *dir);

/*
 * Those that the commit of @cp will make due, and which can be redone after a crash, for its
 * record.
 */
void removals_list(struct checkpoint *cp, struct order *order);

/* What is due of that name is done now, if it can be. */
void removal_apply_due(struct units *us, const struct inode_id *dir, const char *name);

/* Is something of that name on its way to trash right now? */
bool removal_is_applied_locked(struct units *us, const struct inode_id *dir, const char *name);

/*
 * @p of @c removes @cp, which was to change a committed one: that is removed with it, at once or
 * when a newer one is committed.
 */
void removal_of_replaced(struct checkpoint *cp, const struct caller *c, struct process *p);

/* @cp was committed: what waited for that is due. */
void removals_committed_locked(struct units *us, const struct checkpoint *cp);

/*
 * The same of a file that got the name @name in @dir by @maker, whose job that is; NULL: nobody's,
 * as what is only changed.
 */
void removals_published_locked(struct units *us, const struct process *maker,
			       const struct inode_id *dir, const char *name);

/*
 * Something else has this name by now, where a checkpoint of one file was removed: that is gone.
 */
void removal_of_file_replaced_locked(struct units *us, const struct inode_id *dir,
				     const char *name);

/* Drops the lock meanwhile. Does what is due. False: there was nothing. */
bool removals_work_locked(struct units *us);

/*
 * For who is short of room. Without the lock. Applies one removal that waits for a commit, before
 * that comes: the first for which @may says so; @uid: who has removed it, @named: a pointer names
 * it. False: none.
 */
bool removals_hasten(struct units *us,
		     bool (*may)(void *arg, const struct unit_place *u, const struct caller *owner,
				 bool named),
		     void *arg);

/* Lock held. Is one of a part of a checkpoint to be done before @d is over? */
struct drain;
bool removals_any_in_part(struct units *us, const struct drain *d);

/* The mount ends: what still waits is done, or kept. Without the lock. */
void removals_finish(struct units *us);

#endif
