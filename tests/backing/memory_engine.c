/* SPDX-License-Identifier: MIT */
#include "tests/backing/memory_engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "engine/backing/creds.h"
#include "engine/base/cleanup.h"
#include "engine/base/log.h"
#include "engine/metrics/failures.h"
#include "engine/rule/rule.h"
#include "tests/backing/util.h"

#define UUID "00000000-0000-4000-8000-000000000000"

/* As format_init leaves it, by the calls of the backing, and durable. */
static int make_format(struct backing *b)
{
	static const char *const dirs[] = {"txn", "nodes", "digests"};
	int err = backing_mkdir(b, b->root_fd, FORMAT_DIR, 0755), len;
	__cleanup_fd int dir = -1, fd = -1;
	char text[128];
	bool created;
	size_t i;

	if (err)
		return err == -EEXIST ? 0 : err;
	dir = backing_pin(b, b->root_fd, FORMAT_DIR);
	for (i = 0; !err && i < ARRAY_SIZE(dirs); i++)
		err = backing_mkdir(b, dir, dirs[i], 01777);
	len = snprintf(text, sizeof(text),
		       "{\"ckptfs\": %d, \"uuid\": \"%s\", \"created_ns\": 0}\n", FORMAT_VERSION,
		       UUID);
	fd = err ? err : backing_create(b, dir, FORMAT_FILE, O_WRONLY, 0644, &created);
	if (fd >= 0 && backing_write(b, fd, text, (size_t)len, 0, 0) != len)
		err = -EIO;
	return err || fd < 0 ? (err ? err : fd) : backing_sync_fs(b, b->root_fd);
}

int engine_open_memory(struct engine *en, struct config *config, struct memory *m, struct error *e)
{
	int err;

	memset(en, 0, sizeof(*en));
	lock_init(&en->ending, LOCK_ENDING);
	en->coord = (struct coord){.ops = &coord_dir_ops, .arg = &en->backing};
	en->config = *config;
	memset(config, 0, sizeof(*config));
	en->started_ns = clock_wall_ns();
	log_set_level((enum log_level)config_number(&en->config, OPT_LOG_LEVEL));
	en->failures = must(failures_create());
	en->notices = must(failures_create());
	memory_open(m, &en->backing);
	err = rules_create(&en->rules, NULL, "", e);
	if (!err)
		err = make_format(&en->backing);
	if (err) {
		engine_close(en);
		return FAIL(e, -err, INIT_FAILED, "/memory", strerror(-err));
	}
	features_set(en->backing.features, FEATURE_ACT_AS_CALLER,
		     creds_init(feature_untried(en->backing.features, FEATURE_ACT_AS_CALLER)));
	en->format = (struct format){.present = true, .uuid = UUID};
	return 0;
}
