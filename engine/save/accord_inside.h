/* SPDX-License-Identifier: MIT */
/*
 * What an accord is made of (accord.h), for engine/cluster.
 *
 * dead writer: one that died before this node knew of an end of the checkpoint
 * awaits the verdict: this node does not know yet what the root decides after such a death
 * heir: the node that commits for a lost root; `for_heir`: what the root's vote tells it, beside
 * files; left pointer: one of these, a pointer that waits for the commit
 * casualty: a failure that processes of its job have to hear of, each once (casualty.h)
 * wreck: what a failed checkpoint leaves: its hidden staging directory (wreck.h)
 */
#ifndef ENGINE_SAVE_ACCORD_INSIDE_H
#define ENGINE_SAVE_ACCORD_INSIDE_H

#include "engine/coord/agreement.h"
#include "engine/coord/nodes.h"
#include "engine/record/told.h"
#include "engine/save/accord.h"
#include "engine/save/units.h"

struct for_heir;

struct child {
	bool open, writers, removing; /* as last reported */
	bool said_last;	 /* its last report is here: a death has ended the checkpoint */
	json_t *open_on; /* or NULL */
	unsigned nodes;	 /* of its subtree, when it has voted */
	json_t *list;	 /* vote_list.h; or NULL */
};

/* A writer has died before this node knew of an end (accord_death.c). */
struct dead_writer {
	uint64_t at_ns;	   /* earliest death known here; 0: none */
	uint64_t since_ns; /* since when this node knows */
	bool here;	   /* on this node: later changes here do not count */
	bool unranked;	   /* a dead writer has no known rank */
	char *reason;	   /* NULL: this node has not heard it yet */
	char *node;	   /* label of the node of the death; NULL: this one */
	bool said;	   /* reported to the nodes above */
};

struct accord {
	/* units lock */
	struct list link;      /* units->accords, while it is driven */
	struct checkpoint *cp; /* referenced while it is driven */
	struct agreement a;
	/*
	 * The key of the chain by which this node began the checkpoint; the generation before it
	 * that this node aborted for a dead root. "": none.
	 */
	char first[COORD_GEN_MAX], orphan[COORD_GEN_MAX];
	struct child children[AGREE_FANOUT + 1]; /* [AGREE_ROOT]: for an heir, the root's vote */
	json_t *events;				 /* to be reported: [[kind, path, rank], ...] */
	size_t sending;				 /* so many of them are in the report under way */
	/* The last report had no room for all of them: the next one follows at once. */
	bool more;
	bool said_open, said_writers, said_removing;
	const struct rule *said_rule;
	unsigned renames, saying_renames, said_renames; /* here; in the report; reported */
	unsigned said;					/* number of reports */
	uint64_t said_ns;
	uint64_t mark, marked_ns;  /* progress here, as of marked_ns */
	unsigned nr_heard;	   /* reports and votes */
	json_t *said_on, *seen_on; /* others_open: as reported; as it is since seen_ns */
	uint64_t seen_ns;
	unsigned corrections;		    /* reports that only correct said_on */
	char *payloads[AGREE_OF_ABORT + 1]; /* of a commit, and of an abort */
	struct dead_writer dead_writer;
	bool said_last, saying_last;	    /* the last report: sent; under way */
	bool saying_death, saying_unranked; /* in the report under way */
	bool judged;			    /* the root has given the verdict on a death */
	/* the root has heard of a removal since it saw the end: it leaves nothing to heirs */
	bool removed;
	json_t *list; /* that this node votes with; or NULL */
	/* accord_heir.c; NULL: the root has not voted early, or this node has not heard that */
	struct for_heir *for_heir;
	/* Lists are merged; the last call for records failed; concluded; records are removed. */
	bool gathered, failing, done, cleared;
	bool leaving, left; /* this mount ends; it has closed its part */
	/* What waited for its commit: all of it is done; some of it has to be redone. */
	bool followed, kept;
	uint64_t undecided_ns;	    /* begin of the last look that found no decision; 0: none */
	uint64_t heard_ns, over_ns; /* last word of other nodes; when decided. Monotonic */
	uint64_t doubted_ns;	    /* when the records were last asked for what was not heard */
	uint64_t cause_ns;	    /* when the cause of its failure was; 0: now */
	/* the same, if no process here was told (accord_tells_none_locked); else 0 */
	uint64_t untold_ns;
	uint64_t looked_behind_ns; /* last accord_look_behind */
	uint64_t stirred_ns;	   /* last event, here or elsewhere */
};

const char *accord_generation(const struct checkpoint *cp);

/* Gives @cp an accord whose root is the node @root. 0 or -ENOMEM. */
int accord_attach(struct checkpoint *cp, const char *root);

/* This node's part of the generation @gen, shown or to be shown; or NULL. */
struct checkpoint *accord_part(struct units *us, const char *gen);

#endif
