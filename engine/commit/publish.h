/* SPDX-License-Identifier: MIT */
/* The publish of a file: it becomes durable and digested, and gets its name. */
#ifndef ENGINE_COMMIT_PUBLISH_H
#define ENGINE_COMMIT_PUBLISH_H

#include "engine/save/generation.h"

struct error;

/* Makes what was written durable in staging; retries for io_retry_s. 0, -EINTR, or its error. */
int generation_sync(struct generation *g);

/*
 * Steps of a publish (publish.c), for the thread that holds @g in PUBLISHING or TAKEN, or makes it
 * ordinary; without the lock. 0, or -errno with @e filled.
 * publish_whole makes @g durable in staging, and NAMING unless it is a file of a checkpoint or
 * ordinary.
 * publish_name gives @g its name. *@named is true even if the name could not be synced, and false
 * if another node's pointer, written later, has the name.
 * publish_end ends @g, in @state if @err is 0.
 */
int publish_whole(struct generation *g, struct error *e);
int publish_name(struct generation *g, bool *named, struct error *e);
void publish_end(struct generation *g, enum generation_state state, int err, bool named,
		 const char *reason);

void *publisher_main(void *units);

#endif
