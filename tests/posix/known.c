// SPDX-License-Identifier: MIT
/*
 * Differences from a plain directory that are intended. Keep this near empty:
 * a line here is a promise that is not kept, and needs its reason.
 */
#include "posixcmp.h"

#include <fnmatch.h>
#include <string.h>

static const struct known {
	const char *name; /* pattern of case names */
	const char *a;	  /* what A gives then, exactly */
	const char *why;
} known[] = {
	{"fallocate/collapse-range/*", "EOPNOTSUPP",
	 "the kernel does not pass this on to a FUSE filesystem"},
	{"fallocate/insert-range/*", "EOPNOTSUPP",
	 "the kernel does not pass this on to a FUSE filesystem"},
	{"open/tmpfile/*", "EOPNOTSUPP",
	 "O_TMPFILE is optional; callers fall back to a named file"},
	{"times/atime-read-at-end/*", "atime kept mtime kept ctime kept ",
	 "the kernel asks no FUSE filesystem for bytes past the end"},
};

const char *known_reason(const char *name, const char *a)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(known); i++)
		if (!fnmatch(known[i].name, name, 0) && !strcmp(known[i].a, a))
			return known[i].why;
	return NULL;
}
