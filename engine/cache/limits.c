/* SPDX-License-Identifier: MIT */
/* Memory limits for a cache: the host's, and those of every cgroup around this process. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/cache/cache.h"

#define CGROUP_ROOT  "/sys/fs/cgroup"
#define DEFAULT_MOST ((uint64_t)16 << 30)

/* The number in @path, or UINT64_MAX ("max", unreadable). */
static uint64_t read_limit(const char *path)
{
	__cleanup_file FILE *f = fopen(path, "re");
	unsigned long long n;

	return f && fscanf(f, "%llu", &n) == 1 ? n : UINT64_MAX;
}

/* Applies the limits in the files @name from @group up to the root of the hierarchy, at @top. */
static void look_up(const char *top, char *group, const char *name, uint64_t *least,
		    char **limit_path)
{
	char path[2 * PATH_MAX];
	char *slash;

	for (;;) {
		uint64_t n;

		snprintf(path, sizeof(path), "%s%s/%s", top, strcmp(group, "/") ? group : "", name);
		n = read_limit(path);
		if (n < *least) {
			*least = n;
			free(*limit_path);
			*limit_path = strdup(path);
		}
		slash = strrchr(group, '/');
		if (!slash)
			break;
		*slash = '\0';
	}
}

/*
 * The least of the host's memory and the limits of all cgroups from our own to the root, in either
 * version of cgroups ("0::/path", "N:controllers:/path").
 */
uint64_t cache_memory_limit(char **limit_path)
{
	__cleanup_file FILE *f = fopen("/proc/self/cgroup", "re");
	uint64_t least = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	char line[PATH_MAX];

	*limit_path = strdup(CACHE_MEMORY_OF_HOST);
	while (f && fgets(line, sizeof(line), f)) {
		char *controllers = strchr(line, ':'), *group;

		group = controllers ? strchr(++controllers, ':') : NULL;
		if (!group)
			continue;
		*group++ = '\0';
		group[strcspn(group, "\n")] = '\0';
		if (!*controllers)
			look_up(CGROUP_ROOT, group, "memory.max", &least, limit_path);
		else if (strstr(controllers, "memory"))
			look_up(CGROUP_ROOT "/memory", group, "memory.limit_in_bytes", &least,
				limit_path);
	}
	return least;
}

uint64_t cache_memory_available(void)
{
	__cleanup_file FILE *f = fopen(CACHE_MEMORY_OF_HOST, "re");
	unsigned long long kib;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
			return kib << 10;
	return UINT64_MAX;
}

size_t cache_default_size(void)
{
	__cleanup_free char *path = NULL;
	uint64_t size = cache_memory_limit(&path) / 8;

	return size < DEFAULT_MOST ? size : DEFAULT_MOST;
}
