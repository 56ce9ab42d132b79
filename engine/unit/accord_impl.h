/* SPDX-License-Identifier: MIT */
/*
 * What the files of accord.h have between them:
 *
 * - accord.c: one of them, and what is asked of it
 * - accord_join.c: names: who begins what is shown, and who finds it and joins
 * - accord_late.c: what a process that begins one has to hear of the one before
 * - accord_report.c: what nodes tell those above while it is open, and hear from those below
 * - accord_death.c: a process has died: had it ended by that?
 * - accord_end.c: votes, decisions, failure
 * - accord_heir.c: a node that stands in for the root
 * - accord_bequest.c: what follows the commit, for that node
 * - accord_staged.c: which name a staging directory is to get, for who lists
 * - accord_files.c: files that other nodes write
 * - accord_clear.c: when its records go
 * - accord_drive.c: the thread that drives all of a mount
 */
#ifndef ENGINE_UNIT_ACCORD_IMPL_H
#define ENGINE_UNIT_ACCORD_IMPL_H

#include "engine/coord/agreement.h"
#include "engine/unit/accord.h"
#include "engine/unit/internal.h"
#include "engine/unit/vote.h"

#define START_TICK_NS	  (NSEC_PER_SEC / 50) /* no start of a process is known better */
#define REMOVED_MEANWHILE "files of it were removed when its end had just been seen"

struct claim;

struct child {
	bool open, writers, removing; /* as it said last */
	bool said_last;	 /* of a checkpoint that a death has ended: all that happened below */
	json_t *open_on; /* or NULL */
	unsigned nodes;	 /* of its subtree, when it has voted */
	json_t *list;	 /* vote.h; or NULL */
};

/* A process that wrote to it has died before this node knew of an end (accord_death.c). */
struct bereavement {
	uint64_t at_ns;	   /* when, as far as is known here; 0: none has */
	uint64_t since_ns; /* since when this node knows */
	bool here;	   /* on this node: what happens here since does not count */
	bool unranked;	   /* one has whose rank nobody knows */
	char *reason;	   /* NULL: not told yet */
	char *node;	   /* where, by its label; NULL: here */
	bool said;	   /* to those above */
};

struct accord {
	/* units lock */
	struct list link;      /* units->accords, while it is driven */
	struct checkpoint *cp; /* referenced while it is */
	struct agreement a;
	/*
	 * "", or: the key of the chain by which this node began it; what it decided for a dead node
	 * before that.
	 */
	char first[COORD_GEN_MAX], orphan[COORD_GEN_MAX];
	struct child
		children[AGREE_FANOUT + 1]; /* AGREE_ROOT: of an heir, what the root has voted */
	json_t *events;			    /* to be reported: [[kind, path, rank], ...] */
	size_t sending;			    /* of these are in the report that is under way */
	bool more; /* there was no room for all of them in the last: the next one follows at once */
	bool said_open, said_writers, said_removing;
	const struct rule *said_rule;
	unsigned renames, saying_renames, said_renames; /* of which those above are to hear */
	unsigned said;					/* reports */
	uint64_t said_ns;
	uint64_t mark, marked_ns;  /* how far it had come here, when that was looked at last */
	unsigned nr_heard;	   /* reports and votes */
	json_t *said_on, *seen_on; /* others_open: as it was said, and as it is since seen_ns */
	uint64_t seen_ns;
	unsigned corrections;		    /* reports that were sent for that alone */
	char *payloads[AGREE_OF_ABORT + 1]; /* of a commit, and of an abort */
	struct bereavement bereaved;
	bool said_last,
		saying_last; /* as of a child: to those above; in the report that is under way */
	bool saying_death, saying_unranked; /* in that */
	bool judged;			    /* the root has, for a death */
	/* the root has heard of a removal since it saw the end: it leaves nothing to heirs */
	bool removed;
	json_t *list; /* that this node votes with; or NULL */
	/* accord_heir.c; NULL: the root has not voted early, or this node has not heard that */
	json_t *testament;
	bool gathered, failing, done, cleared; /* its records are */
	bool leaving, left; /* this mount ends; and has closed its part for that */
	bool followed,
		/* what waited for its commit: all of that is done; something has to be redone */
		kept;
	uint64_t undecided_ns;	    /* a look that began then found no decision; 0: none has */
	uint64_t heard_ns, over_ns; /* of others, last; monotonic */
	uint64_t cause_ns;	    /* of its failure: when that was; 0: now */
	/* of the same, if no process here was told of it (accord_tells_none_locked); 0: else */
	uint64_t untold_ns;
	uint64_t looked_behind_ns; /* accord_look_behind, last */
	uint64_t stirred_ns;	   /* anything happened, here or elsewhere, last */
};

