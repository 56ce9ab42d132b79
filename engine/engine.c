/* SPDX-License-Identifier: MIT */
#include "engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/backing/creds.h"
#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/wait.h"
#include "engine/cache/cache.h"
#include "engine/calls/directory.h"
#include "engine/capture/capture.h"
#include "engine/commit/report.h"
#include "engine/commit/start.h"
#include "engine/coord/nodes.h"
#include "engine/flush/flush.h"
#include "engine/metrics/failures.h"
#include "engine/rule/rule.h"

#define DRAIN_NAP_NS (10 * NSEC_PER_MSEC)

/* As the daemon; where root has no rights, as the directory's owner. */
static int make_format(struct engine *en, struct error *e)
{
	struct backing *b = &en->backing;
	struct caller owner = {.pid = NO_PROCESS};
	struct who who;
	struct statx stx;
	int err = format_init(b->root_fd, b->path, e);

	if ((err != -EACCES && err != -EPERM) || backing_stat(b, b->root_fd, &stx))
		return err;
	owner.uid = stx.stx_uid;
	owner.gid = stx.stx_gid;
	who = who_as(&owner);
	return ACT_AS(&who, format_init(b->root_fd, b->path, e));
}

static int prepare_format(struct engine *en, struct error *e)
{
	struct error ignored;
	int err = format_check_nested(en->backing.root_fd, en->backing.path, e);

	if (!err)
		err = format_read(en->backing.root_fd, en->backing.path, &en->format, e);
	if (err || en->format.present || en->config.read_only)
		return err;
	/* The first mount that may makes it; a mount that may not works without. */
	err = make_format(en, &ignored);
	if (err)
		log_info("%s", ignored.text);
	return format_read(en->backing.root_fd, en->backing.path, &en->format, e);
}

/* The part of the memory that the cache may take: the daemon and other programs need the rest. */
#define CACHE_PART_OF(most) ((most) / 10 * 9)

/*
 * Fails with the size that fits. @most: what @path, a limit of a cgroup or the host's memory,
 * allows.
 */
static int above_limit(size_t size, uint64_t most, const char *path, struct error *e)
{
	uint64_t available = cache_memory_available(), part = CACHE_PART_OF(most);
	uint64_t fits = part < available ? part : available;
	unsigned long long gib = fits >> 30;

	/* In GiB if it is one at least. */
	if (!strcmp(path, CACHE_MEMORY_OF_HOST))
		return FAIL(e, ENOMEM, CACHE_ABOVE_HOST, size >> 20, (unsigned long long)most >> 20,
			    gib ? gib : fits >> 20, gib ? 'G' : 'M');
	return FAIL(e, ENOMEM, CACHE_ABOVE_CGROUP, size >> 20, (unsigned long long)most >> 20, path,
		    gib ? gib : fits >> 20, gib ? 'G' : 'M');
}

/* The limits of the cache, from the options and what this host allows. */
static int cache_limits(const struct config *c, struct cache_limits *l, struct error *e)
{
	__cleanup_free char *path = NULL;
	uint64_t most = cache_memory_limit(&path);

	*l = (struct cache_limits){
		.size = config_number(c, OPT_HOST_CACHE_SIZE),
		.chunk_size = config_number(c, OPT_CHUNK_SIZE),
		.per_uid = config_number(c, OPT_CACHE_PER_UID),
		.stall_timeout_s = (unsigned)config_number(c, OPT_STALL_TIMEOUT_S),
		.lock = config_number(c, OPT_PIN_HOST_CACHE),
	};
	if (!l->chunk_size)
		l->chunk_size = CACHE_CHUNK_DEFAULT;
	if (l->chunk_size < CACHE_CHUNK_MIN || l->chunk_size > CACHE_CHUNK_MAX ||
	    l->chunk_size & (l->chunk_size - 1))
		return FAIL(e, EINVAL, CHUNK_SIZE, l->chunk_size);
	if (!l->size) {
		l->size = cache_default_size();
		if (l->size < CACHE_CHUNKS_MIN * l->chunk_size)
			l->size = CACHE_CHUNKS_MIN * l->chunk_size;
	}
	if (l->size < CACHE_CHUNKS_MIN * l->chunk_size)
		return FAIL(e, EINVAL, CACHE_TOO_SMALL, l->size >> 10,
			    CACHE_CHUNKS_MIN * l->chunk_size >> 10, CACHE_CHUNKS_MIN);
	if (l->size > CACHE_PART_OF(most))
		return above_limit(l->size, most, path, e);
	if (l->per_uid && l->per_uid < l->chunk_size)
		l->per_uid = l->chunk_size;
	return 0;
}

