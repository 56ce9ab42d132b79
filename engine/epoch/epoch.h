/* SPDX-License-Identifier: MIT */
/*
 * Incarnations of jobs (DESIGN 1, K7): the pure part. Which incarnation a process belongs to,
 * which of two is newer, and which processes have to hear of a failure. The one place that
 * compares jobs. No I/O, clock, lock or malloc; epochs.h has those.
 *
 * Words. The *job* is the key of liveness/job.h without the restart count at its end; its user
 * is part of it. The *count* is that count, "" where the launcher gives none. An *epoch* is one
 * incarnation, by its number. *Ticks* are a process's start in /proc/PID/stat, since the boot of
 * its host. Ticks of two hosts are never compared: a time that is recorded has the boot id of
 * its host beside it.
 *
 * E1  A job has a chain of links, epoch.1, epoch.2, ...: each written once, by the node that is
 *     first. A link says which count its processes have, which is the first epoch with that
 *     count, where and when it was seen to be due, and what ended the epoch before it. No number
 *     is given twice.
 * E2  A failure of epoch N makes link N+1 with the same count, before anything of epoch N is
 *     aborted. So a node that reads of something that failed in epoch N may ask for N+1
 *     (epoch_heard). Of several failures of epoch N the first makes the link; the others add
 *     nothing to the chain.
 * E3  A later count than that of the newest link makes the next link, whatever epoch that is.
 * E4  A process is bound once, at its first call of the job that can change something. One whose
 *     start is not known counts as started first of all.
 *     a. There is no chain: it makes epoch 1.
 *     b. Its count is later than the newest: it makes the next epoch (E3).
 *     c. Its count is earlier. A process of the newest count lives on this host, or the process
 *        was started here before such a one, or before the newest link was made here: it is of a
 *        former incarnation, and is refused. Else it is a run that a person has begun anew under
 *        the same name, and makes the next epoch.
 *     d. Its count is the newest, and no failure has happened with that count: it is of the
 *        newest epoch.
 *     e. Else the newest link follows a failure. This host noticed that failure, or another one
 *        of the same epoch: the process is of the newest epoch if it was started after that,
 *        else of the one that failed.
 *     f. Else, if it was started before this host last saw the chain end with the failed epoch,
 *        it is of that epoch.
 *     g. Else the count decides: a launcher that counts would have counted a start after the
 *        failure. So with a count the process is of the epoch that failed, without one it is of
 *        the newest.
 * E5  A process of a failed epoch is told once, at its next call that begins or changes a
 *     checkpoint, and is of the newest epoch from then on. Before that it begins, changes and
 *     joins nothing. If several epochs have failed since it was bound it is told of the last
 *     one.
 * E6  A process that is bound is never moved to an epoch of another count: it is refused
 *     instead.
 * E7  Something of epoch A meets something of epoch B of one job. Same: it joins. A newer: it
 *     supersedes. A older: it is refused. Epoch 0 is that of a process that E4c refuses: older
 *     than all.
 * E8  A weak key (a process session) stands for more than one job, on one host. It has epoch 1
 *     for ever and no records: its processes join each other, and only the process whose
 *     checkpoint failed is told (epochs.h).
 *
 * Limits. The manual pages have L1 and L2 to say as soon as the checkpoints ask this module.
 * L1  Without a count, a process that was started before a failure on another host, and whose
 *     host had not seen the job since, is taken for one of the new incarnation (E4g): it is not
 *     told, and begins anew alone what has failed. A rule whose end asks for nothing of the
 *     other ranks can commit that.
 * L2  With a count, a process that was started after a failure without being counted (a loop
 *     around the program, a run begun anew under the same name and count), on a host that
 *     noticed no failure of it, is told once of what befell its predecessor (E4g).
 * L3  A process that an old one starts after a failure that its host noticed counts as new
 *     (E4e).
 * L4  A process of a former incarnation whose first call comes on a host that knows nothing of
 *     the newest one is taken for a run begun anew (E4c). Nothing that lives is lost by it: a
 *     name that a live process has open is refused to others (DESIGN 4, point 7).
 * L5  The end of a chain that is read may be stale, and between a failure and its link time
 *     passes. A process is bound then as if it had called a moment earlier, and the name or the
 *     checkpoint that it meets tells its node of the newer epoch (E2). So without a count a
 *     process that was started in that time on another host may be told once of what befell its
 *     predecessor.
 */
