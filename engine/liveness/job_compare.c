/* SPDX-License-Identifier: MIT */
/* Which processes belong together: by what was read of each, nothing else. */
#include <string.h>

#include "engine/base/fault.h"
#include "engine/liveness/job.h"

bool job_same(const struct process *a, const struct process *b)
{
	const char *nr = strrchr(a->key, '/');
	size_t len = FAULT(FENCE_IGNORED) && nr ? (size_t)(nr - a->key) : JOB_KEY_MAX;

	return a->uid == b->uid && (!a->read || !b->read || !strncmp(a->key, b->key, len));
}

const char *job_count(const char *key)
{
	const char *kind = strchr(key, '/'), *nr = strrchr(key, '/');

	return kind && !strncmp(kind, "/slurm/", 7) && nr[1] == 'r' && nr[2] ? nr + 2 : NULL;
}

bool job_counts_starts(const struct process *p)
{
	const char *count = job_count(p->key);

	return p->read && count && !strchr(count, '+');
}

bool job_started_again(const char *former, const char *key)
{
	const char *nr = job_count(former);

	return !FAULT(FENCE_IGNORED) && nr && !strncmp(former, key, (size_t)(nr - former)) &&
	       strverscmp(former, key) < 0;
}

bool job_restarted(const char *former, const struct process *p)
{
	return p->read && job_started_again(former, p->key);
}
