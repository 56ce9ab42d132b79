/* SPDX-License-Identifier: MIT */
/*
 * Plays a plan: lines in English, one event each, in the order in which they happen. A line that
 * begins with # is a comment. What a rank does takes its time: the next line does not wait for it,
 * unless it says "when".
 *
 * 	3 nodes                                     coordination by a service | by the backing
 * 	mount with quiet_s=2
 * 	job A of 3 ranks, dcp, on nodes 1 2 3       (shapes: save.c)
 * 	job B of 2 ranks, dcp, on nodes 1 2, the next start of A        (A may live)
 * 	job C of 2 ranks, dcp, on nodes 1 2, without a restart count
 * 	person P on node 2                          (is rank 0 of P, of no job)
 * 	A saves step-1                              A0 ends step-1, if it can: an error does not end the process
 * 	    (what else a rank does: the tables at the end of verbs.c, files.c and readers.c)
 * 	A1 is killed        A1 exits                A1 exits well: also if its job has not finished a save
 * 	A is started again [at once]                A1 is back on node 2
 * 	after 250 ms        when A1 is done         when A is done      when all is done
 * 	when all is settled                         when step-1 is committed
 * 	when step-1 has failed on node 2            when node 2 has voted on step-1
 * 	when node 2 knows of the end of step-1      when node 2 knows that step-1 is decided
 * 	when node 1 knows that 2 others have closed step-1
 * 	when node 1 waits for "rank 1" with step-1  (or it has failed there; the words are those of `ckptfs why`)
 * 	when node 2 is mounted                      when node 2 is unmounted
 * 	when node 2 is refused                      (since a node of another version runs)
 * 	node 2 stops [for 30 s]                     node 2 goes on
 * 	node 2 is lost      node 2 mounts           node 2 unmounts
 * 	node 2 is upgraded  (from its next mount on)
 * 	all nodes are lost  all nodes mount         the power fails
 * 	node 2's clock jumps by 3600 s              node 2 is cut off for 10 s
 * 	node 2 is slow for 5 s                      node 2 finds no room for 5 s
 * 	node 2 gets ESTALE 3 times                  node 2 gets EIO from a sync
 * 	node 2 gets EIO from a rename that was made
 * 	the service is away for 10 s                the service loses 2 answers
 * 	the service has no room for 5 s
 * 	expect step-1 is committed                  expect step-1 is not there          expect run is there
 * 	expect latest names step-1                  expect step-1/config.json holds words
 * 	expect nothing is staged                    (these are about the backing)
 * 	expect step-1 has failed on node 2          expect node 1 waits for "rank 1" with step-1
 * 	expect node 2 says "words"                  expect node 2 does not say "words"
 * 	expect A1 was told                          expect A1 was not told
 * 	expect A1 got EBUSY                         expect A lives
 *
 * What waits for a condition of a node, or for a commit, fails if that does not come. A plan that
 * expects something is never shrunk.
 *
 * In the end faults stop, what was lost is mounted, ranks that still live are killed, and all must
 * end.
 */
#ifndef TESTS_SIM_PLAY_H
#define TESTS_SIM_PLAY_H

#include <stdbool.h>
#include <stddef.h>

#define PLAN_LINES 160
#define LINE_LEN   96

struct plan {
	char lines[PLAN_LINES][LINE_LEN];
	unsigned nr;
};

/* NULL, or what is wrong with the line @*at. */
const char *plan_read(struct plan *p, const char *text, unsigned *at);

/* One run, in this process. True: nothing was wrong. @seed: of the schedule. */
bool play(const struct plan *p, unsigned long long seed);

#endif
