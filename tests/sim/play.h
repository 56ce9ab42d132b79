/* SPDX-License-Identifier: MIT */
/*
 * Plays a plan: lines in English, one event each, in the order in which they happen. A line that begins with # is a
 * comment. What a rank does takes its time: the next line does not wait for it, unless it says "when".
 *
 *	3 nodes                                     coordination by a service | by the backing
 *	mount with quiet_s=2
 *	job A of 3 ranks, dcp, on nodes 1 2 3       (shapes: save.c)
 *	A saves step-1                              A0 ends step-1; what else a rank does: the verbs of ranks.c
 *	A1 is killed        A1 exits                A is started again
 *	after 250 ms        when A1 is done         when A is done      when all is settled
 *	node 2 stops [for 30 s]                     node 2 goes on
 *	node 2 is lost      node 2 mounts           node 2 unmounts
 *	node 2's clock jumps by 3600 s              node 2 is cut off for 10 s
 *	node 2 is slow for 5 s                      node 2 finds no room for 5 s
 *	node 2 gets ESTALE 3 times                  node 2 gets EIO from a sync
 *	node 2 gets EIO from a rename that was made
 *	the power fails                             all nodes mount
 *	the service is away for 10 s                the service loses 2 answers
 *	the service has no room for 5 s
 *	expect step-1 is committed                  expect step-1 is not there
 *	expect latest names step-1                  expect A1 was told      expect A1 was not told
 *
 * In the end faults stop, what was lost is mounted, ranks that still live are killed, and all must end.
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
