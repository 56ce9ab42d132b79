/* SPDX-License-Identifier: MIT */
/*
 * Epochs of jobs (DESIGN 1, K7): the one place that orders the starts of a job. Pure but for the
 * time of this host.
 *
 * An *epoch* is one start of a job, with all of its ranks. Two things tell one start from the next:
 *
 * E1  The launcher counts its starts. The count is a part of the job's key (liveness/job.h), and so
 *     it reaches every node with the records that have the key.
 * E2  A failure. What failed on this host, or was heard of here, ended an epoch: a process that was
 *     started here later is of the next one. So it is also of two starts that have one key, since
 *     their launcher does not count, or not all of them.
 *
 * Two times are compared only if both are of this host. So where a launcher does not count, a
 * process that was started before this host heard of a failure elsewhere is taken to be of the
 * epoch that failed: it may be told once of what befell its predecessor.
 *
 * There are no records of epochs. A chain of them would number the failures of a job, but to know
 * on which side of a failure elsewhere a process was started, a node would still have no more than
 * E1 and E2.
 */
#ifndef ENGINE_LIVENESS_EPOCH_H
#define ENGINE_LIVENESS_EPOCH_H

#include <stdbool.h>
#include <stdint.h>

struct process;

enum epoch_order {
	EPOCH_UNKNOWN, /* the process was not read: it may be of any job of its user */
	EPOCH_OTHER,   /* it is of another job */
	EPOCH_OLDER,   /* it is of an earlier start of that job */
	EPOCH_SAME,
	EPOCH_NEWER /* it is of a later one */
};

#define EPOCH_LASTS 0 /* for @ended_ns: nothing has ended the epoch, as far as it matters */

/*
 * Of which epoch is @p, as seen from that of the job with @key, which has ended at @ended_ns
 * (monotonic) or EPOCH_LASTS? Any thread. A weak key (struct process) may be of more than one job:
 * callers who mind look at p->weak.
 */
enum epoch_order epoch_order(const struct process *p, const char *key, uint64_t ended_ns);

/*
 * May both be of one start of one job? So it is where that is not known of one of them, and they
 * have one user.
 */
bool job_same(const struct process *a, const struct process *b);

/* Does the launcher of @p count every start of its job? Then no two starts have one key. */
bool epoch_is_counted(const struct process *p);

/* Was @p started before @at_ns (monotonic, past)? Of one whose start is not known it is so. */
bool epoch_started_before(const struct process *p, uint64_t at_ns);

#endif
