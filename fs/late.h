/* SPDX-License-Identifier: MIT */
/*
 * Calls that were answered before they ended.
 *
 * A program that is interrupted while the backing holds its call gets EINTR, but the call goes on
 * and may still change the file. And pages of shared mappings are written in nobody's name: no
 * signal interrupts such a WRITE, while a process that is killed waits in its exit until it is
 * answered; so the watchdog answers one that takes too long in advance.
 *
 * From then until the call has landed, every call that sees, changes or confirms the data of that
 * file waits for it (and can itself be interrupted): nothing that was acknowledged later is
 * overwritten, and what fsync confirms is there. An error of such a WRITE of pages goes to the
 * next write, fsync or close.
 */
#ifndef FS_LATE_H
#define FS_LATE_H

#include "fs/tree.h"

#include "engine/base/wait.h"

/* The watchdog has answered a call on node @id that still runs. */
void late_began(struct tree *t, uint64_t id);

/* That call has ended. */
void late_ended(struct tree *t, uint64_t id);

/* It was a WRITE of pages and failed with @err, which nobody was told. */
void late_failed(struct tree *t, struct node *n, int err);

/* Is there a late call on node @id? */
bool late_any(struct tree *t, uint64_t id);

/* Waits until there is none, come what may: for pages that nobody else has. */
void late_wait_out(struct tree *t, struct node *n);

/*
 * Waits until no late call of @n is left. Returns -EINTR if the calling thread's own request was
 * given up meanwhile: it must not take effect any more.
 */
int late_wait(struct tree *t, struct node *n);

/* late_wait, then the error of a write of pages that nobody was told, once. */
int late_settle(struct tree *t, struct node *n);

#endif
