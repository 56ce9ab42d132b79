/* SPDX-License-Identifier: MIT */
/*
 * How the nodes that write to one generation agree on its end: two-phase commit, by write-once
 * records alone (coord.h); ckptfs-coordination(7) explains it to users. This module is the part of
 * one node in one generation. It does no I/O, reads no clock, takes no lock and allocates no
 * memory. Its driver performs what agreement_next asks for, one operation at a time, and passes on
 * the answer. The same code is explored exhaustively, simulated for 10^4 nodes, and run in the
 * daemon.
 *
 * - The nodes are a tree. The node that began the generation (record `open`) is the root, in slot
 *   0. Each slot has a log, the records log.SLOT.0, log.SLOT.1, ...: a node appends an entry by
 *   making the first record that is missing. A node joins by an entry `join` in the log of a slot
 *   with fewer than AGREE_FANOUT children, else it descends to one of those children. So every
 *   taken slot has a parent. Slots are numbered as in a heap.
 * - A child tells its parent in entries `report` what it has seen of the end. The root hears from
 *   all nodes and sees the end.
 * - Then, or when the root hears that a writer has died, it makes the record `prepare`: the length
 *   of its log, which children have voted, and whether it was a death. On `prepare` every node
 *   appends `closed` to its own log. A node that joined before `closed` takes part; a later one
 *   does not, and waits for the decision. A node votes for its whole subtree, by an entry `vote` in
 *   its parent's log, when all that it has is durable and all its children have voted.
 * - A node that must leave before the end is seen, and that has nothing more to add, appends
 *   `closed` and votes at once. A joining node that finds a log closed tries the sibling slots.
 * - The root records the `decision` commit once all have voted. Any node records `abort`, at any
 *   time, for a failure; a parent does for a child that died before its vote. The first decision
 *   counts.
 * - While the root waits for the votes of others, it appends its own `vote` to its log, which then
 *   has all votes. A node that finds all its ancestors dead goes on, votes, and becomes an heir: it
 *   reads the root's log and stands in for the root. The heir waits for the missing votes and
 *   appends `heir`, and has then read the whole log. It records `commit` if the root has voted,
 *   else `abort`. A node that does not know of the end yet records `abort` at once. Several heirs,
 *   or a root that was only taken for dead, do no harm: the first decision counts.
 *
 * The node that clears up after a generation that is over removes `open` first. A node that was
 * held up meanwhile may find records missing, and make them: so a join and a decision count only if
 * `open` still stands afterwards. Where a record can be made on the condition that `open` stands
 * (coord_ops.record_open), a decision counts at once. There a node without children closes its log
 * and votes in one step, if all it has is durable when the end is seen.
 *
 * The states of one node's part (set_state; a new one is JOINING, and at once OPEN for the root):
 *
 *        JOINING -----> OPEN -----> PREPARED -----> VOTED
 *                 (a)         (b)            (c)
 *
 *       VOTED        -> PREPARED  as an heir, in slot 0 (g)
 *       each of them -> COMMIT, ABORT   it was decided (d)
 *       each of them -> LATE            the generation is over, and cleared up (e)
 *       JOINING      -> LATE            every log is closed, or the tree is full (f)
 *
 *   (a) looked                 (b) prepared, agreement_end, agreement_leave    (c) has_voted
 *   (d) decided, if guarded; else looked, as `open` still stands
 *   (e) looked, agreement_answer     (f) descend, turn_back      (g) agreement_stand_in
 *
 *   JOINING     `slot` is where this node looks for a place; it may not write to the generation
 *   OPEN        `slot` is its own: its log grows, children join, reports go up
 *   PREPARED    the end is fixed; after `closed` no node joins. Files open here get closed
 *   VOTED       what this node has is durable and does not change. `vote`: to be recorded yet
 *   COMMIT, ABORT, LATE  final; agreement_next asks for nothing more
 *
 * A node reads its own log, `prepare` and `decision`. So it waits for three records at a time and
 * hears AGREE_FANOUT children, whatever the number of nodes (the tree of ByteCheckpoint 5.2, with
 * records instead of messages).
 */
