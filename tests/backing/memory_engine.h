/* SPDX-License-Identifier: MIT */
/* An engine over the filesystem in memory: engine_open without a path. */
#ifndef TESTS_BACKING_MEMORY_ENGINE_H
#define TESTS_BACKING_MEMORY_ENGINE_H

#include "engine/engine.h"
#include "tests/backing/memory.h"

/*
 * As engine_open, for the top directory of @m; makes .ckptfs in it unless that is there. Takes over
 * @config. All of engine_start, engine_stop and engine_close can follow, but not engine_meet. 0 or
 * -errno, with @e filled.
 */
int engine_open_memory(struct engine *en, struct config *config, struct memory *m, struct error *e);

#endif
