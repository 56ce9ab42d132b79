/* SPDX-License-Identifier: MIT */
/*
 * How the nodes that write to one generation agree on its end (DESIGN 4): two-phase commit, by
 * write-once records alone (coord.h). This is what one node does for one generation; no I/O, no
 * clock, no memory: who drives it performs what agreement_next asks for, one at a time, and tells
 * the answer. The same code is explored exhaustively, simulated for 10^4 nodes, and run in the
 * daemon.
 *
 * - The nodes are a tree. Who began the generation (its record `open`) is the root, in slot 0. Each
 *   slot has a log, the records log.SLOT.0, log.SLOT.1, ...: an entry is appended by making the
 *   first that is not there. A node joins by an entry `join` in the log of a slot that has fewer
 *   than AGREE_FANOUT yet, else goes down to one of its children: so every slot that is taken has a
 *   parent. Slots are numbered as in a heap.
 * - A child tells its parent what it has seen of the end in entries `report`. The root, which hears
 *   of all, sees the end.
 * - Then, or when it hears that a writer has died, the root makes the record `prepare`, with the
 *   length of its log and who has voted, and whether it was a death. On it every node appends
 *   `closed` to its own log: who joined before that is of the generation, who comes later is not,
 *   and waits for the decision. A node votes, by an entry `vote` in its parent's log, when all it
 *   has itself is durable and all of its children have voted: for the whole of its subtree.
 * - A node that has to leave before the end was seen, and of which nothing more comes, appends
 *   `closed` and votes at once. Who finds the log of a slot closed tries those beside it.
 * - The root records the `decision` commit, once all has been voted. Anybody records `abort`, at
 *   any time, for a failure; the parent does for a child that died before it voted. The first
 *   counts.
 * - While the root waits for votes of others, it appends its own `vote` to its log: then that log
 *   has all of them. A node that finds all above it dead goes on, votes, and is an heir: it reads
 *   the root's log and stands in for the root. It waits for the votes that are missing, and appends
 *   `heir`: so it has read all that the log says. It records `commit` if the root has voted, else
 *   `abort`. A node that does not know of the end yet records `abort` at once. Several heirs, and a
 *   root that was only taken for dead, do no harm: the first decision counts.
 *
 * Who clears up after a generation that is over removes `open` first. A node that was held up
 * meanwhile may find records missing, and make them: so a join and a decision count only if `open`
 * stands after they were made. Where records can be made on the condition that it stands
 * (coord_ops.record_open), a decision counts at once; and there a node without children closes its
 * log and votes at once, if all it has is durable when the end was seen.
 *
 * The states of one node's part (set_state; a new one is JOINING, and at once OPEN for the root):
 *
 *        JOINING -----> OPEN -----> PREPARED -----> VOTED
 *                 (a)         (b)            (c)
 *
 *       VOTED        -> PREPARED  as an heir, in slot 0 (g) *
 *       each of them -> COMMIT, ABORT   it was decided (d)
 *       each of them -> LATE            the generation is over, and cleared up (e)
 *       JOINING      -> LATE            every log is closed, or the tree is full (f)
 *
 *   (a) looked                 (b) prepared, agreement_end, agreement_leave    (c) has_voted
 *   (d) decided, if guarded; else looked, as `open` still stands
 *   (e) looked, agreement_answer     (f) descend, turn_back      (g) agreement_stand_in
 *
 *   JOINING     `slot` is where it looks for a place; this node may not write to the generation
 *   OPEN        `slot` is its own: its log grows, children join, reports go up
 *   PREPARED    the end is fixed; with `closed` nobody joins any more. What is open here closes
 *   VOTED       what this node has is durable, and stays as it is. `vote`: that is to be recorded
 *   COMMIT, ABORT, LATE  final; nothing more is asked for
 *
 * A node reads its own log, `prepare` and `decision`: three records are awaited at a time, and
 * AGREE_FANOUT children heard, whatever the number of nodes (the tree of ByteCheckpoint 5.2, with
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
#define AGREE_ROOT	AGREE_FANOUT /* agree_news.child: the root itself, of whom an heir hears */

enum agree_state {
	AGREE_JOINING, /* may not be written to yet */
	AGREE_OPEN,
	AGREE_PREPARED, /* the end was seen */
	AGREE_VOTED,	/* or, the root: is deciding. From here on nothing of it may change */
	AGREE_COMMIT,	/* decided; these are final */
	AGREE_ABORT,
	/* it was closed before this node came, or is over: nothing of this node is in it */
	AGREE_LATE
};