#ifndef ENGINE_COORD_AGREEMENT_H
#define ENGINE_COORD_AGREEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/base/machine.h"
#include "engine/coord/coord.h"

#define AGREE_FANOUT	16
#define AGREE_HEAD_MAX	80 /* of an entry: what, slot and node; the payload follows */
#define AGREE_AWAITS	3
#define AGREE_DEPTH_MAX 32
#define AGREE_SLOT_MAX	2000000000u
#define AGREE_ROOT	AGREE_FANOUT /* agree_news.child: the root, whose vote an heir hears */

enum agree_state {
	AGREE_JOINING, /* this node may not write to the generation yet */
	AGREE_OPEN,
	AGREE_PREPARED, /* the end is fixed */
	AGREE_VOTED,	/* nothing of this node may change any more; the root decides */
	AGREE_COMMIT,	/* decided; this state and the next two are final */
	AGREE_ABORT,
	/*
	 * the logs were closed before this node came, or the generation is over: nothing of this
	 * node is in it
	 */
	AGREE_LATE
};

extern const struct machine agreement_machine;

enum agree_entry { AGREE_JOIN, AGREE_REPORT, AGREE_VOTE, AGREE_CLOSED, AGREE_HEIR };

struct agree_child {
	char node[COORD_NODE_MAX];
	bool voted;
	bool ahead; /* its vote was read behind a gap (agreement_saw_behind) */
};

/* A plain value. All members are private, but may be read. */
struct agreement {
	char node[COORD_NODE_MAX];
	unsigned fanout;
	enum agree_state state;
	uint32_t slot;	  /* while joining: the slot whose log is read */
	uint32_t next;	  /* the entry of the log of @slot to be read next */
	uint32_t up_next; /* the first entry of the parent's log that may be free */
	uint32_t vote_at; /* a later one, for the vote; or 0. See prepared(), is_prepared() */
	unsigned turns;	  /* while joining: how many closed logs were met */
	unsigned nr_children;
	struct agree_child children[AGREE_FANOUT];
	unsigned depth, watched; /* of @slot; of the ancestor whose life is watched */
	char above[AGREE_DEPTH_MAX][COORD_NODE_MAX]; /* from the root down to the parent */
	bool joined, undecided;	      /* while joining: has a slot; then found no decision */
	bool decided, commit;	      /* read or recorded; counts once `open` is seen to stand */
	char decider[COORD_NODE_MAX]; /* the node that recorded it; "": unknown */
	bool closed, prepared;	      /* this node's log has `closed`; the root's record is there */
	bool died;		      /* PREPARED and later: a death fixed the end */
	unsigned reports, reported; /* number of the newest report to send; of the last one sent */
	bool vote, abort;	    /* to be recorded */
	bool ready;		    /* the vote goes with `closed`, unless a node joins before */
	bool early;		    /* the root's own vote is to be recorded */
	bool root_voted;	    /* the root's own vote is recorded */
	bool orphan;		    /* all ancestors are dead */
	bool heir;		    /* this node stands in for the root */
	bool at_end;		    /* the heir has read the whole log of the root */
	bool doubt;		    /* `open` is to be read: the generation may be over */
	/*
	 * Set by the driver if a RECORD succeeds only while `open` stands. A NULL answer to it then
	 * says that the generation is over.
	 */
	bool guarded;
};

