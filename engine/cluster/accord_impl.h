/* SPDX-License-Identifier: MIT */
/*
 * What the files of engine/cluster that drive an accord share:
 *
 * - accord_join.c: names: a node begins a checkpoint, or finds one and joins it
 * - accord_late.c: what a process that begins a checkpoint has to hear of the one before
 * - accord_report.c: reports to the nodes above while the checkpoint is open, and from those below
 * - accord_death.c: a writer has died: whether the checkpoint had ended before
 * - accord_end.c: votes, decisions, failure
 * - accord_abort.c: reasons to abort
 * - accord_look.c: reads the records of other nodes
 * - accord_heir.c: a node that stands in for a lost root
 * - accord_left.c: what follows the commit, on all nodes
 * - accord_staged.c: the name that a staging directory is to get, for listings
 * - accord_files.c: files that other nodes write
 * - accord_clear.c: the removal of its records
 * - accord_drive.c: the thread that drives all of a mount
 */
#ifndef ENGINE_CLUSTER_ACCORD_IMPL_H
#define ENGINE_CLUSTER_ACCORD_IMPL_H

#include "engine/cluster/cluster.h"
#include "engine/cluster/vote_list.h"
#include "engine/save/accord_inside.h"

struct claim;

/*
 * Granularity of process start times. Too short: a process that was started just before an event
 * counts as started after it, so it belongs to the next incarnation.
 */
#define START_TICK_NS	  (NSEC_PER_SEC / 50)
#define REMOVED_MEANWHILE "files of it were removed when its end had just been seen"

/* --- lock held; "dropped": the function drops it meanwhile --- */

/* Lock not held. Writes the name that @cp is to get into its staging directory. */
void accord_stage_name(struct checkpoint *cp);

/*
 * Lock not held. @c had the name of @cp before. 0, or the error that the process which makes @cp
 * has to hear first.
 */
int accord_hear_of_former(struct checkpoint *cp, const struct claim *c);

/* True if there is news for the nodes above, and the next report may be sent. */
bool accord_may_report(struct accord *a);

/* True if news is held back for now. */
bool accord_is_pausing(struct accord *a);

/* The text of the next report, for the caller to free; or NULL. */
char *accord_compose_report(struct accord *a);

/* True if there is news that was not reported. */
bool accord_has_news(struct accord *a);

/* True if a process that wrote to the checkpoint, here or below, lives or did not end well. */
bool accord_has_living(struct checkpoint *cp);

/* As accord_refuse. */
bool accord_refuses(struct accord *a, int err, const char *reason);

/* Takes what a child has said, which may be malformed. */
void accord_take_news(struct accord *a, const struct agree_news *news);

/* Keeps what others have decided. False: @text is no decision. */
bool accord_keep_decision(struct accord *a, const char *text);

/*
 * Dropped. True if the record @kind is there and was taken. @text: room for COORD_TEXT_MAX and a 0.
 */
bool accord_look_at(struct accord *a, const char *kind, char *text);

/* Dropped. Reads the records that this node awaits. */
void accord_look(struct accord *a);

/* Dropped. Reads the votes behind a gap in the root's log (agreement_saw_behind). */
void accord_look_behind(struct accord *a);

/* Has an abort recorded with @reason, unless another decision is first. */
void accord_give_reason(struct accord *a, int err, bool dropped, bool ordinary, const char *reason);

/* The same, with @node, a label, as the node that failed. */
void accord_give_reason_of(struct accord *a, const char *node, int err, const char *reason);

/* Takes what a child reports of a death below it; and fills that in for the nodes above. */
void accord_hear_of_death(struct accord *a, const struct told *t);
void accord_tell_of_death(struct accord *a, struct told *t, char label[NODES_LABEL_MAX]);

/*
 * True if the next report may be the last: a death has ended the checkpoint, and all nodes below
 * have sent their last.
 */
bool accord_may_say_last(const struct accord *a);

/*
 * True if the nodes above have to hear of a death, of a removal, or that no more comes, before this
 * node votes.
 */
bool accord_owes_word(const struct accord *a);

/* The time here of @age_us ago, as a node says: at most now, and not before this clock began. */
uint64_t accord_ago(json_int_t age_us);

/* Dropped. After a death the root gives the verdict when all nodes have said their last. */
void accord_give_verdict(struct accord *a);

/*
 * The checkpoint fails for the death of @node. The cause is dated to the last sign of life of
 * @node: a process that was started later is of the next incarnation, as a rule.
 */
void accord_blames_node(struct accord *a, const char *node);

/* Dropped where a node may be dead. Aborts the checkpoint if a node on which it depends is dead. */
void accord_look_at_lives(struct accord *a);

/* True if votes have not come in time; @e names the missing nodes. */
bool accord_is_late(struct accord *a, struct error *e);

/*
 * Dropped. Writes the list that this node votes with, and votes, or has the vote go with `closed`.
 * False: it cannot vote yet.
 */
bool accord_vote(struct accord *a);

/*
 * Fills @lists with the lists that the children have voted with, and for an heir the root; returns
 * their number. The lists live as long as @a.
 */
unsigned accord_lists(const struct accord *a, struct vote_list lists[AGREE_FANOUT + 1]);

/*
 * Dropped. The root waits for the votes of others: it votes for what it has itself, and adds what
 * an heir has to know.
 */
bool accord_vote_early(struct accord *a);

/* This node becomes the heir of the root, if it may. */
void accord_stand_in(struct accord *a);

/* Lock not held. vote_list_write, with what waits here for the commit of @cp. */
int accord_write_list(struct checkpoint *cp, uint32_t slot, const struct vote_list *lists,
		      unsigned nr, json_t **own);

/* Dropped. After the commit of @a: does what waited for that on nodes that are dead. */
void accord_do_left(struct accord *a);

/*
 * Lock not held. The root of @gen is dead, and nothing is decided. True if the root has voted and
 * another participant lives, which decides.
 */
bool accord_is_left_to_heirs(struct units *us, uid_t uid, const char *gen);

/* For an heir: the root has died without a vote, which aborts the checkpoint. */
void accord_disinherit(struct accord *a);

/*
 * This mount ends. True if this node may vote for what it has, though the end was not seen: all of
 * that is whole, and no more comes.
 */
bool accord_may_leave(struct accord *a);

/* Dropped. The agreement is over: does what is left for this node. True: nothing is left. */
bool accord_conclude(struct accord *a);

/* Dropped. Removes the records if it is time. True: they are gone, or not this node's to remove. */
bool accord_clear(struct accord *a);

#endif
