/* SPDX-License-Identifier: MIT */
#include "fs/nearest.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/spelling.h"

#define SPELLING_MAX 63 /* limit of spelling_distance */

/* The name in @dir that is most like @name, or "". */
static void nearest_in(const char *dir, const char *name, char nearest[NAME_MAX + 1])
{
	size_t best = strlen(name) / 2 + 2, distance;
	struct dirent *entry;
	DIR *d = opendir(dir);

	*nearest = '\0';
	while (d && (entry = readdir(d))) {
		if (*entry->d_name == '.' || strlen(entry->d_name) > SPELLING_MAX)
			continue;
		distance = spelling_distance(name, entry->d_name);
		if (distance >= best)
			continue;
		best = distance;
		snprintf(nearest, NAME_MAX + 1, "%s", entry->d_name);
	}
	if (d)
		closedir(d);
}

bool nearest_path(const char *path, char near[PATH_MAX])
{
	char dir[PATH_MAX], name[NAME_MAX + 1], found[NAME_MAX + 1];
	size_t len = strlen(path), from;

	/* Goes up to the first directory that exists. */
	do {
		while (len && path[len - 1] == '/')
			len--;
		for (from = len; from && path[from - 1] != '/'; from--)
			;
		if (!len || len - from > SPELLING_MAX || len >= PATH_MAX)
			return false;
		snprintf(name, sizeof(name), "%.*s", (int)(len - from), path + from);
		snprintf(dir, sizeof(dir), "%.*s", (int)from, path);
		len = from;
	} while (*dir && access(dir, F_OK) && strspn(dir, "/") != strlen(dir));
	nearest_in(*dir ? dir : ".", name, found);
	return *found && strcmp(found, name) &&
	       snprintf(near, PATH_MAX, "%s%s", dir, found) < PATH_MAX;
}