/* The operation that the driver performs next. */
struct agree_op {
	enum { AGREE_IDLE, AGREE_READ, AGREE_RECORD } what;
	char kind[COORD_KIND_MAX];
	enum {
		AGREE_NONE,
		AGREE_OF_REPORT,
		AGREE_OF_VOTE,
		AGREE_OF_COMMIT,
		AGREE_OF_ABORT
	} payload;
	unsigned report; /* its number */
	/*
	 * RECORD, or "": a second record, made together with the first or not at all; its payload
	 * is AGREE_OF_VOTE. The driver may empty it.
	 */
	char also[COORD_KIND_MAX], also_head[AGREE_HEAD_MAX];
	/* RECORD: the text of the record is this head and the payload, which the driver has */
	char head[AGREE_HEAD_MAX];
};

/* What an entry of a log, or an answer, has brought. */
struct agree_news {
	bool any;
	enum agree_entry entry; /* made by a child; not CLOSED */
	unsigned child;		/* index of the child, or AGREE_ROOT */
	const char *payload;	/* points into the text that was passed */
};

/* @root: the node that began the generation, maybe @node itself. @fanout: at most AGREE_FANOUT. */
void agreement_begin(struct agreement *a, const char *node, const char *root, unsigned fanout);

/*
 * IDLE: no operation, until a record that agreement_awaits names is there, or the driver calls one
 * of the functions below. As long as an operation has no answer, the same one is asked for again.
 */
void agreement_next(const struct agreement *a, struct agree_op *op);

/*
 * @text: the record that stands now (a string), also if it is the one to be recorded (@ours). NULL:
 * READ found nothing; or a guarded RECORD found the generation over. @news: what concerns the
 * driver. The driver calls no agreement_saw between an operation and its answer.
 */
void agreement_answer(struct agreement *a, const struct agree_op *op, bool ours, const char *text,
		      struct agree_news *news);

/*
 * Fills in the kinds of the records to wait for, the likeliest first, and returns their number. The
 * driver passes each one that appears, with its text, to agreement_saw.
 */
unsigned agreement_awaits(const struct agreement *a, char kinds[AGREE_AWAITS][COORD_KIND_MAX]);
void agreement_saw(struct agreement *a, const char *kind, const char *text,
		   struct agree_news *news);

/*
 * Takes an entry of this node's own log that lies behind a gap, which agreement_awaits never names.
 * A child that has voted there is not watched any more. The vote itself counts when it is read
 * again, after the gap is filled: the child may have reported in the gap. An entry lies at most
 * AGREE_BEHIND behind the first missing one.
 */
#define AGREE_BEHIND (2 * AGREE_FANOUT)
void agreement_saw_behind(struct agreement *a, const char *text, struct agree_news *news);

/*
 * Fills in the nodes whose life matters: the children that have not voted, and one ancestor.
 * Returns their number, at most AGREE_FANOUT + 1.
 */
unsigned agreement_watches(const struct agreement *a, const char *nodes[AGREE_FANOUT + 1]);

/*
 * @node is taken for dead. The driver has first looked for what @node said last, and for `prepare`.
 * True: the driver has to give a reason for AGREE_OF_ABORT.
 */
bool agreement_dead(struct agreement *a, const char *node);

/*
 * True if all ancestors of this node are dead and its vote is recorded: it may become the heir of
 * the root.
 */
bool agreement_may_stand_in(const struct agreement *a);

/*
 * Makes this node the heir. From here on it acts as the root, and hears the votes of the root's
 * children and of AGREE_ROOT.
 */
void agreement_stand_in(struct agreement *a);

/* Not the root: there is a report to send, or a newer one. */
void agreement_report(struct agreement *a);

/*
 * The pause between the last of @said reports and the next, in units of the time that one record
 * takes. What comes up meanwhile goes with the next. So a child sends its parent a number of
 * reports that is logarithmic in the length of the save, however many nodes are below the child,
 * until the pause reaches AGREE_PAUSE_MAX.
 */
#define AGREE_PAUSE_MAX 64
static inline unsigned agreement_pause(unsigned said)
{
	return !said ? 0 : said > 6 ? AGREE_PAUSE_MAX : 1u << (said - 1);
}

/*
 * Root only: the end was seen. @died: a writer has died instead, and the end is as far as each node
 * has come.
 */
