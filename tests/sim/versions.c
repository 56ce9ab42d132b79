/* SPDX-License-Identifier: MIT */
#include "tests/sim/versions.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/coord/nodes.h"
#include "tests/sim/sched.h"
#include "tests/sim/story.h"
#include "tests/sim/world.h"

#define VERSIONS_MAX 32

static struct {
	int newer;	   /* of its next mount, than the oldest */
	int runs;	   /* of the one that has, or last had, a lease */
	uint64_t begun_ns; /* when that one began to mount */
	uint64_t ended_ns; /* SCHED_FOREVER: it has a lease */
	uint64_t
		gone_ns[VERSIONS_MAX]; /* of those before, by how much newer: when the last ended */
	bool serves, disturbed, refused;
} nodes[NODES_MAX + 1];

void version_upgrade(unsigned n)
{
	if (++nodes[n].newer == VERSIONS_MAX)
		abort();
}

int version_next(unsigned n)
{
	return NODES_PROTOCOL + nodes[n].newer;
}

void version_begins(unsigned n)
{
	if (nodes[n].runs)
		nodes[n].gone_ns[nodes[n].runs - NODES_PROTOCOL] = nodes[n].ended_ns;
	nodes[n].runs = version_next(n);
	nodes[n].begun_ns = sched_now();
	nodes[n].ended_ns = SCHED_FOREVER;
	nodes[n].disturbed = nodes[n].refused = false;
}

void version_serves(unsigned n)
{
	unsigned i;

	nodes[n].serves = true;
	for (i = 1; i <= world_nodes(); i++)
		if (nodes[i].serves && nodes[i].runs != nodes[n].runs && !nodes[i].disturbed &&
		    !nodes[n].disturbed)
			wrong("I12: node %u serves with protocol %d, beside node %u with %d", n,
			      nodes[n].runs, i, nodes[i].runs);
}

void version_stops(unsigned n)
{
	nodes[n].serves = false;
}

void version_gone(unsigned n)
{
	nodes[n].serves = false;
	nodes[n].ended_ns = sched_now();
}

void version_disturbed(unsigned n)
{
	nodes[n].disturbed = true;
}

/* True if @text says that node @i runs @version, which node @n has not. */
static bool is_named(unsigned n, unsigned i, int version, const char *text)
{
	char words[64], theirs[64];

	snprintf(words, sizeof(words), "the live node 'n%u'", i);
	snprintf(theirs, sizeof(theirs), "by protocol %d, this ckptfs by protocol %d", version,
		 nodes[n].runs);
	return version != nodes[n].runs && strstr(text, words) && strstr(text, theirs);
}

/*
 * True if that is so of the mount of node @i, or of one before, and that had a lease while node @n
 * tried.
 */
static bool is_named_rightly(unsigned n, unsigned i, const char *text)
{
	int newer;

	for (newer = 0; newer < VERSIONS_MAX; newer++)
		if (nodes[i].gone_ns[newer] >= nodes[n].begun_ns &&
		    is_named(n, i, NODES_PROTOCOL + newer, text))
			return true;
	return nodes[i].ended_ns >= nodes[n].begun_ns && is_named(n, i, nodes[i].runs, text);
}

void version_refused(unsigned n, const char *text)
{
	unsigned i;

	version_gone(n);
	nodes[n].refused = true;
	for (i = 1; i <= world_nodes(); i++)
		if (i != n && is_named_rightly(n, i, text))
			return;
	wrong("I12: node %u is refused, and no node that runs another version is named: %s", n,
	      text);
}

bool version_is_refused(unsigned n)
{
	return nodes[n].refused;
}

bool versions_align(void)
{
	int newest = 0;
	bool one = true;
	unsigned i, running = 0;

	for (i = 1; i <= world_nodes(); i++) {
		newest = nodes[i].newer > newest ? nodes[i].newer : newest;
		if (!nodes[i].serves)
			continue;
		one &= !running || nodes[i].runs == nodes[running].runs;
		running = !running || nodes[i].runs > nodes[running].runs ? i : running;
	}
	for (i = 1; i <= world_nodes(); i++)
		nodes[i].newer = running ? nodes[running].runs - NODES_PROTOCOL : newest;
	return one;
}
