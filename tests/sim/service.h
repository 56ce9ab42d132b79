/* SPDX-License-Identifier: MIT */
/*
 * A coordination service in memory, as etcd is one: records and leases that outlive every node. Its
 * faults are those of a service: out of reach of all or of one node, slow, full, or an answer that
 * is lost after the work was done.
 */
#ifndef TESTS_SIM_SERVICE_H
#define TESTS_SIM_SERVICE_H

#include <stdbool.h>

#include "engine/coord/coord.h"

extern const struct coord_ops
	service_ops; /* its arg is not used: the node is that of the calling task */

/* Until @until_ns no call of @node is answered; 0: of no node. */
void service_cut(unsigned node, uint64_t until_ns);
/* Of the next @nr calls that change something the answer is lost. */
void service_lose_answers(unsigned nr);
/* Until then no record is made for want of space. */
void service_full(uint64_t until_ns);

/* Calls @each for every record that stands, or stood when it was forgotten. */
void service_each(void (*each)(void *arg, const char *gen, const char *kind, const char *text),
		  void *arg);

#endif