static void stop_atime(struct engine *en)
{
	int err = backing_stop_atime(&en->backing);
	char text[MESSAGE_MAX];

	if (err) {
		MESSAGE(text, NOATIME_DENIED, en->backing.path, strerror(-err));
		log_warn("%s", text);
	}
}

static int read_rules(struct engine *en, struct error *e)
{
	json_t *own = json_loads(config_text(&en->config, OPT_RULES), 0, NULL); /* or NULL */
	int err = rules_create(&en->rules, own, "the config file", e);
	const struct rule *r = NULL;
	char text[MESSAGE_MAX];

	json_decref(own);
	while (!err && (r = rules_next_bare(en->rules, r))) {
		MESSAGE(text, RULE_BARE, "the config file", r->name);
		log_warn("%s", text);
	}
	return err;
}

int engine_open(struct engine *en, struct config *config, const char *path, struct error *e)
{
	__cleanup_free char *limit_path = NULL;
	struct cache_limits cache;
	bool acts = false;
	int err;

	memset(en, 0, sizeof(*en));
	lock_init(&en->ending, LOCK_ENDING);
	en->coord = (struct coord){.ops = &coord_dir_ops, .arg = &en->backing};
	en->config = *config;
	memset(config, 0, sizeof(*config));
	en->started_ns = clock_wall_ns();
	en->backing.root_fd = en->backing.proc_fd = -1;
	log_set_level((enum log_level)config_number(&en->config, OPT_LOG_LEVEL));
	en->failures = failures_create();
	en->notices = failures_create();
	if (!en->failures || !en->notices) {
		engine_close(en);
		return FAIL(e, ENOMEM, BACKING_UNUSABLE, path, strerror(ENOMEM));
	}
	config_set_memory(&en->config, cache_memory_limit(&limit_path));
	err = cache_limits(&en->config, &cache, e); /* before anything is touched */
	if (!err)
		err = read_rules(en, e);
	if (!err)
		err = coord_check(config_text(&en->config, OPT_COORD), e);
	if (!err)
		err = backing_open(&en->backing, path, e);
	if (!err && backing_lock(&en->backing, en->backing.root_fd, false))
		err = FAIL(e, EBUSY, BACKING_IN_REPAIR, en->backing.path);
	if (!err)
		acts = creds_init(feature_untried(en->backing.features, FEATURE_ACT_AS_CALLER));
	if (!err)
		err = prepare_format(en, e);
	if (err) {
		engine_close(en);
		return err;
	}
	if (en->config.no_atime)
		stop_atime(en);
	features_probe(en->backing.features, en->backing.root_fd, !en->config.read_only);
	features_set(en->backing.features, FEATURE_ACT_AS_CALLER, acts);
	return 0;
}

/* The directory @place by device and inode, whatever its name. */
static void identify(const char *place, char id[64])
{
	struct stat st;

	*id = '\0';
	if (!stat(place, &st))
		snprintf(id, 64, "%llx:%llx", (unsigned long long)st.st_dev,
			 (unsigned long long)st.st_ino);
}

static void test_coord(struct engine *en)
{
	char text[MESSAGE_MAX];
	int err = coord_dir_test(&en->backing, -1, en->unsafe);

	if (err < 0) /* making the lease fails, too, and says so */
		snprintf(en->unsafe, sizeof(en->unsafe), "it cannot be tried: %s", strerror(-err));
	if (err == 1) {
		MESSAGE(text, COORD_UNSAFE, en->backing.path, en->unsafe);
		log_warn("%s", text);
	}
}

