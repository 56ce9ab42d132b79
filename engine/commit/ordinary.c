/* SPDX-License-Identifier: MIT */
#include "engine/commit/ordinary.h"

#include "engine/base/log.h"
#include "engine/save/units.h"

bool ordinary_is_due_locked(const struct generation *g, uint64_t now)
{
	return generation_rests_in(g, GENERATION_OPEN) && g->nr_handles && !g->checkpoint &&
	       !g->pointer && !g->replaces && !g->inherited && !g->nr_changing &&
	       list_empty(&g->expected) && g->again_ns <= now &&
	       now - g->touched_ns > g->units->open_ns;
}

int ordinary_prepare(struct generation *g, const char **step)
{
	/* A crash may lose its name, but must not leave it empty. */
	int err = content_sync(g->content);

	*step = "writing it";
	if (!err)
		log_info("'%s' is open, and was not written for a long while (open_max_s): it is "
			 "an ordinary file from now on, and on the backing as it is",
			 g->path);
	return err;
}
