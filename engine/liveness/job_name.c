/* SPDX-License-Identifier: MIT */
/* Names of jobs that people use. */
#include <string.h>

#include "engine/liveness/job.h"

/* True if @name is @whole, or its beginning up to one of @ends. */
static bool begins(const char *whole, const char *name, const char *ends)
{
	size_t len = strlen(name);

	return len && !strncmp(whole, name, len) && (!whole[len] || strchr(ends, whole[len]));
}

bool job_is(const char *key, const char *name)
{
	static const char slurm[] = "slurm/";
	const char *kind = strchr(key, '/'), *ends;

	if (!kind)
		return false;
	kind++;
	ends = strncmp(kind, slurm, strlen(slurm)) ? "/" : "/."; /* JOB.STEP */
	if (strchr(name, '/'))
		return begins(key, name, ends) || begins(kind, name, ends);
	return *ends && ends[1] && begins(kind + strlen(slurm), name, ends);
}

bool job_name_ok(const char *name)
{
	size_t digits = strspn(name, "0123456789");

	if (strchr(name, '/'))
		return name[0] != '/';
	return digits && (!name[digits] || (name[digits] == '.' && name[digits + 1]));
}
