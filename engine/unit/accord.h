/* SPDX-License-Identifier: MIT */
/*
 * A checkpoint that processes on several nodes write to: each node has it as its own struct
 * checkpoint, of one staging directory on the backing, and they agree on its end by
 * engine/coord/agreement.h, which is driven here.
 *
 * - Who makes its name first is the root: it sees the end, from what all report, and commits. A
 *   node that finds the name joins before the first of its processes sees it there. Where the root
 *   is lost after its vote, another node commits.
 * - What a node has durable when it votes it lists in a file of the staging directory, with what
 *   its children have listed; the root makes the commit file of that.
 * - What fails on one node is failed on all, by the decision, with its reason.
 *
 * One thread drives all of a mount. Only checkpoints of jobs whose ranks may be on other nodes have
 * an accord; for all others nothing of this is done.
 */
#ifndef ENGINE_UNIT_ACCORD_H
#define ENGINE_UNIT_ACCORD_H

#include <jansson.h>

#include "engine/unit/checkpoint.h"

struct accord;
struct agreement;

/* Are there others who could save what this mount sees? */
bool accord_has_others(const struct units *us);

/*
 * True if one has been seen to be there; for what may be wrong for a moment after another node
 * mounts.
 */
bool accord_may_meet_others(const struct units *us);

/* May a process on another node write to what @p begins? */
bool accord_is_for(const struct units *us, const struct process *p);

/*
 * Before @cp, which was just made by @p, is shown: 0: the name is its on all nodes, and it is the
 * root. -EEXIST: another node has begun one of the name, which accord_find finds. -EBUSY: of
 * another job; that is told. -errno.
 */
int accord_begin(struct checkpoint *cp);

/*
 * Is the name @at one that another node is saving, for the job of @c? Then this node joins it, and
 * shows it: 0, *@out referenced. 0 and NULL: no; or it is decided by now. Waits for that if its end
 * was seen, and for commit_timeout_s if nobody can be asked; unless @patient is false: then for a
 * moment, and -EAGAIN says that it is not known yet. -EINTR, -errno. @asks: the process of @c,
 * which may have ended since; NULL: it has not.
 */
int accord_find(struct units *us, const struct caller *c, struct process *asks,
		const struct place *at, bool patient, struct checkpoint **out);

/*
 * @owner's handle, as backing_owner, for what the job of @p saves: shared if that runs on several
 * nodes. @p NULL: it may. Lock not held.
 */
struct backing accord_backing(const struct units *us, const struct process *p,
			      const struct caller *owner);

/* --- lock held; each of no effect without an accord --- */

/*
 * Something was done to a name in it; NR_EVIDENCE_KINDS: it has lost that name
 * (checkpoint_vanished).
 */
void accord_event(struct checkpoint *cp, enum evidence_kind kind, const char *path, int rank);

/* It was renamed here: those who see its end have to know before that. */
void accord_tell_name(struct checkpoint *cp);

/* Something of it (NULL: of none) has changed: the driver looks. */
void accord_wake(struct checkpoint *cp);

/* On other nodes: is a file of it open; does a process live that wrote to it? */
bool accord_has_open(const struct checkpoint *cp);
bool accord_has_writers(const struct checkpoint *cp);

/* May there be something in it of which only other nodes know? */
bool accord_is_shared(const struct checkpoint *cp);

/* Is it for this node to see its end: is it the root? */
bool accord_sees_end(const struct checkpoint *cp);

/* May it be committed here, as far as that depends on other nodes? */
bool accord_may_commit(const struct checkpoint *cp);

/*
 * The process @p, which wrote to it, has died here. True: the end may have been before that, and
 * other nodes have yet to say so: it fails in a moment, unless that is so. False: it has to be
 * failed.
 */
bool accord_loses_writer(struct checkpoint *cp, const struct process *p);

/*
 * Has a process that wrote to it here ended, perhaps died, of which it is yet to be told? Until
 * then it has no end.
 */
bool accord_awaits_end_of_writer(struct checkpoint *cp);

/* Was its end seen, on another node, with nothing of it open here? */
bool accord_knows_end(struct checkpoint *cp);

/*
 * Has a process that wrote to it died, so that only what was done before is to end it? And one
 * without a rank?
 */
