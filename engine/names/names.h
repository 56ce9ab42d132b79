/* SPDX-License-Identifier: MIT */
/*
 * What is at a name, for a viewer: the only place that puts the answer together. A name shows the
 * first of these that applies:
 *
 *   1. a pointer that the viewer, a thread, is about to write              SHOWN_FILE
 *   2. a file that is being saved under this name, the newest              SHOWN_FILE
 *   3. a checkpoint directory that is being saved under it                 SHOWN_CHECKPOINT
 *   4. nothing, if ckptfs keeps the name for itself (name_is_reserved); but
 *      a file of each unit is shown (name_is_kept_in_units)                 SHOWN_RESERVED
 *   5. if it was removed, and the backing may still have it:
 *      a pointer that waits for a commit (journal.h), else nothing         SHOWN_POINTER, _REMOVED
 *   6. what the backing has                                                SHOWN_ON_BACKING
 *   7. a pointer that waits for a commit                                   SHOWN_POINTER
 *   8. nothing                                                             SHOWN_NOTHING
 *
 * What other nodes save is not known here before this node has joined it (accord_find). Holds no
 * lock between two of these steps. @us is NULL in a read-only mount, where only 4, 6 and 8 apply.
 */
#ifndef ENGINE_NAMES_NAMES_H
#define ENGINE_NAMES_NAMES_H

#include "engine/save/checkpoint.h"

enum name_shown_as {
	SHOWN_NOTHING,
	SHOWN_FILE,
	SHOWN_CHECKPOINT,
	SHOWN_RESERVED,
	SHOWN_REMOVED,
	SHOWN_ON_BACKING,
	SHOWN_POINTER
};

struct name_shown {
	enum name_shown_as as;
	struct generation *file;       /* SHOWN_FILE: referenced; else NULL */
	struct checkpoint *checkpoint; /* SHOWN_CHECKPOINT: referenced; else NULL */
	int pin;		       /* SHOWN_POINTER: a path descriptor of it; else -1 */
	struct statx stx;	       /* SHOWN_ON_BACKING */
};

/*
 * Looks for 1 to 8, as thread @viewer (0: no thread). @at->dir may be a -errno, with which the
 * backing then answers, and @b NULL. 0; or the backing's -errno, and nothing is shown. The caller
 * calls names_put in any case.
 */
int names_look(struct units *us, struct backing *b, const struct place *at, pid_t viewer,
	       struct name_shown *s);
void names_put(struct name_shown *s);

/* Looks for 1 to 3 only. True: something is being saved. Fills @s as names_look does; or NULL. */
bool names_look_saved(struct units *us, const struct inode_id *dir, const char *name, pid_t viewer,
		      struct name_shown *s);

/* The checkpoint of 3, referenced, or NULL. */
struct checkpoint *names_checkpoint(struct units *us, const struct inode_id *dir, const char *name);

/* Looks for 6 only, perhaps behind a save. 0; -ENOENT also if 5 applies; or -errno. */
int names_look_behind(struct units *us, struct backing *b, const struct place *at,
		      struct statx *stx);

/* 0: the directory @at on the backing shows no name. -ENOTEMPTY: it does. Or -errno. */
int names_check_empty(struct units *us, struct backing *b, const struct place *at);

/* --- listings --- */

struct name_listed {
	char *name;
	struct inode_id id;
	mode_t type; /* S_IFMT bits */
};

/* The names that a directory shows beside or instead of the backing's: 2, 3 and 7. Zero: none. */
struct names_listed {
	struct name_listed *names;
	size_t nr;
	unsigned unhidden; /* removals_unhidden as of names_read */
};

/* Takes them anew, before the backing's names are read. What there is no memory for is left out. */
void names_list(struct units *us, const struct inode_id *dir, struct names_listed *l);
void names_list_end(struct names_listed *l);

/* Call this before each read of names of the backing. */
void names_read(struct units *us, struct names_listed *l);

/* True if the name @at, which that read found on the backing, is to be listed. */
bool names_list_shows(struct units *us, struct backing *b, const struct names_listed *l,
		      const struct place *at);

#endif
