/* SPDX-License-Identifier: MIT */
/*
 * The engine of one mount: all of ckptfs that knows nothing of FUSE. fs/ includes this header (and
 * what it includes) and no other of the engine's.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "engine/backing/backing.h"
#include "engine/backing/creds.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/list.h"
#include "engine/base/log.h"
#include "engine/base/message.h"
#include "engine/config/config.h"
#include "engine/format/format.h"
#include "engine/metrics/failures.h"
#include "engine/metrics/metrics.h"

struct engine {
	struct config config;	/* const after engine_open */
	struct backing backing; /* const after engine_open */
	struct format format;	/* const after engine_open */
	struct metrics metrics;
	struct failures *failures;
	uint64_t started_ns; /* wall clock */
};

/*
 * Opens the backing at @path with the options in @config, which the engine takes over (also on
 * failure). Makes BACKING/.ckptfs where it may. Single-threaded; switches this process's
 * credentials as creds_init does. Returns 0 or -errno with @e filled; undo with engine_close.
 */
int engine_open(struct engine *en, struct config *config, const char *path, struct error *e);
void engine_close(struct engine *en);

#endif
