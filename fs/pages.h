/* SPDX-License-Identifier: MIT */
/*
 * Pages of shared mappings on their way to the backing.
 *
 * The kernel writes them in nobody's name, so no signal interrupts such a WRITE, and a process that
 * is killed waits in its exit until it is answered. When the backing holds one for longer than an
 * interrupted request may last, the watchdog answers it in advance; its thread goes on. From then
 * until it has landed, every call that must see or confirm the file's data waits (and can be
 * interrupted); the error, if there is one, goes to the next write, fsync or close.
 */
#ifndef FS_PAGES_H
#define FS_PAGES_H

#include "fs/tree.h"

/* The watchdog has answered a WRITE of pages of node @id. */
void pages_answered(struct tree *t, uint64_t id);

/* That WRITE has ended with @err (0 or -errno). */
void pages_landed(struct tree *t, struct node *n, int err);

/* Waits until all such pages of @n have landed. */
void pages_wait(struct tree *t, struct node *n);

/* pages_wait, then returns the error of one that did not land, once. */
int pages_settle(struct tree *t, struct node *n);

#endif
