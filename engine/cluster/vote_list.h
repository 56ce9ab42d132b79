/* SPDX-License-Identifier: MIT */
/*
 * The list that a node votes with: of its own files, and the lines of its children's lists
 * (engine/record/vote.h). A short list goes with the vote. A longer one is a file in the staging
 * directory, .ckptfs-vote-SLOT, which goes when the parent has its lines. The node that commits
 * takes the lines into what is known of the files. That node removes the files of the root's
 * children when the commit is decided: until then another node may have to read them. Takes the
 * units' lock, and makes no call to the backing with it; this module sends no vote (accord_end.c).
 */
#ifndef ENGINE_CLUSTER_VOTE_LIST_H
#define ENGINE_CLUSTER_VOTE_LIST_H

#include <jansson.h>

#include "engine/record/left.h"
#include "engine/save/checkpoint.h"

/* The list of the node in @slot. */
struct vote_list {
	uint32_t slot;
	json_t *lines; /* an array, if well-formed; NULL: they are in its file */
};

#define VOTE_SHORT 16384 /* most bytes of the lines of a list that goes with the vote */

/*
 * Writes the list of the node in @slot: its files, what it leaves to wait (@left; NULL: nothing),
 * and the lists of its @nr children. 0: *@own goes with the vote, for the caller to release; NULL:
 * the list is a file. -errno; -EBADMSG: a child's list is no list.
 */
int vote_list_write(struct checkpoint *cp, uint32_t slot, const struct left *left,
		    const struct vote_list *lists, unsigned nr, json_t **own);

/* For the node that commits: adds the lists to what is known of the files. Errors as above. */
int vote_list_gather(struct checkpoint *cp, const struct vote_list *lists, unsigned nr);

/* Removes those lists that are files. */
void vote_list_remove(struct checkpoint *cp, const struct vote_list *lists, unsigned nr);

#endif
