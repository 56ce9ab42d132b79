/* SPDX-License-Identifier: MIT */
/* An engine over a scratch directory, without config, format or change of credentials. */
#ifndef TESTS_UNIT_ENGINE_STUB_H
#define TESTS_UNIT_ENGINE_STUB_H

#include "tests/unit/unit.h"

#include "engine/engine.h"
#include "engine/metrics/failures.h"

static inline struct engine *engine_stub(void)
{
	struct engine *en = calloc(1, sizeof(*en));
	char path[PATH_MAX];
	struct error e;

	assert_non_null(en);
	if (backing_open(&en->backing, scratch_dir(path), &e))
		fail_msg("%s", e.text);
	features_probe(en->backing.features, en->backing.root_fd, true);
	en->failures = failures_create();
	return en;
}

static inline void engine_stub_free(struct engine *en)
{
	backing_close(&en->backing);
	failures_destroy(en->failures);
	free(en);
}

#endif
