/* SPDX-License-Identifier: MIT */
/*
 * What a change to a committed checkpoint is a part of (DESIGN 4), which decides what ends it. That
 * of the generation which changes it is the greatest that any of its calls was:
 *
 *   SOME  late files, rewrites, changes in place: its end is its last close, and some silence
 *   ANEW  the same name is being saved once more: its end is that of the rule, of which all the
 *         evidence must come again. What is not written again stays as it was
 *
 * A file of data (rule_is_data) that is made, emptied, or gets its name by a rename, begins a save
 * if the committed checkpoint has one of that name; or if who writes it has a rank, and is not of
 * the job that saved that, or of another number of ranks; or if all files were removed before. All
 * else changes some.
 */
#ifndef ENGINE_UNIT_CHANGE_H
#define ENGINE_UNIT_CHANGE_H

#include "engine/unit/checkpoint.h"

/*
 * @p writes the file @rel of @cp from nothing. Between enter and leave, while the file counts as
 * open, or is. No effect on what changes no committed one. 0 or -errno: it cannot be told.
 */
int change_from_nothing(struct checkpoint *cp, struct process *p, const char *rel);

#endif