bool accord_is_bereaved(const struct checkpoint *cp);
bool accord_is_bereaved_of_unranked(const struct checkpoint *cp);

/* Does what happens to it on this node not count any more, for a death? */
bool accord_is_cut(const struct checkpoint *cp);

/* Is that so, and not judged yet? */
bool accord_is_in_doubt(const struct checkpoint *cp);

/*
 * Lock not held. A process of @c, who looks for the name, may be of a later start of its job: then
 * it waits until the death is judged, for commit_timeout_s at most, so that it does not take up
 * what will be gone in a moment. 0 or -EINTR.
 */
int accord_await_judgement(struct checkpoint *cp, const struct caller *c);

/*
 * Lock not held. Before a process that was started after @cp was begun changes it: is it open,
 * whatever this node has heard? One that was not would take what a later start of a job saves anew.
 * 0, also if that cannot be asked; or -EINTR.
 */
int accord_check_open(struct checkpoint *cp);

/*
 * If it fails now, since when is that? Since a death, of which this node may have heard; or now.
 * Monotonic.
 */
uint64_t accord_cause_ns(const struct checkpoint *cp);

/* When other nodes have told anything of it, last; 0: never. */
uint64_t accord_heard_ns(const struct checkpoint *cp);

/* Has this node left it (accord_leave), so that what becomes of it is the others' alone? */
bool accord_has_left(const struct checkpoint *cp);

/* It has ended on this node. */
void accord_ended(struct checkpoint *cp);

/* What this node knows of the others; NULL: it has no accord. */
const struct agreement *accord_agreement(const struct checkpoint *cp);

/*
 * Who has files of it open on the nodes of child @k of that, as these said last (others_open);
 * NULL: nobody.
 */
const json_t *accord_open_below(const struct checkpoint *cp, unsigned k);

/* Of how many nodes it is. */
unsigned accord_nodes(const struct checkpoint *cp);

/* --- lock not held --- */

/*
 * Can nodes other than this one write to it? The root hears of the first a moment after that has.
 */
bool accord_may_have_company(const struct checkpoint *cp);

/* Was the file of inode @id, in @cp, written by another node alone, as far as this one knows? */
bool accord_is_elsewhere(struct checkpoint *cp, const struct inode_id *id);

/*
 * Waits until such a file, @rel in @cp, @fd some descriptor of it, is whole: closed there, and
 * written back (rule V). 0, -EINTR, -ETIMEDOUT: nothing more of it has come for commit_timeout_s,
 * which is told; -errno.
 */
int accord_await_file(struct checkpoint *cp, const struct inode_id *id, const char *rel, int fd);

/*
 * Before @name is looked up in @dir (a descriptor), a directory of @cp: from here on it leads to
 * what other nodes have made of it. As backing_refresh_name.
 */
int accord_follow_name(struct checkpoint *cp, int dir, const char *name);

/* A file is being closed: other nodes see from here on which size it has. */
void accord_show_size(struct generation *g);

/* Takes what other nodes have listed into what is known of its files. Repeated: no effect. */
int accord_gather(struct checkpoint *cp, struct error *e);

/* After accord_loses_writer: the reason, if it fails for that. */
void accord_mourns(struct checkpoint *cp, const char *reason);

/*
 * Of an heir, COMMITTING: @cp is as the root knew it, its name and what that replaces. 0 or -errno.
 */
int accord_inherit(struct checkpoint *cp);

/* The same: how the end was seen, and of how many ranks. */
void accord_inherit_header(struct checkpoint *cp, struct commit_header *h);

struct order;

#define BEQUESTS_MAX 8	  /* pointers */
#define BEQUEST_TEXT 1024 /* bytes that one may say */

/* A pointer that waited on a lost root for the commit. */
struct bequest {
	char name[NAME_MAX + 1], text[BEQUEST_TEXT + 1]; /* what it says, or where the link leads */
	bool link;
	mode_t mode;
	uint64_t written_ns; /* wall clock */
};

/*
 * Lock not held. What the root of an heir has left: the @pointers, how many; and the @removals that
 * follow. 0: of who is none.
 */
size_t accord_bequests(struct checkpoint *cp, struct bequest pointers[BEQUESTS_MAX],
		       struct order *removals);

