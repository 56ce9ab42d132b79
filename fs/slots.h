/* SPDX-License-Identifier: MIT */
/*
 * Numbers by which the kernel refers to things: an index with a generation, so that a number from
 * the past is recognised and never taken for another thing. The owner's lock guards them.
 */
#ifndef FS_SLOTS_H
#define FS_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

struct slot {
	void *what; /* NULL: free */
	uint32_t generation;
	uint32_t next_free;
};

struct slots {
	struct slot *v;
	uint32_t nr, free;
};

void slots_init(struct slots *s);
void slots_finish(struct slots *s);

/* Gives @what a number, never below 2^32 and never above 0xFFFFFFFE00000000. False: no memory. */
bool slots_take(struct slots *s, void *what, uint64_t *number);

/* What has this number now; NULL: nothing. */
void *slots_find(const struct slots *s, uint64_t number);

void slots_give_back(struct slots *s, uint64_t number);

#endif
