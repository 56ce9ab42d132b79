/* SPDX-License-Identifier: MIT */
/*
 * The records of one generation: those that daemons read and make are on the backing, all others in
 * memory.
 */
#ifndef TESTS_CROWD_RECORDS_H
#define TESTS_CROWD_RECORDS_H

#include "engine/coord/coord.h"

/*
 * @daemons: how many there are, in the slots 0, 1, ..., whose logs are real; @most: records of any
 * kind, about.
 */
void records_begin(struct backing *b, const struct caller *owner, const char *gen, unsigned daemons,
		   unsigned most);

/*
 * What stands there, or NULL. What was missing on the backing is looked at again after
 * records_refresh.
 */
const char *records_read(const char *kind);
void records_refresh(void);

/* What stands there now; *ours: it is @text. */
const char *records_make(const char *kind, const char *text, bool *ours);

#endif
