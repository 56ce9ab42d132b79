/* SPDX-License-Identifier: MIT */
#include "fs/cmd/export_beside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/base/cleanup.h"
#include "fs/view_assets.h"

/* Opens the nearest @name: in the checkpoint, or in a directory above it. */
static int open_nearest(int unit, const char *name, int flags)
{
	int dir = openat(unit, ".", O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1, above;

	flags |= O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	for (unsigned up = 0; dir >= 0 && up <= VIEW_BESIDE_LEVELS; up++) {
		fd = openat(dir, name, flags);
		if (fd >= 0 || errno != ENOENT)
			break;
		above = openat(dir, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		close(dir);
		dir = above;
	}
	if (fd < 0 && dir >= 0)
		fd = -errno;
	if (dir >= 0)
		close(dir);
	return fd >= 0 ? fd : fd == -1 ? -ENOENT : fd;
}

const char *export_assets_problem(const struct export_beside *b, char why[SPEC_WHY_MAX])
{
	bool ignored;
	int fd = export_assets(b, &ignored);

	if (fd >= 0) {
		close(fd);
		return NULL;
	}
	snprintf(why, SPEC_WHY_MAX, "its directory of assets cannot be opened: %s", strerror(-fd));
	return why;
}

int export_assets(const struct export_beside *b, bool *own)
{
	struct view_spec spec;
	char why[SPEC_WHY_MAX];
	int fd;

	*own = true;
	if (b->assets) {
		*own = false;
		fd = open(b->assets, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		return fd < 0 ? -errno : fd;
	}
	if (!view_spec_parse(&spec, b->spec, why) && *spec.assets)
		return open_nearest(b->unit, spec.assets, O_DIRECTORY);
	fd = openat(b->unit, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int open_for(const struct export_beside *b, const char *name)
{
	bool own;
	int dir, fd;

	if (!view_asset_is(name))
		return open_nearest(b->unit, name, 0);
	dir = export_assets(b, &own);
	if (dir < 0)
		return dir;
	fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | (own ? O_NOFOLLOW : 0));
	fd = fd < 0 ? -errno : fd;
	close(dir);
	return fd;
}

int export_read_beside(void *beside, const char *name, char **text)
{
	struct export_beside *b = beside;
	int fd = open_for(b, name), err = 0;
	struct stat st;
	ssize_t n = 0;

	*text = NULL;
	if (fd < 0)
		return fd;
	if (fstat(fd, &st))
		err = -errno;
	else if (!S_ISREG(st.st_mode) || st.st_size > VIEW_BESIDE_MAX)
		err = S_ISREG(st.st_mode) ? -EFBIG : -EINVAL;
	else if (!(*text = calloc(1, (size_t)st.st_size + 1)))
		err = -ENOMEM;
	else
		n = read(fd, *text, (size_t)st.st_size);
	err = n < 0 ? -errno : err;
	close(fd);
	if (err) {
		free(*text);
		*text = NULL;
	} else {
		b->state = XXH3_64bits_withSeed(*text, strlen(*text), b->state + 1);
	}
	return err;
}
