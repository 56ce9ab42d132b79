/* SPDX-License-Identifier: MIT */
/*
 * Incarnations of jobs on this node: the chains, as records that all nodes share, and which
 * epoch each process here is bound to. The rules (E1 to E8, limits L1 to L5) are in epoch.h.
 *
 * - The record epoch.N of a job is found by a digest of its key and by its user; so nobody
 *   else's record counts. It is made by whoever is first. The end of a chain is found by reading
 *   ahead, never by a listing; what is there is certain, and that nothing is there may be stale
 *   (L5).
 * - A node that agrees with no others keeps its chains in memory.
 * - What is kept is bounded: for each job its newest link, for each bound process a number. A
 *   process is forgotten after its end, a job when none of its processes is left and
 *   EPOCH_JOBS_KEPT others were needed since. Then what this host noticed of failures is lost
 *   (L2).
 *
 * Any thread; bind, fails and heard may wait for the records, and hold no lock meanwhile. The
 * lock of epochs.c (LOCK_EPOCHS) stands before that of liveness/job.c.
 *
 * Records stay when their job is over, as those of names do: a node that was held up may come
 * back to them. Whoever knows that no node lives removes them (coord_ops.forget).
 */
#ifndef ENGINE_EPOCH_EPOCHS_H
#define ENGINE_EPOCH_EPOCHS_H

#include "engine/coord/coord.h"
#include "engine/epoch/epoch.h"

#define EPOCH_JOBS_KEPT 64

struct epochs;

struct epochs_options {
	const struct coord_ops *coord; /* NULL: this node is alone */
	void *coord_arg;
	const char *node; /* the id of this mount, for the records; copied */
	const char *host; /* the boot id of this host; copied */
};

/* 0 or -ENOMEM. */
int epochs_create(struct epochs **out, const struct epochs_options *o);
void epochs_destroy(struct epochs *es); /* NULL is none */

/*
 * Binds @p, which acts as @owner, unless it is bound: its epoch. The caller has judged before
 * what has ended of that job on this node, and told epoch_fails what died: else a process that
 * was started since is of the epoch that fails (L5).
 *
 * 0. -ENODATA: @p was not read, so its job is not known; or its end cannot be seen, so it is
 * another struct at its next call. -ENOMEM. Another -errno: a record could not be read or made,
 * and the next call may succeed.
 */
int epoch_bind(struct epochs *es, struct process *p, const struct caller *owner, struct epoch *out);

/*
 * Something of epoch @of has failed with @err (positive errno), by the death of a process or for
 * another reason, at @at (in ticks, as process->start). A process that was started here since
 * counts as one of the next incarnation. So of a death @at is the last moment at which the
 * process was seen to live, not that at which its end was seen. @why is for those that are told.
 * @p, or NULL: the process that it befell, which alone is told if @of is local.
 *
 * 0: the epoch has ended, so what was open of it may be aborted (E2). -errno: unknown, call
 * again with the same arguments.
 */
int epoch_fails(struct epochs *es, const struct epoch *of, struct process *p,
		const struct caller *owner, uint64_t at, int err, const char *why);

/*
 * The job of @of has epoch @of->nr, as another node's record says, or as follows from one that
 * has failed (E2). 0. -EAGAIN: it is not to be seen here yet. Another -errno: the records cannot
 * be read.
 */
int epoch_heard(struct epochs *es, const struct epoch *of, const struct caller *owner);

/*
 * @p is about to begin or change a checkpoint. 0: it may. -ESTALE: it is of a former incarnation
 * of its job. Another -errno: an earlier checkpoint failed with it, which @p is told by this,
 * once; @why has the reason. A process that is not bound has nothing to hear.
 */
int epoch_tell(struct epochs *es, struct process *p, char *why, size_t size);

/* A record as text, and back. 0, -ENOMEM, or -EPERM: it is no link, or not number @nr. */
int epoch_link_write(const struct epoch_link *link, const char *node, char **text);
int epoch_link_read(const char *text, size_t len, uint64_t nr, struct epoch_link *link);

#endif
