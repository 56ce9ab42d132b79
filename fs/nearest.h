/* SPDX-License-Identifier: MIT */
/* For a path that does not exist: the one that the user may have meant. */
#ifndef FS_NEAREST_H
#define FS_NEAREST_H

#include <limits.h>
#include <stdbool.h>

/*
 * Finds an existing name that is spelled much like the first component of @path that does not
 * exist, by listing a directory. False: there is none.
 */
bool nearest_path(const char *path, char near[PATH_MAX]);

#endif
