/* SPDX-License-Identifier: MIT */
/*
 * A checkpoint that processes on several nodes write to. Each participant has its own struct
 * checkpoint, all of one staging directory on the backing. The nodes agree on its end by
 * engine/coord/agreement.h, which this module drives.
 *
 * - The node that first makes the checkpoint's name is the root, which sees the end from what all
 *   nodes report, and commits. A node that finds the name joins before the first of its processes
 *   sees it there. If the root is lost after its vote, another node commits, the heir.
 * - A node votes with a list of its durable files, and of those of its children (vote_list.h).
 *   The root makes the commit file of these lists.
 * - A failure on one node fails the checkpoint on all: the decision record has the reason.
 *
 * One thread drives all of a mount. Only a checkpoint of a job whose ranks may be on other nodes
 * has an accord; for others this module does nothing. The units' lock guards an accord. The module
 * does not judge what ends a checkpoint (gen/verdict.h), and writes no commit file (commit_file.c).
 * other_nodes.h has what other rooms ask.
 */
#ifndef ENGINE_CLUSTER_CLUSTER_H
#define ENGINE_CLUSTER_CLUSTER_H

#include "engine/save/accord.h"

struct commit_header;

/*
 * Before @cp, which @p has just made, is shown. 0: @cp has its name on all nodes, and this node is
 * the root. -EEXIST: another node has begun a checkpoint of the name, which accord_find finds.
 * -EBUSY: a checkpoint of another job has the name; failures.json says so. -errno.
 */
int accord_begin(struct checkpoint *cp);

/*
 * The process @p, which wrote to @cp, has died here. True: @cp may have ended before, and other
 * nodes have yet to say so; else it fails in a moment. False: the caller has to fail @cp.
 */
bool accord_loses_writer(struct checkpoint *cp, const struct process *p);

/* True if the end is fixed, on this node or another, and no file of @cp is open. */
bool accord_knows_end(struct checkpoint *cp);

/*
 * Lock not held. Reads the decision record before a process that was started after @cp was begun
 * changes @cp. This node's view may be stale, and a newer incarnation must not write into a decided
 * checkpoint. 0, also if the record cannot be read; or -EINTR.
 */
int accord_check_open(struct checkpoint *cp);

/* Merges the lists of other nodes into what is known of the files of @cp. Repeated: no effect. */
int accord_gather(struct checkpoint *cp);

/* After accord_loses_writer: @reason, in case @cp fails for that death. */
void accord_set_death_reason(struct checkpoint *cp, const char *reason);

/*
 * For an heir, with @cp COMMITTING: @cp gets the name that the root knew, and replaces what the
 * root knew of. 0 or -errno.
 */
int accord_inherit(struct checkpoint *cp);

/* The same for the header: the evidence of the end, and the number of ranks. */
void accord_inherit_header(struct checkpoint *cp, struct commit_header *h);

/*
 * True if another node may commit @cp at the same time: an heir, or the root that an heir takes for
 * dead.
 */
bool accord_has_heirs(struct checkpoint *cp);

/*
 * @cp cannot be committed here, for @reason. True: another node may have committed it, so the first
 * decision counts. False: the caller has to fail @cp.
 */
bool accord_refuse(struct checkpoint *cp, int err, const char *reason);

/* The commit of @cp is decided: removes what nodes have put into its staging directory to agree. */
void accord_tidy(struct checkpoint *cp);

/* As decision_record: records the commit, or finds the decision that stands. */
int accord_decide(struct checkpoint *cp, const char *decision);

/*
 * The mount ends, and the end of @cp was not seen here. True: this node has voted for what it has,
 * which is final, and the others go on without it; or @cp has ended meanwhile. False: the other
 * nodes still need this node.
 */
bool accord_leave(struct checkpoint *cp);

/*
 * Before @cp becomes an ordinary directory. 0: this node makes it one. -EEXIST: another node did,
 * or decided otherwise. -errno.
 */
int accord_make_ordinary(struct checkpoint *cp);

/*
 * @cp had the name @name in @dir, and has another one now: records that, so that other nodes find
 * it. 0 or -errno.
 */
int accord_renamed(struct checkpoint *cp, const struct inode_id *dir, const char *name);

/*
 * Before @cp, at @path, becomes an ordinary directory: the rule that claims it by a file which
 * another node has made, and not reported yet. NULL: none.
 */
const struct rule *accord_rule_of_others(struct checkpoint *cp, const char *path);

/* @cp has got its name: its directory need not say the name any more. */
void accord_has_name(struct checkpoint *cp);

/* @cp was begun, but is not shown: drops it. Other nodes may have found it. */
void accord_never_shown(struct checkpoint *cp);

/*
 * At mount, or later if that could not be then. Nothing is decided of the generation @gen: if the
 * former mount with this one's label began it, aborts it unless heirs can commit it. That mount is
 * dead, and no node need wait until it has seen so. 0 or -errno.
 */
int accord_abort_for_former_mount(struct units *us, const struct caller *owner, const char *gen);

/*
 * Lock held. @cp fails for a cause at @at_ns. True if no process here is told: this node has joined
 * @cp because a process looked at it, and none has anything in it. The next process that begins a
 * checkpoint of the name is told (accord_late.c). The reason: a rank of an earlier incarnation may
 * have looked at @cp just before it died.
 */
bool accord_tells_none_locked(struct checkpoint *cp, uint64_t at_ns);

/*
 * The driver, which ends after units_stop, when other nodes were told what they must hear, or after
 * some seconds.
 */
void *accord_main(void *units);

/* After the driver has ended: drops what it drove. */
void accords_finish(struct units *us);

#endif