const char *accord_generation(const struct checkpoint *cp);

/* Lock not held. Its staging directory tells the name that it is to get. */
void accord_stage_name(struct checkpoint *cp);

/* --- lock held; "dropped": and dropped meanwhile --- */

/* Makes that of @cp, whose root is the node @root. 0 or -ENOMEM. */
int accord_attach(struct checkpoint *cp, const char *root);

/*
 * Without the lock. What had the name of @cp is @c. 0, or the error that the process which makes
 * @cp has to hear first.
 */
int accord_hear_of_former(struct checkpoint *cp, const struct claim *c);

/* This node's part of a generation, shown or to be shown; or NULL. */
struct checkpoint *accord_part(struct units *us, const char *gen);

/* Is there something to tell those above, and is it time to? */
bool accord_may_report(struct accord *a);

/* Is there a report that is held back for now? */
bool accord_is_pausing(struct accord *a);

/* The text of one, for the caller to free; or NULL. */
char *accord_compose_report(struct accord *a);

/* Is there more to say than was said? */
bool accord_has_news(struct accord *a);

/* Is there a process that has not ended well, here or below, and has written to it? */
bool accord_has_living(struct checkpoint *cp);

/* As accord_refuse. */
bool accord_refuses(struct accord *a, int err, const char *reason);

/* What a child has said, which is not believed to be well-formed. */
void accord_take_news(struct accord *a, const struct agree_news *news);

/* Dropped. Looks at the records that it waits for. */
void accord_look(struct accord *a);

/* Dropped. The same of votes that lie behind one which is missing. */
void accord_look_behind(struct accord *a);

/* What is decided for, unless somebody was quicker. */
void accord_give_reason(struct accord *a, int err, bool dropped, bool ordinary, const char *reason);

/* The same, of the node @node, by its label. */
void accord_give_reason_of(struct accord *a, const char *node, int err, const char *reason);

/* What a child has said of a death below it, or NULL: it has not; and the same for those above. */
void accord_hear_of_death(struct accord *a, const json_t *dead);
json_t *accord_tell_of_death(struct accord *a);

/* May the next report be the last: has a death ended it, and have all below told all? */
bool accord_may_say_last(const struct accord *a);

/*
 * Have those above to hear of a death, of a removal, or that no more comes, before this node votes?
 */
bool accord_owes_word(const struct accord *a);

/* What was @age_us ago, as somebody says: not later than now, and not before this clock began. */
uint64_t accord_ago(json_int_t age_us);

/* Dropped. Has a writer died? Then it has ended as far as everybody has come, or it fails. */
void accord_judge(struct accord *a);

/*
 * It fails for the death of @node, which was when that last showed life, or later: whoever was
 * started since is of the next start of its job, as a rule.
 */
void accord_blames_node(struct accord *a, const char *node);

/* Dropped where somebody may be dead. Does everybody live on whom it depends? */
void accord_look_at_lives(struct accord *a);

/* The votes did not come: who is missing. */
bool accord_is_late(struct accord *a, struct error *e);

/*
 * Dropped. Writes down what this node votes with, and votes, or will when it closes. False: it is
 * not the time to.
 */
bool accord_vote(struct accord *a);

/*
 * What its children have voted with, and the root if it has: that stays as long as @a does. How
 * many.
 */
unsigned accord_lists(const struct accord *a, struct vote_list lists[AGREE_FANOUT + 1]);

/*
 * Dropped. The root waits for the votes of others: it votes for what it has itself, and says what
 * an heir has to know.
 */
bool accord_vote_early(struct accord *a);

/* Becomes the heir of the root, if it is time to. */
void accord_stand_in(struct accord *a);

/* Lock not held. The pointers that wait for it here, for an heir, and in @order the removals. */
json_t *accord_bequeath(struct checkpoint *cp, struct order *order);

/* Of an heir: the root's vote @o was heard. */
void accord_hear_testament(struct accord *a, json_t *o);

/*
 * Lock not held. The root of @gen is dead, and nothing is decided: has it voted, and lives one of
 * the others, so that it is for these to decide?
 */
bool accord_is_left_to_heirs(struct units *us, uid_t uid, const char *gen);

/* Of an heir: the root has not voted. */
void accord_disinherit(struct accord *a);

/*
 * This mount ends: may it vote for what it has, though the end was not seen? All of that is whole,
 * and no more comes.
 */
bool accord_may_leave(struct accord *a);

/* Dropped. It was decided; what is left for this node. True: nothing. */
bool accord_conclude(struct accord *a);

/* Dropped. Its records go, if it is time. True: they went, or are not this node's to remove. */
bool accord_clear(struct accord *a);

#endif
