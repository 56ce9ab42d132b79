/* SPDX-License-Identifier: MIT */
/*
 * What a thread is busy with at a save: an activity that it begins and ends in one call. An
 * activity is no state (gen/state.h) but a bit of a set, and at most one thread has each bit. The
 * code that sets a bit says what the bit protects.
 *
 * The caller holds the units' lock.
 */
#ifndef ENGINE_SAVE_BUSY_H
#define ENGINE_SAVE_BUSY_H

struct units;

enum busy {
	BUSY_RENAME = 1 << 0,	/* a program renames it */
	BUSY_REMOVE = 1 << 1,	/* a program removes it */
	BUSY_ORDINARY = 1 << 2, /* it becomes an ordinary file or directory */
	BUSY_CLAIM = 1 << 3,	/* of a checkpoint: its rule is being found */
	BUSY_UNSHARE = 1 << 4,	/* of a checkpoint: an inherited file is being copied */
	BUSY_INHERIT = 1 << 5,	/* of the mount: a checkpoint inherits a directory */
	BUSY_ASK = 1 << 6,	/* of a pointer: other nodes are asked for its target */
	BUSY_APPLY =
		1 << 7, /* of a held pointer, or a removal: it is being applied, or about to be */
	BUSY_MOVE = 1 << 8 /* of a held pointer: and it may have its name by now */
};

/* While one of these is set no other thread changes the save, ends it, or sets its state. */
#define BUSY_HELD (BUSY_RENAME | BUSY_REMOVE | BUSY_ORDINARY)

/* Waits, lock dropped, for the thread that is busy @with; then the caller is. 0 or -EINTR. */
int busy_wait(struct units *us, unsigned *busy, enum busy with);

/* The caller becomes busy with @with, which no thread is. */
void busy_begin(unsigned *busy, enum busy with);

/* The caller stops being busy with @with. */
void busy_end(struct units *us, unsigned *busy, enum busy with);

#endif