int engine_meet(struct engine *en, const char *label, const char *place, void (*waits)(void *arg),
		void *arg, struct error *e)
{
	const struct coord_choice choice = {
		.option = config_text(&en->config, OPT_COORD),
		.backing = &en->backing,
		.format = &en->format,
		.lease_s = (unsigned)config_number(&en->config, OPT_LEASE_S),
		.writes = true,
	};
	char rules[33], id[64];
	int err;

	if (en->config.read_only) {
		snprintf(en->alone, sizeof(en->alone), "it is read-only");
		return 0;
	}
	err = coord_choose(&en->coord, &choice, e);
	if (err)
		return err;
	if (!en->format.present) {
		snprintf(en->alone, sizeof(en->alone), FORMAT_DIR " could not be made");
		return 0;
	}
	if (!en->coord.etcd)
		test_coord(en);
	rules_digest(en->rules, rules);
	identify(place, id);
	return nodes_create(&en->nodes,
			    &(struct nodes_options){
				    .coord = en->coord.ops,
				    .coord_arg = en->coord.arg,
				    .backing = en->backing.path,
				    .label = label,
				    .label_given = *config_text(&en->config, OPT_NODE),
				    .place = id,
				    .rules = rules,
				    .lease_s = (unsigned)config_number(&en->config, OPT_LEASE_S),
				    .waits = waits,
				    .arg = arg,
			    },
			    e);
}

json_t *engine_coord(struct engine *en)
{
	json_t *coord = en->nodes ? nodes_to_json(en->nodes)
				  : json_pack("{s:s, s:[]}", "lease", "alone", "others");
	bool alone = !en->nodes || nodes_alone(en->nodes);
	char outage[MESSAGE_MAX];
	uint64_t ns;
	const char *lease_why = json_string_value(json_object_get(coord, "why"));
	json_t *why = json_text(alone && !en->nodes	? en->alone
				: *en->unsafe && !alone ? en->unsafe
				: lease_why		? lease_why
							: "");

	json_object_set_new(coord, "backend", json_string(en->coord.etcd ? "etcd" : "dir"));
	json_object_set_new(coord, "state",
			    json_string(alone	      ? "alone"
					: *en->unsafe ? "unsafe"
						      : "safe"));
	json_object_set_new(coord, "why", why);
	if (en->coord.etcd && (ns = coord_etcd_outage_ns(en->coord.etcd, outage, sizeof(outage)))) {
		json_object_set_new(coord, "state", json_string("outage"));
		json_object_set_new(coord, "outage_s", json_real((double)ns / NSEC_PER_SEC));
		json_object_set_new(coord, "why", json_text(outage));
	}
	return coord;
}

/* The S of on_full=wait:S; else 0. */
static unsigned full_wait_s(const struct config *c)
{
	const char *text = config_text(c, OPT_ON_FULL);

	if (config_number(c, OPT_ON_FULL) != FULL_WAITS)
		return 0;
	return (unsigned)strtoul(strchr(text, ':') + 1, NULL, 10);
}

static int start_units(struct engine *en, const char *node, struct error *e)
{
	const struct config *c = &en->config;

	return units_create(
		&en->units,
		&(struct unit_options){
			.contents = en->contents,
			.failures = en->failures,
			.notices = en->notices,
			.rules = en->rules,
			.coord = en->coord.ops,
			.coord_arg = en->coord.arg,
			.node = node,
			.nodes = en->nodes,
			.lease_s = (unsigned)config_number(c, OPT_LEASE_S),
			.retry_s = (unsigned)config_number(c, OPT_IO_RETRY_S),
			.quiet_s = (unsigned)config_number(c, OPT_QUIET_S),
			.order_timeout_s = (unsigned)config_number(c, OPT_ORDER_TIMEOUT_S),
			.commit_timeout_s = (unsigned)config_number(c, OPT_COMMIT_TIMEOUT_S),
			.open_max_s = (unsigned)config_number(c, OPT_OPEN_MAX_S),
			.delete_last = config_number(c, OPT_ON_FULL) == FULL_DELETES_LAST,
			.full_wait_s = full_wait_s(c),
		},
		e);
}

