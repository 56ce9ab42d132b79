/* SPDX-License-Identifier: MIT */
/*
 * What follows a commit that this mount makes: the pointers that wait for it and the removals that
 * it makes due go into its decision record (order.h), and are done by the thread that commits, in
 * that order, before the record goes. What comes too late for the record is done as well
 * (pointer.h, held.h, removal.h), but not redone after a crash.
 */
#ifndef ENGINE_UNIT_FOLLOWING_H
#define ENGINE_UNIT_FOLLOWING_H

#include "engine/unit/checkpoint.h"
#include "engine/unit/order.h"

struct following {
	struct generation *written[ORDER_MAX]; /* TAKEN or NAMING, referenced */
	struct held *held[ORDER_MAX];	       /* taken, referenced */
	size_t nr_written, nr_held;
	bool recorded; /* the record was tried: what it says stays as it is */
	bool waits;    /* something of it was not done: the record stays */
	struct order order;
	size_t own_pointers,
		own_removals; /* of that: first come this node's, then what a lost root has left */
};

/* Is none of its pointers changed or applied right now, so that they may be taken? */
bool following_rests_locked(struct checkpoint *cp);

/* @cp is COMMITTING: nobody changes the pointers that wait for it any more. */
void following_take_locked(struct checkpoint *cp);

/* What is taken becomes durable in staging, and cp->following->order says all that follows. */
void following_prepare(struct checkpoint *cp);

/* (O6) It has its name. */
void following_point(struct checkpoint *cp);

/* (O7) And it is committed. False: something is left to do, by the next mount or fsck. */
bool following_remove(struct checkpoint *cp);

/* It is not committed now: pointers may be changed again. */
void following_release(struct checkpoint *cp);

#endif
