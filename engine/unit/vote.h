/* SPDX-License-Identifier: MIT */
/*
 * With what a node votes: a file in the staging directory, .ckptfs-vote-SLOT, with a line of JSON for each file that is
 * durable there, and behind that one for each tensor in it; and one for each that has taken the name of another node's
 * (rivals.h). Its own, and those of its children's files, which go. The root takes these lines into what is known of the files,
 * and removes them before it lists the directory.
 */
#ifndef ENGINE_UNIT_VOTE_H
#define ENGINE_UNIT_VOTE_H

#include "engine/unit/checkpoint.h"

/* Of the node in @slot, whose @nr children are in @slots. 0 or -errno. */
int vote_write(struct checkpoint *cp, uint32_t slot, const uint32_t *slots, unsigned nr);

/* Of the root. 0 or -errno, -EBADMSG: what a node has listed is no list. */
int vote_gather(struct checkpoint *cp, const uint32_t *slots, unsigned nr);

#endif
