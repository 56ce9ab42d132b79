/* SPDX-License-Identifier: MIT */
#include "engine/base/appear.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static int rename_first(int dir, const char *tmp, const char *name)
{
	if (!renameat2(dir, tmp, dir, name, RENAME_NOREPLACE))
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	return renameat(dir, tmp, dir, name) ? -errno : 0;
}

int appear_first(int dir, const char *tmp, const char *name)
{
	int err = linkat(dir, tmp, dir, name, 0) ? -errno : 0;

	if (err && err != -EEXIST)
		err = rename_first(dir, tmp, name);
	if (unlinkat(dir, tmp, 0) && errno != ENOENT && !err)
		err = -errno;
	return err;
}
