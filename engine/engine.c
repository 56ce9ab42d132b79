/* SPDX-License-Identifier: MIT */
#include "engine/engine.h"

#include <errno.h>
#include <string.h>

static int prepare_format(struct engine *en, struct error *e)
{
	struct error ignored;
	int err = format_check_nested(en->backing.root_fd, en->backing.path, e);

	if (!err)
		err = format_read(en->backing.root_fd, en->backing.path, &en->format, e);
	if (err || en->format.present || en->config.read_only)
		return err;
	/* The first mount that may makes it; one that may not works without. */
	err = format_init(en->backing.root_fd, en->backing.path, &ignored);
	if (err)
		log_info("%s", ignored.text);
	return format_read(en->backing.root_fd, en->backing.path, &en->format, e);
}

int engine_open(struct engine *en, struct config *config, const char *path, struct error *e)
{
	int err;

	memset(en, 0, sizeof(*en));
	en->config = *config;
	memset(config, 0, sizeof(*config));
	en->started_ns = clock_wall_ns();
	en->backing.root_fd = en->backing.proc_fd = -1;
	log_set_level((enum log_level)config_number(&en->config, OPT_LOG_LEVEL));
	en->failures = failures_create();
	if (!en->failures) {
		engine_close(en);
		return FAIL(e, ENOMEM, BACKING_UNUSABLE, path, strerror(ENOMEM));
	}
	err = backing_open(&en->backing, path, e);
	if (!err)
		err = prepare_format(en, e);
	if (err) {
		engine_close(en);
		return err;
	}
	features_probe(&en->backing.features, en->backing.root_fd, !en->config.read_only);
	features_set(&en->backing.features, FEATURE_ACT_AS_CALLER,
		     creds_init(feature_untried(&en->backing.features, FEATURE_ACT_AS_CALLER)));
	return 0;
}

void engine_close(struct engine *en)
{
	backing_close(&en->backing);
	failures_destroy(en->failures);
	en->failures = NULL;
	config_finish(&en->config);
}