/* Is the last that happened to a name in it, on a node below, a removal? Units lock held. */
bool accord_hears_of_removing(const struct checkpoint *cp);
void accord_forget_removing(struct checkpoint *cp);

/*
 * True if another node may commit it at the same time: an heir, or the root that an heir takes for
 * dead.
 */
bool accord_has_heirs(struct checkpoint *cp);

/*
 * @cp cannot be committed here, for that reason. True: another node may have, so that it is for the
 * first decision whether it fails. False: it has to be failed.
 */
bool accord_refuse(struct checkpoint *cp, int err, const char *reason);

/* The commit of @cp is decided: what nodes have put into its staging directory for that goes. */
void accord_tidy(struct checkpoint *cp);

/* As decision_record: decides for the commit, or finds what was decided. */
int accord_decide(struct checkpoint *cp, const char *decision);

/*
 * The mount ends, and the end of @cp was not seen here. True: this node has voted for what it has,
 * which is all that it ever will, so that the others go on without it; or it has ended meanwhile.
 * False: the others need this node yet.
 */
bool accord_leave(struct checkpoint *cp);

/* True if it was decided, and is not for this node to commit: it ends by itself, as was decided. */
bool accord_is_decided_elsewhere(struct checkpoint *cp);

/*
 * What waited for its commit, here, is done: @all, or what is left is redone by the next mount, and
 * its records stay.
 */
void accord_followed(struct checkpoint *cp, bool all);

/*
 * Before it becomes an ordinary directory: 0: it is for this node to make it one. -EEXIST: another
 * did. -errno.
 */
int accord_make_ordinary(struct checkpoint *cp);

/*
 * It had the name @name in @dir, and has another now, by which other nodes are to find it. 0 or
 * -errno.
 */
int accord_renamed(struct checkpoint *cp, const struct inode_id *dir, const char *name);

/*
 * The name that the staging directory @fd, some descriptor of it, is to get, as it says itself:
 * what accord_find may find, but nothing that is so before it has. 0, -EBADMSG: none; or -errno.
 */
int accord_staged_name(struct backing *b, int fd, char name[NAME_MAX + 1]);

/* Does @cp, which this node shows as @name, say another one? */
bool accord_was_renamed(struct checkpoint *cp, const char *name, char now[NAME_MAX + 1]);

/*
 * Waits until what other nodes have removed is not shown any more as @name in @dir; with NULL, in
 * all of it. 0, -EINTR.
 */
int accord_shed(struct units *us, const struct inode_id *dir, const char *name);

/*
 * Before something is looked up in @cp: if another node has made it an ordinary directory, waits
 * until it is one here. 0; 1: none has, but may in the next moment, or may have, of which this
 * node's client of the backing does not know yet, unless it is @sure; or -errno.
 */
int accord_await_name(struct checkpoint *cp, bool sure);

/*
 * Before @cp, at @path, becomes an ordinary directory: which rule claims it by a file that another
 * node has made in it, of which this one has not heard yet? Or NULL.
 */
const struct rule *accord_rule_of_others(struct checkpoint *cp, const char *path);

/* It has got its name: it need not say that any more. */
void accord_has_name(struct checkpoint *cp);

/* What was begun is not shown after all, and dropped: others may have found it. */
void accord_never_shown(struct checkpoint *cp);

/* The text of a decision as it stands, without what the agreement puts before it. */
const char *accord_decision(const char *text, bool *commit);

/*
 * At mount, or later if that could not be then, of the generation @gen, of which nothing is
 * decided: if the mount that had this one's label began it, that is dead, and nobody need wait
 * until others have seen so. 0 or -errno.
 */
int accord_succeed(struct units *us, const struct caller *owner, const char *gen);

/*
 * Lock held. It fails for what was at @at_ns. True if nobody here is to be told: this node has
 * joined it, as one of its processes has looked at it, and none has anything in it. Who begins one
 * of that name is told then. A rank of the former start of a job may have looked at it just before
 * it died.
 */
bool accord_tells_none_locked(struct checkpoint *cp, uint64_t at_ns);

void accord_free(struct accord *a);

/*
 * Ends when units_stop is called, and what is to be told to other nodes was, for at most some
 * seconds.
 */
void *accord_main(void *units);

/* After that. */
void accords_finish(struct units *us);

#endif
