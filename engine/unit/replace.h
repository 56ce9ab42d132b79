/* SPDX-License-Identifier: MIT */
/* (O5) A committed directory gets its name: of what had the name before, all or nothing is seen. */
#ifndef ENGINE_UNIT_REPLACE_H
#define ENGINE_UNIT_REPLACE_H

#include "engine/unit/checkpoint.h"

struct placement {
	struct backing *backing;
	const struct caller *owner;
	int dir;		/* of both names */
	const char *staging;	/* STAGING_PREFIX and the generation that its commit file has */
	bool ordinary;		/* has none, and is known by that */
	const char *name;	/* that it is to have */
	bool replaces;		/* something had the name when it was begun, namely ... */
	const char *generation; /* ... this committed checkpoint; "" for */
	uint64_t ino, btime_ns; /* ... this inode */
	bool owned;		/* is what lies there only believed if it is the owner's? */
	bool only_look;		/* change nothing */
	/* Is what has the name now no other's, though it is not that? NULL: it is another's. */
	bool (*is_ours)(void *arg, const struct statx *stx);
	void *arg;
};

/*
 * Renames the staging directory to its name, what had the name to trash, and syncs their directory.
 * Idempotent: 0 also if that was done before, by whomever, and others may do it at the same time.
 * -EBUSY: the name is another's now, nothing is replaced. -ENOENT: it is nowhere. -EBADMSG: what is
 * staged is not what was decided. 1: @p->only_look, and it is still to be done. *@trashed:
 * something lies in trash, TRASH_PREFIX and the id of the staging name.
 */
int replace_place(const struct placement *p, bool *trashed);

/* Removes what nodes have put into the staging directory @fd to agree on its commit. */
void replace_tidy(struct backing *b, int fd);

/* The same for @cp. */
int replace_target(struct checkpoint *cp);

/* The same for @cp, as another node has decided: @d. */
struct decision;
int replace_decided(struct checkpoint *cp, const struct decision *d);

/* Of the committed directory @unit, any descriptor of it. -errno: it has none that can be read. */
int unit_header(struct backing *b, int unit, struct commit_header *h);

/* The same; "" and -errno. */
int unit_generation(struct backing *b, int unit, char generation[COMMIT_HEX]);

#endif
