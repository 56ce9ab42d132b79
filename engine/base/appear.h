/* SPDX-License-Identifier: MIT */
/* How a file appears under its name whole, and as the first. */
#ifndef ENGINE_BASE_APPEAR_H
#define ENGINE_BASE_APPEAR_H

/*
 * Gives the file @tmp in @dir the name @name, which another may be about to get, too: on this node
 * or on another. By a hard link, or where there are none by a rename that replaces nothing. Only a
 * filesystem that has neither lets the last of several stay. @tmp is gone then, whatever happens.
 * 0, -EEXIST: another was first, or -errno.
 */
int appear_first(int dir, const char *tmp, const char *name);

#endif
