/* SPDX-License-Identifier: MIT */
/*
 * What a thread is busy with at a save: something that it does for a moment, and undoes. So it is
 * no state (gen/state.h), but a reason in a set, and each reason one thread has at a time. What a
 * reason protects knows the code that takes it.
 *
 * All with the units' lock held.
 */
#ifndef ENGINE_UNIT_BUSY_H
#define ENGINE_UNIT_BUSY_H

struct units;

enum busy {
	BUSY_RENAME = 1 << 0,	/* a program renames it */
	BUSY_REMOVE = 1 << 1,	/* a program removes it */
	BUSY_ORDINARY = 1 << 2, /* it becomes an ordinary file or directory */
	BUSY_CLAIM = 1 << 3,	/* of a checkpoint: the rule that it goes by is being found */
	BUSY_UNSHARE = 1 << 4,	/* of a checkpoint: an inherited file is being made its own */
	BUSY_INHERIT = 1 << 5,	/* of the mount: a checkpoint takes over what a directory has */
	BUSY_ASK = 1 << 6,	/* of a pointer: other nodes are asked what it waits for */
	BUSY_APPLY =
		1 << 7, /* of a held pointer, or a removal: it is being applied, or about to be */
	BUSY_MOVE = 1 << 8 /* of a held pointer: and the name may be its own by now */
};

/* While one of these is on nobody else changes the save, ends it, or sets its state. */
#define BUSY_HELD (BUSY_RENAME | BUSY_REMOVE | BUSY_ORDINARY)

/*
 * Waits, with the lock dropped, until no thread is busy with @with, as *@busy tells. Then the
 * caller is. 0, or -EINTR.
 */
int busy_wait(struct units *us, unsigned *busy, enum busy with);

/* The caller becomes busy with @with, which nobody is. */
void busy_begin(unsigned *busy, enum busy with);

/* The caller was busy with @with, and is not any more. */
void busy_end(struct units *us, unsigned *busy, enum busy with);

#endif
