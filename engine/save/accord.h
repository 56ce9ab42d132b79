/* SPDX-License-Identifier: MIT */
/*
 * What this node knows of the other nodes that write to a checkpoint: its accord. Each node has a
 * struct checkpoint of its own, all of one staging directory on the backing. engine/cluster drives
 * the accord, and tells how the nodes agree (cluster.h).
 *
 * Only a checkpoint of a job whose ranks may be on other nodes has an accord; for others these
 * functions have no effect. The units' lock guards an accord, and callers hold it.
 */
#ifndef ENGINE_SAVE_ACCORD_H
#define ENGINE_SAVE_ACCORD_H

#include <jansson.h>

#include "engine/save/checkpoint.h"

struct accord;
struct agreement;

/*
 * A process has done @kind to the name @path here. NR_EVIDENCE_KINDS: a file has lost the name
 * (checkpoint_vanished).
 */
void accord_event(struct checkpoint *cp, enum evidence_kind kind, const char *path, int rank);

/*
 * A process here has renamed @cp. The nodes above must hear the new name before they see the end.
 */
void accord_tell_name(struct checkpoint *cp);

/* Wakes the driver: @cp (NULL: none) has changed. */
void accord_wake(struct checkpoint *cp);

/* True if a file of @cp is open on other nodes; if a process that wrote to @cp lives there. */
bool accord_has_open(const struct checkpoint *cp);
bool accord_has_writers(const struct checkpoint *cp);

/* True if other nodes have joined @cp, and may know of something in it that this node does not. */
bool accord_is_shared(const struct checkpoint *cp);

/* True if this node sees the end: it is the root. */
bool accord_sees_end(const struct checkpoint *cp);

/* True if this node may commit @cp, as far as that depends on other nodes. */
bool accord_may_commit(const struct checkpoint *cp);

/*
 * True if a process that wrote to @cp here has ended, and the daemon is about to hear how. Until
 * then no end is seen.
 */
bool accord_awaits_end_of_writer(struct checkpoint *cp);

/*
 * True if a writer of @cp has died: only what was done before can end @cp. The second: one without
 * a known rank.
 */
bool accord_has_dead_writer(const struct checkpoint *cp);
bool accord_has_dead_unranked_writer(const struct checkpoint *cp);

/* True if, after a death, no more of what happens to @cp on this node counts. */
bool accord_is_cut(const struct checkpoint *cp);

/* True if a writer of @cp has died, and this node does not know the verdict yet. */
bool accord_awaits_verdict(const struct checkpoint *cp);

/*
 * The time of the cause if @cp fails now, monotonic: of a death, perhaps on another node; else now.
 */
uint64_t accord_cause_ns(const struct checkpoint *cp);

/* When other nodes last told anything of @cp, at the earliest when it was begun. 0: no accord. */
uint64_t accord_heard_ns(const struct checkpoint *cp);

/* True if this node has left @cp (accord_leave): the other nodes decide what becomes of it. */
bool accord_has_left(const struct checkpoint *cp);

/* @cp has ended on this node. */
void accord_ended(struct checkpoint *cp);

/* What this node knows of the other nodes; NULL: @cp has no accord. */
const struct agreement *accord_agreement(const struct checkpoint *cp);

/*
 * Which processes have files open on the nodes of child @k and below, as last reported
 * (others_open). NULL: none.
 */
const json_t *accord_open_below(const struct checkpoint *cp, unsigned k);

/* The number of nodes: this one, and those for which its children have voted. */
unsigned accord_nodes(const struct checkpoint *cp);

/* Units lock held. True if the last operation on a name in @cp, on a node below, was a removal. */
bool accord_hears_of_removing(const struct checkpoint *cp);
void accord_forget_removing(struct checkpoint *cp);

/* True if @cp is decided, and this node does not commit it: the driver ends it as decided. */
bool accord_is_decided_elsewhere(struct checkpoint *cp);

/*
 * This node has done what waited for the commit of @cp. @all false: the next mount does the rest,
 * and the records stay.
 */
void accord_followed(struct checkpoint *cp, bool all);

void accord_free(struct accord *a);

#endif
