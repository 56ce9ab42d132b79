/* SPDX-License-Identifier: MIT */
#include "engine/liveness/epoch.h"

#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/liveness/job.h"

/* @key as seen from @of: compares the counts of starts if both keys have one. */
static enum epoch_order order_of_keys(const char *key, const char *of)
{
	const char *a = job_key_starts(key), *b = job_key_starts(of);
	int order = strverscmp(key, of);

	if (!order)
		return EPOCH_SAME;
	if (!a || !b || a - key != b - of || strncmp(key, of, (size_t)(a - key)) != 0)
		return EPOCH_OTHER;
	if (FAULT(FENCE_IGNORED))
		return EPOCH_SAME;
	return order > 0 ? EPOCH_NEWER : EPOCH_OLDER;
}

enum epoch_order epoch_order(const struct process *p, const char *key, uint64_t ended_ns)
{
	enum epoch_order order = p->read ? order_of_keys(p->key, key) : EPOCH_UNKNOWN;

	if (order == EPOCH_SAME && ended_ns != EPOCH_LASTS && !epoch_started_before(p, ended_ns))
		return EPOCH_NEWER;
	return order;
}

bool epoch_same(const struct process *a, const struct process *b)
{
	return a->uid == b->uid &&
	       (!a->read || !b->read || epoch_order(a, b->key, EPOCH_LASTS) == EPOCH_SAME);
}

bool epoch_is_counted(const struct process *p)
{
	const char *starts = p->read ? job_key_starts(p->key) : NULL;

	return starts && job_key_counts_all(starts);
}

bool epoch_started_before(const struct process *p, uint64_t at_ns)
{
	uint64_t tick = NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t now = clock_boot_ns(), ago = clock_mono_ns() - at_ns;

	return p->start < (now > ago ? now - ago : 0) / tick;
}
