/* SPDX-License-Identifier: MIT */
/*
 * Makes the record that decides a checkpoint (engine/record/decision.h). Functions are called
 * without the units' lock.
 */
#ifndef ENGINE_COMMIT_DECIDE_H
#define ENGINE_COMMIT_DECIDE_H

#include "engine/record/decision.h"
#include "engine/save/checkpoint.h"

/*
 * (O4) Records the decision to commit @cp, which is to be at @path below the backing, with what
 * follows: @order, or NULL. 0: publish it. -ECANCELED: an abort was recorded before. -EALREADY:
 * another node has decided to commit, and publishes it. Other -errno: unknown, to be retried.
 */
int decision_record(struct checkpoint *cp, const char *path, const struct order *order);

/*
 * For a @cp that this node alone decides, after decision_record failed and may have taken effect.
 * Records that @cp, at @path, is not committed. True: no record says that it is, nor ever will.
 */
bool decision_withdraw(struct checkpoint *cp, const char *path);

/* Drops the records, which are of no use any more. */
void decision_forget(struct checkpoint *cp);

#endif