extern const struct machine agreement_machine;

enum agree_entry { AGREE_JOIN, AGREE_REPORT, AGREE_VOTE, AGREE_CLOSED, AGREE_HEIR };

struct agree_child {
	char node[COORD_NODE_MAX];
	bool voted;
	bool ahead; /* that was read before what it may have said before (agreement_saw_behind) */
};

/* A plain value. All members are private, but may be looked at. */
struct agreement {
	char node[COORD_NODE_MAX];
	unsigned fanout;
	enum agree_state state;
	uint32_t slot;	  /* while joining: whose log is read */
	uint32_t next;	  /* the entry of that log, later of the own one, to be read next */
	uint32_t up_next; /* the entry of the parent's log that may be free */
	uint32_t vote_at; /* a later one, for the vote; or 0. See prepared(), is_prepared() */
	unsigned turns;	  /* while joining: how many closed logs it has turned back from */
	unsigned nr_children;
	struct agree_child children[AGREE_FANOUT];
	unsigned depth, watched; /* of the slot; of the ancestor whose life is watched */
	char above[AGREE_DEPTH_MAX][COORD_NODE_MAX]; /* from the root down to the parent */
	bool joined,
		undecided;    /* while joining: has a slot; and no decision was there after that */
	bool decided, commit; /* as was read, or recorded: counts if the generation is not over */
	char decider[COORD_NODE_MAX]; /* who has recorded it; "": not known */
	bool closed, prepared;	      /* the log of this slot is; the record is there */
	bool died; /* PREPARED and later: not for an end that was seen, but for a death */
	unsigned reports,
		reported; /* how many times there was one to send; which of them was sent */
	bool vote, abort; /* is to be sent */
	bool ready;	  /* the vote goes with `closed`, if nobody joins before */
	bool early;	  /* the root's own vote is to be sent */
	bool root_voted;  /* that is there */
	bool orphan;	  /* all above are dead */
	bool heir;	  /* and this node stands in for the root */
	bool at_end;	  /* and has read all of the root's log */
	bool doubt;	  /* it has to be looked whether it is over */
	/*
	 * may be set by the driver: RECORD makes none unless `open` stands, and its answer then is
	 * NULL
	 */
	bool guarded;
};

/* What is to be done now. */
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
	unsigned report; /* which */
	/*
	 * RECORD, or "": made together with it, or neither; with the payload AGREE_OF_VOTE. May be
	 * emptied by the driver.
	 */
	char also[COORD_KIND_MAX], also_head[AGREE_HEAD_MAX];
	/* RECORD: the record's text is this and the payload, which the driver has */
	char head[AGREE_HEAD_MAX];
};

/* What an entry of a log, or an answer, has brought. */
struct agree_news {
	bool any;
	enum agree_entry entry; /* of a child; not CLOSED */
	unsigned child;		/* its index; or AGREE_ROOT */
	const char *payload;	/* in the text that was given */
};

/* @root: who began it; @node itself if that is so. @fanout: at most AGREE_FANOUT. */
void agreement_begin(struct agreement *a, const char *node, const char *root, unsigned fanout);

/*
 * IDLE: nothing, until one of those that agreement_awaits names is there, or the driver says
 * something below. Of an op whose answer is unknown the same is asked for again.
 */
void agreement_next(const struct agreement *a, struct agree_op *op);

/*
 * The answer: what stands there now, in @text (a string), also if that is what was to be recorded
 * (@ours); NULL: READ found nothing; RECORD, where that is guarded: it is over. @news: of interest
 * for the driver. Between an op and its answer agreement_saw is not called.
 */
void agreement_answer(struct agreement *a, const struct agree_op *op, bool ours, const char *text,
		      struct agree_news *news);

/*
 * The records to wait for, by kind; the likeliest first. How many. Of one that is there,
 * agreement_saw with its text.
 */
unsigned agreement_awaits(const struct agreement *a, char kinds[AGREE_AWAITS][COORD_KIND_MAX]);
void agreement_saw(struct agreement *a, const char *kind, const char *text,
		   struct agree_news *news);