void agreement_end(struct agreement *a, bool died);

/*
 * Not the root, and the end was not seen yet: this node has nothing more to add, its ancestors have
 * heard of all it has, and its children have voted. From here on it proceeds as if the end was
 * seen. Else the call has no effect.
 */
void agreement_leave(struct agreement *a);

/*
 * True if this node has heard all that the vote for its subtree, or the root's decision, needs from
 * others.
 */
bool agreement_may_vote(const struct agreement *a);

/* True if child @k has voted and everything that it said before was read. */
bool agreement_has_all_of(const struct agreement *a, unsigned k);

/* True if this node may close its log and vote at once, unless another node joins first. */
bool agreement_may_close(const struct agreement *a);

/*
 * The payload is ready and final: what this node has is durable and does not change. Called once
 * agreement_may_vote or agreement_may_close is true. If a node joins after the latter, it is called
 * again.
 */
void agreement_vote(struct agreement *a);

/* True if the root, which waits for votes of others, may vote for what it has itself. */
bool agreement_may_vote_early(const struct agreement *a);

/*
 * Lets it vote: what the root has is durable and does not change. The payload is AGREE_OF_VOTE.
 * agreement_vote follows once agreement_may_vote is true.
 */
void agreement_vote_early(struct agreement *a);

/* The generation has failed. Any node may call this, at any time. */
void agreement_abort(struct agreement *a);

/*
 * Nothing was heard for long, or this node was held up: the generation may be over and cleared up.
 * The driver repeats the call as long as something is awaited.
 */
void agreement_doubt(struct agreement *a);

/* True if this node recorded the decision, and so has to carry it out. */
static inline bool agreement_is_decider(const struct agreement *a)
{
	return a->decided && !strcmp(a->decider, a->node);
}

static inline bool agreement_is_root(const struct agreement *a)
{
	return !a->slot && a->state != AGREE_JOINING && a->state != AGREE_LATE;
}

static inline bool agreement_is_over(const struct agreement *a)
{
	return a->state >= AGREE_COMMIT;
}

/*
 * The texts of the records, which agreement_text.c alone writes and reads. A head is the whole text
 * of a record without payload; else a space and the payload follow. In the reading functions false
 * says that @text is something else.
 */

/* The text of a record, for the caller to free; NULL: no memory. @payload: "" for none. */
char *agreement_text(const char *head, const char *payload);

/* Entries of logs: "report 17 9bc4c03b35e5828fe4b49aa7cefefdb2 {...}" of that slot and node. */
void agreement_write_entry(char head[AGREE_HEAD_MAX], enum agree_entry what, uint32_t slot,
			   const char *node);
bool agreement_read_entry(const char *text, enum agree_entry *what, uint32_t *slot,
			  char node[COORD_NODE_MAX], const char **payload);

/*
 * `decision`: "commit NODE {...}" (decision.h has the payload), "abort NODE {...}" (refusal.h). A
 * checkpoint of one node has the payload only.
 */
struct agree_decision {
	bool commit;
	char node[COORD_NODE_MAX]; /* "": unknown */
	const char *payload;	   /* points into the text; "": none */
};

void agreement_write_decision(char head[AGREE_HEAD_MAX], bool commit, const char *node);
bool agreement_read_decision(const char *text, struct agree_decision *d);

/* `prepare`: "prepare 9bc4c03b35e5828fe4b49aa7cefefdb2 17 5 ended" */
struct agree_prepare {
	char node[COORD_NODE_MAX];
	uint32_t length; /* of the root's log */
	unsigned voted;	 /* a bit for each child of the root that voted before `prepare` */
	bool died;	 /* a writer died; else the end was seen */
};

void agreement_write_prepare(char head[AGREE_HEAD_MAX], const struct agree_prepare *p);
bool agreement_read_prepare(const char *text, struct agree_prepare *p);

#endif
