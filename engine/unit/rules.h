/* SPDX-License-Identifier: MIT */
/* Names with a meaning of their own, whatever the rules (engine/rule) say. */
#ifndef ENGINE_UNIT_RULES_H
#define ENGINE_UNIT_RULES_H

#include <stdbool.h>

#include "engine/backing/dirwalk.h"

#define STAGING_PREFIX ".ckptfs-"

/*
 * Names in a staging directory, of what nodes put there to agree on its commit: vote.h,
 * commit_file.c.
 */
#define VOTE_PREFIX	  STAGING_PREFIX "vote-"
#define COMMIT_OWN_PREFIX STAGING_PREFIX "commit-"

/* Is it a name that ckptfs keeps for itself, not shown in the mount? */
bool rules_reserved(const char *name);

/* Goes to the next entry of the walk @w that is none of those. False: none is left, or w->err. */
bool rules_next_visible(struct dirwalk *w);

/*
 * A name from which nothing can be told of the one that the file will have: as safetensors makes
 * them.
 */
bool rules_tells_nothing(const char *name);

/* That of a commit file, or of a copy of one that is not whole yet. */
bool rules_commit_file(const char *name);

#endif
