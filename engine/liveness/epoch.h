/* SPDX-License-Identifier: MIT */
/*
 * Epochs of jobs: the one place that orders the starts of a job. Pure, except for the time of this
 * host. No lock.
 *
 * An *epoch* is one start of a job, with all of its ranks. Two facts separate one start from the
 * next:
 *
 * E1  The launcher counts its starts. The count is a part of the job's key (liveness/job.h), so
 *     every record with the key carries it to every node.
 * E2  A failure on this host, or one that this host heard of, ended an epoch: a process that was
 *     started here later belongs to the next epoch. This also separates two starts with one key,
 *     if their launcher does not count, or not all of them.
 *
 * Two times are compared only if both are of this host. So if a launcher does not count, and a
 * process was started before this host heard of a failure elsewhere, the process counts as one of
 * the failed epoch. It may then get the error of its predecessor once.
 *
 * There are no records of epochs. A chain of records would number the failures of a job. But to
 * find on which side of a failure elsewhere a process was started, a node would still have only E1
 * and E2.
 */
#ifndef ENGINE_LIVENESS_EPOCH_H
#define ENGINE_LIVENESS_EPOCH_H

#include <stdbool.h>
#include <stdint.h>

struct process;

enum epoch_order {
	EPOCH_UNKNOWN, /* the process was not read: it may be of any job of its user */
	EPOCH_OTHER,   /* another job */
	EPOCH_OLDER,   /* an earlier start of that job */
	EPOCH_SAME,
	EPOCH_NEWER /* a later start of that job */
};

#define EPOCH_LASTS 0 /* for @ended_ns: nothing has ended the epoch */

/*
 * The epoch of @p as seen from that of the job with @key, which ended at @ended_ns (monotonic) or
 * EPOCH_LASTS. Any thread. A weak key (struct process) may belong to several jobs: callers for
 * which that matters check p->weak.
 */
enum epoch_order epoch_order(const struct process *p, const char *key, uint64_t ended_ns);

/*
 * True if both may be of the same start of one job: the user is the same, and so is the key with
 * its count of starts (E1). A process that was not read may be of any job of its user. This
 * function does not see failures (E2): two starts with one key are the same here. epoch_order
 * separates them.
 */
bool epoch_same(const struct process *a, const struct process *b);

/* True if the launcher of @p counts every start of its job, so that no two starts share a key. */
bool epoch_is_counted(const struct process *p);

/* True if @p was started before @at_ns (monotonic, past), or if its start is unknown. */
bool epoch_started_before(const struct process *p, uint64_t at_ns);

#endif
