/* SPDX-License-Identifier: MIT */
/*
 * A change to a committed checkpoint is a new generation, which inherits what is not changed. The
 * kind of the change decides what ends it. A generation that makes several changes has the greatest
 * of their kinds:
 *
 *   SOME  late files, rewrites, changes in place: ends with the last close, and some silence
 *   ANEW  the same name is being saved once more: ends by the rule, which needs all its evidence
 *         again. Files that are not written again stay as they were
 *
 * A data file (rule_is_data) that is created, truncated, or renamed to its name, begins a full
 * save (ANEW) in three cases: the committed checkpoint has a file of that name; the writer has a
 * rank, and its job or number of ranks is not that of the committed save; all files were removed
 * before. Every other change is SOME.
 */
#ifndef ENGINE_UNIT_CHANGE_H
#define ENGINE_UNIT_CHANGE_H

#include "engine/unit/checkpoint.h"

/*
 * @p writes the file @rel of @cp from nothing. Call this between enter and leave, while the file
 * counts as open, or is. No effect if @cp changes no committed checkpoint. 0, or -errno: the kind
 * is unknown.
 */
int change_from_nothing(struct checkpoint *cp, struct process *p, const char *rel);

#endif
