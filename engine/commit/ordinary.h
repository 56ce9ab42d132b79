/* SPDX-License-Identifier: MIT */
/*
 * Files that leave single-file treatment: a program holds one open under a new name, and has not
 * written it for open_max_s. A log is such a file, or a data set that a program extends for days.
 * On any other filesystem a crash would leave the bytes under the name. So the daemon gives the
 * file its name as it is, without a digest, and later writes go to the backing as for any ordinary
 * file.
 *
 * A file that replaces another stays staged: a crash must not remove the old file before the new
 * one is whole. Directories are handled elsewhere: a directory becomes ordinary by its first file
 * (checkpoint_claim.c), or is dropped with its maker (checkpoint_abandoned.c).
 */
#ifndef ENGINE_COMMIT_ORDINARY_H
#define ENGINE_COMMIT_ORDINARY_H

#include "engine/save/generation.h"

/* True if @g has been open and unwritten for open_max_s. */
bool ordinary_is_due_locked(const struct generation *g, uint64_t now);

/* Syncs the file before it gets its name; no digest, no stamp. 0 or -errno; *@step: what failed. */
int ordinary_prepare(struct generation *g, const char **step);

#endif
