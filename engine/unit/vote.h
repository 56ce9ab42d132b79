/* SPDX-License-Identifier: MIT */
/*
 * With what a node votes: a list, with a line of JSON for each file that is durable there, and
 * behind that one for each tensor in it; and one for each that has taken the name of another node's
 * (rivals.h). Its own, and those of its children's lists. A short one goes with the vote; another
 * is a file in the staging directory, .ckptfs-vote-SLOT, which goes when its lines are in that of
 * the parent. The node that commits takes the lines into what is known of the files. It removes the
 * files of the root's children when the commit is decided: until then another node may have to read
 * them.
 */
#ifndef ENGINE_UNIT_VOTE_H
#define ENGINE_UNIT_VOTE_H

#include <jansson.h>

#include "engine/unit/checkpoint.h"

/* That of the node in @slot. */
struct vote_list {
	uint32_t slot;
	json_t *lines; /* an array, which is not believed to be one; NULL: they are in its file */
};

#define VOTE_SHORT 16384 /* bytes of the lines at most, of a list that goes with the vote */

/*
 * Of the node in @slot, from those of its @nr children. 0: *@own is what goes with the vote, for
 * the caller to release, NULL: it is in the file. -errno, -EBADMSG: what a child has listed is no
 * list.
 */
int vote_write(struct checkpoint *cp, uint32_t slot, const struct vote_list *lists, unsigned nr,
	       json_t **own);

/*
 * What a vote for so many nodes says, with @own or NULL, and all that @more says, an object or
 * NULL: for the caller to free; NULL: no memory.
 */
char *vote_compose(unsigned nodes, json_t *own, json_t *more);

/* Of the node that commits. 0 or -errno, the same. */
int vote_gather(struct checkpoint *cp, const struct vote_list *lists, unsigned nr);

/* Removes the files of such as are. */
void vote_remove(struct checkpoint *cp, const struct vote_list *lists, unsigned nr);

#endif