static void content_failed(void *engine, const struct inode_id *id, int err)
{
	struct engine *en = engine;

	units_content_failed(en->units, id, err);
}

static bool content_full(void *engine, const struct inode_id *id, struct shortage *s)
{
	struct engine *en = engine;

	return units_content_full(en->units, id, s);
}

static void content_rested(void *engine)
{
	struct engine *en = engine;

	units_content_rested(en->units);
}

int engine_start(struct engine *en, const char *node, bool (*decide)(void), struct error *e)
{
	const struct config *c = &en->config;
	struct cache_limits cache;
	struct flush_limits flush = {
		.depth = (unsigned)config_number(c, OPT_FLUSH_DEPTH),
		.workers = (unsigned)config_number(c, OPT_PARSER_THREADS),
		.bytes_per_s = config_number(c, OPT_FLUSH_BW),
		.retry_s = (unsigned)config_number(c, OPT_IO_RETRY_S),
		.uring = true,
	};
	const struct content_events events = {content_failed, content_full, content_rested, en};
	int err;

	if (c->read_only)
		return 0; /* nothing will ever be written */
	if (!flush.depth)
		flush.depth = FLUSH_DEPTH_DEFAULT;
	if (!flush.workers)
		flush.workers = flush_default_workers();
	err = cache_limits(c, &cache, e);
	if (!err)
		err = cache_create(&en->cache, &cache, e);
	if (!err && contents_create(&en->contents, en->cache, &en->backing, &events))
		err = FAIL(e, ENOMEM, IO_THREADS, strerror(ENOMEM));
	if (!err)
		err = flush_create(&en->flush, en->contents, &flush, e);
	if (!err)
		err = start_units(en, node, e);
	if (!err &&
	    captures_create(&en->captures,
			    &(struct capture_options){
				    .cache = en->cache,
				    .bytes_per_s = config_number(c, OPT_CAPTURE_BW),
				    .check = (enum ckptfs_check)config_number(c, OPT_CAPTURE_CHECK),
				    .decide = decide,
			    }))
		err = FAIL(e, ENOMEM, IO_THREADS, strerror(ENOMEM));
	if (!err)
		units_recover(en->units);
	return err;
}

void engine_pending(struct engine *en, struct engine_pending *p)
{
	memset(p, 0, sizeof(*p));
	if (!en->units)
		return;
	units_progress(en->units, &p->units);
	p->dirty_bytes = cache_unflushed_bytes(en->cache);
}

int engine_drain(struct engine *en, uint64_t deadline_ns)
{
	uint64_t failed = failures_total(en->failures);
	struct engine_pending p;
	int err;

	if (!en->units)
		return 0;
	err = units_drain(en->units, deadline_ns);
	for (engine_pending(en, &p); !err && p.dirty_bytes; engine_pending(en, &p)) {
		wait_ns(DRAIN_NAP_NS);
		if (clock_mono_ns() > deadline_ns)
			err = -ETIMEDOUT;
	}
	return !err && failures_total(en->failures) != failed ? -EIO : err;
}

void engine_no_more_calls(struct engine *en, const char *mountpoint)
{
	if (!en->units)
		return;
	captures_stop(en->captures); /* no process can capture any more */
	LOCK_SCOPE(&en->ending);
	units_no_more_calls(en->units);
	units_drain(en->units, 0); /* commits what has its end by that */
	checkpoints_leave_open(en->units, mountpoint);
}

void engine_stop(struct engine *en)
{
	captures_stop(en->captures);
	units_stop(en->units);
	flush_destroy(en->flush);
	en->flush = NULL;
}

void engine_close(struct engine *en)
{
	engine_stop(en);
	captures_destroy(en->captures);
	en->captures = NULL;
	contents_destroy(en->contents);
	units_destroy(en->units);
	rules_destroy(en->rules);
	en->rules = NULL;
	cache_destroy(en->cache);
	nodes_destroy(en->nodes);
	en->nodes = NULL;
	coord_close(&en->coord);
	backing_close(&en->backing);
	failures_destroy(en->failures);
	failures_destroy(en->notices);
	en->failures = en->notices = NULL;
	config_finish(&en->config);
}
