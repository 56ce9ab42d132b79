/* SPDX-License-Identifier: MIT */
/*
 * A name in a directory of the backing, as a function parameter. A struct place owns nothing:
 * descriptor and name live as long as the call. A struct target (generation_inside.h) keeps a name
 * for longer.
 */
#ifndef ENGINE_SAVE_PLACE_H
#define ENGINE_SAVE_PLACE_H

#include "engine/content/content.h"

struct place {
	int dir;	    /* a descriptor of the directory */
	struct inode_id id; /* the same directory */
	const char *name;
};

/* A hash for any table of names. live.c defines it. */
uint64_t hash_name(const struct inode_id *dir, const char *name);

#endif
