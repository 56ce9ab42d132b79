/* SPDX-License-Identifier: MIT */
/*
 * Late calls: calls that were answered before they ended.
 *
 * A program that is interrupted while the backing holds its call gets EINTR, but the call goes on
 * and may still change the file. Pages of shared mappings are written in no process's name: no
 * signal interrupts such a WRITE, and a killed process waits in its exit for the answer. So the
 * watchdog answers a WRITE of pages that takes too long in advance.
 *
 * Until a late call has landed, every call that sees, changes or confirms the data of that file
 * waits for it (and can itself be interrupted). So nothing that was acknowledged later is
 * overwritten, and what fsync confirms is there. The error of a late WRITE of pages goes to the
 * next write, fsync or close.
 */
#ifndef FS_LATE_CALL_H
#define FS_LATE_CALL_H

#include "fs/tree.h"

#include "engine/base/wait.h"

/* The watchdog has answered a call on node @id that still runs. */
void late_call_began(struct tree *t, uint64_t id);

/* That call has ended. */
void late_call_ended(struct tree *t, uint64_t id);

/* A late WRITE of pages failed with @err, which no program was told. */
void late_call_keep_error(struct tree *t, struct node *n, int err);

/* True if a late call runs on node @id. */
bool late_call_any(struct tree *t, uint64_t id);

/* Waits until none runs, uninterruptibly: for pages that exist nowhere else. */
void late_call_wait_out(struct tree *t, struct node *n);

/*
 * Waits until no late call of @n is left. -EINTR: the calling thread's own request was given up
 * meanwhile, and must not take effect any more.
 */
int late_call_wait(struct tree *t, struct node *n);

/* As late_call_wait; then returns once the error of a write of pages that no program was told. */
int late_call_settle(struct tree *t, struct node *n);

#endif
