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

bool job_restarted(const char *key, const struct process *p)
{
	const char *nr = strrchr(key, '/');
	size_t len = nr ? (size_t)(nr + 2 - key) : 0;

	/* A host may have a name like that. */
	return !FAULT(FENCE_IGNORED) && p->read && nr && nr[1] == 'r' && nr[2] &&
	       !nr[2 + strspn(nr + 2, "0123456789.")] && !strncmp(key, p->key, len) &&
	       strverscmp(key, p->key) < 0;
}
