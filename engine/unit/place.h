/* SPDX-License-Identifier: MIT */
/*
 * A name in a directory of the backing, as it is handed from function to function. It owns nothing:
 * descriptor and name live as long as the call. What is kept is a struct target (unit.h).
 */
#ifndef ENGINE_UNIT_PLACE_H
#define ENGINE_UNIT_PLACE_H

#include "engine/content/content.h"

struct place {
	int dir;	    /* a descriptor of the directory */
	struct inode_id id; /* the same directory */
	const char *name;
};

#endif
