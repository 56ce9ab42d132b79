// SPDX-License-Identifier: MIT
/*
 * Differences from a plain directory that are intended. Keep this near empty:
 * a line here is a promise that is not kept, and needs its reason.
 */
#include "posixcmp.h"

#include <fnmatch.h>
#include <string.h>

static const struct known {
	const char *name;    /* pattern of case names */
	const char *step;    /* pattern of the step that differs */
	const char *a;	     /* what A gives then, exactly */
	const char *without; /* only with --without this; NULL: always */
	const char *why;
} known[] = {
	{"fallocate/collapse-range/*", "*", "EOPNOTSUPP", NULL,
	 "the kernel does not pass this on to a FUSE filesystem"},
	{"fallocate/insert-range/*", "*", "EOPNOTSUPP", NULL,
	 "the kernel does not pass this on to a FUSE filesystem"},
	{"open/tmpfile/*", "*", "EOPNOTSUPP", NULL,
	 "O_TMPFILE is optional; callers fall back to a named file"},
	{"times/atime-read-at-end/*", "*", "atime kept mtime kept ctime kept ", NULL,
	 "the kernel asks no FUSE filesystem for bytes past the end"},
	{"*", "@(setx|lsetx|fsetx|getx|rmx|listx|setcap|setacl) *", "EOPNOTSUPP", "xattr",
	 "extended attributes are off"},
	{"*", "rename * * @(NOREPLACE|EXCHANGE)", "EINVAL", "rename_flags",
	 "flags of rename are off"},
};

/* Is @word one of the words of @list, which commas separate? */
static bool has_word(const char *list, const char *word)
{
	size_t len;

	for (; *list; list += len + (list[len] == ',')) {
		len = strcspn(list, ",");
		if (len == strlen(word) && !memcmp(list, word, len))
			return true;
	}
	return false;
}

const char *known_reason(const char *name, const char *step, const char *a, const char *without)
{
	const struct known *k;

	for (k = known; k < known + ARRAY_SIZE(known); k++)
		if ((!k->without || has_word(without, k->without)) && !fnmatch(k->name, name, 0) &&
		    !fnmatch(k->step, step, FNM_EXTMATCH) && !strcmp(k->a, a))
			return k->why;
	return NULL;
}