#ifndef ENGINE_EPOCH_EPOCH_H
#define ENGINE_EPOCH_EPOCH_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/liveness/job.h"

#define EPOCH_COUNT_MAX 24
#define EPOCH_HOST_MAX	40
#define EPOCH_WHY_MAX	512

/* What a generation carries, and everything else that a process begins. */
struct epoch {
	char job[JOB_KEY_MAX];
	uint64_t nr;
	bool local; /* E8 */
};

enum epoch_order { EPOCH_SAME, EPOCH_NEWER, EPOCH_OLDER, EPOCH_OTHER_JOB };

/* What @a is to @b (E7). */
enum epoch_order epoch_order(const struct epoch *a, const struct epoch *b);

/* Splits @key, which process->key has, into the job and the count. */
void epoch_split(const char *key, char job[JOB_KEY_MAX], char count[EPOCH_COUNT_MAX]);

/* One link of a chain (E1). All of it is in the record. */
struct epoch_link {
	uint64_t nr, first; /* @first: the first epoch with this count; 0: there is no link */
	char count[EPOCH_COUNT_MAX];
	char host[EPOCH_HOST_MAX]; /* the boot id of the host that saw it to be due ... */
	/* ... and when, in ticks: where nr is first the start of a process, else the failure. */
	uint64_t at;
	int err; /* positive errno that ends the epoch before it; 0: nothing failed */
	char why[EPOCH_WHY_MAX];
};

/* What one host knows of a chain. Zeros: nothing. */
struct chain {
	struct epoch_link newest; /* that it knows */
	uint64_t looked;	  /* in ticks: when that was last seen to be the end */
	uint64_t before;	  /* so was one before @newest, or 0 */
	uint64_t failed;	  /* a failure of the epoch before @newest was noticed here, or 0 */
	uint64_t began; /* the earliest start here of a process with the newest count, or 0 */
};

/* What the rules ask of a process. */
struct epoch_facts {
	const char *host, *count;
	uint64_t start;
	bool newest_lives; /* a bound process with the newest count lives on this host */
};

/*
 * The chain has @link, which may be no news. @asked: it had no later one when this host asked
 * then, in ticks; 0: that is not known.
 */
void chain_learn(struct chain *c, const struct epoch_link *link, uint64_t asked);

enum epoch_place {
	EPOCH_BEGINS, /* it makes the link that chain_begin describes, unless another is first */
	EPOCH_NEWEST,
	/* Older than the newest, as if of the one before: to be told before it does anything. */
	EPOCH_BEHIND,
	EPOCH_FORMER, /* E4c */
};

/* Where a process belongs that is not bound yet (E4). */
enum epoch_place chain_place(const struct chain *c, const struct epoch_facts *f);

/* The link that such a process makes. */
void chain_begin(const struct chain *c, const struct epoch_facts *f, struct epoch_link *link);

/* The process @f is bound: its epoch. @place is not EPOCH_BEGINS. */
uint64_t chain_bind(struct chain *c, const struct epoch_facts *f, enum epoch_place place);

/*
 * Epoch @nr, which is known, has failed, and this host noticed it at @at. True: the link that
 * chain_follow describes is to be made. False: there is one already, and this host's notice is
 * kept beside it.
 */
bool chain_fails(struct chain *c, uint64_t nr, uint64_t at);

/* The link that follows the newest epoch, which failed. */
void chain_follow(const struct chain *c, const char *host, uint64_t at, int err, const char *why,
		  struct epoch_link *link);

/*
 * What a bound process of epoch *@nr, about to begin or change a checkpoint, has to hear (E5,
 * E6). 0: nothing. -ESTALE: it is of a former incarnation, and so it will be the next time. Else
 * -c->newest.err: it is told by this, and *@nr is the newest epoch from now on.
 */
int chain_tell(const struct chain *c, uint64_t *nr);

#endif
