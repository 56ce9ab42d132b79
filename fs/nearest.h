/* SPDX-License-Identifier: MIT */
/* For a path that does not exist: what its writer may have meant. */
#ifndef FS_NEAREST_H
#define FS_NEAREST_H

#include <limits.h>
#include <stdbool.h>

/*
 * The path of a name that exists and is spelled much like the first component of @path that does
 * not. It lists a directory. False: there is none.
 */
bool nearest_path(const char *path, char near[PATH_MAX]);

#endif