/*
 * The text of an entry of the own log that lies behind a gap, which is no record to wait for: who
 * has voted there is not waited for; the vote counts when it is heard again, once the gap is
 * filled, for its node may have reported there. How many there may be behind the first missing one:
 * AGREE_BEHIND.
 */
#define AGREE_BEHIND (2 * AGREE_FANOUT)
void agreement_saw_behind(struct agreement *a, const char *text, struct agree_news *news);

/*
 * Whose life matters: children that have not voted, and one above. At most AGREE_FANOUT + 1; how
 * many.
 */
unsigned agreement_watches(const struct agreement *a, const char *nodes[AGREE_FANOUT + 1]);

/*
 * That one is dead, for all that can be told; the driver has looked for what it said last, and for
 * `prepare`. True: the driver has to give a reason for AGREE_OF_ABORT.
 */
bool agreement_dead(struct agreement *a, const char *node);

/*
 * True if all above this node are dead, and what it has is voted: it may become the heir of the
 * root.
 */
bool agreement_may_stand_in(const struct agreement *a);

/*
 * It does: from here on it is the root, and hears the votes of the root's children, and of
 * AGREE_ROOT.
 */
void agreement_stand_in(struct agreement *a);

/* There is a report to be sent, or a newer one. */
void agreement_report(struct agreement *a);

/*
 * How long after the last of @said reports the next one may be sent, in units of what a record
 * takes: what comes in between goes with it. So no parent hears more from a child than the
 * logarithm of how long the save takes, however many nodes are below that; until the pause is
 * AGREE_PAUSE_MAX.
 */
#define AGREE_PAUSE_MAX 64
static inline unsigned agreement_pause(unsigned said)
{
	return !said ? 0 : said > 6 ? AGREE_PAUSE_MAX : 1u << (said - 1);
}

/*
 * Root only: the end was seen; or, @died, a writer has died, so that the end is as far as everybody
 * has come.
 */
void agreement_end(struct agreement *a, bool died);

/*
 * Not the root, and the end was not seen yet: what this node has is all that it ever will, those
 * above have heard of it, and its children have voted. From here on it goes as if the end was seen:
 * no effect otherwise.
 */
void agreement_leave(struct agreement *a);

/*
 * Has all been heard that the vote for this subtree, or the root's decision, is made of, but for
 * what this node has itself?
 */
bool agreement_may_vote(const struct agreement *a);

/* Has child @k voted, and was all heard that it said before? */
bool agreement_has_all_of(const struct agreement *a, unsigned k);

/* The same, if nobody joins any more: it may close its log and vote at once. */
bool agreement_may_close(const struct agreement *a);

/*
 * The payload is ready and final: what this node has is durable and does not change. May be called
 * once it may vote, or may close: then again, if somebody joins before that.
 */
void agreement_vote(struct agreement *a);

/* True if the root, which waits for votes of others, may vote for what it has itself. */
bool agreement_may_vote_early(const struct agreement *a);

/*
 * It does: that is durable and does not change. The payload is of AGREE_OF_VOTE. agreement_vote
 * follows when it may vote.
 */
void agreement_vote_early(struct agreement *a);

/* Anybody, at any time: it has failed. */
void agreement_abort(struct agreement *a);

/*
 * Nothing was heard for long, or this node was held up: it may be over, and cleared up. To be said
 * again and again as long as something is awaited.
 */
void agreement_doubt(struct agreement *a);

/* True if this node has recorded the decision: what follows from that is for this node to do. */
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

/* Reads an entry of a log, "WHAT SLOT NODE[ PAYLOAD]". False: it is none. */
bool agreement_read_entry(const char *text, enum agree_entry *what, uint32_t *slot,
			  char node[COORD_NODE_MAX], const char **payload);

/* The payload of a decision as it stands; NULL: it is none. */
const char *agreement_decision(const char *text, bool *commit);

/* A decision of @node, without its payload. */
void agreement_write_decision(char *text, size_t size, bool commit, const char *node);

/* The record `prepare`, which has one writer and one reader: these. */
struct agree_prepare {
	char node[COORD_NODE_MAX];
	uint32_t length; /* of the root's log */
	unsigned voted;	 /* by the root's children: a bit for each that has voted before that */
	bool died;	 /* a writer has; else the end was seen */
};

void agreement_write_prepare(char head[AGREE_HEAD_MAX], const struct agree_prepare *p);

/* False: it is none. */
bool agreement_read_prepare(const char *text, struct agree_prepare *p);

#endif
