/* SPDX-License-Identifier: MIT */
#include "fs/control_dir.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ckptfs_abi.h"
#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/table.h"
#include "engine/cache/cache.h"
#include "engine/capture/capture.h"
#include "engine/commit/report.h"
#include "engine/config/config.h"
#include "engine/flush/flush.h"
#include "engine/journal/journal.h"
#include "engine/liveness/writer.h"
#include "engine/metrics/failures.h"
#include "engine/metrics/metrics.h"
#include "fs/mountinfo.h"

/* True for root and the user who mounted; others see only what concerns them. */
static bool sees_all(uid_t viewer)
{
	return viewer == 0 || viewer == geteuid();
}

json_t *control_status(struct fs *fs, uid_t viewer)
{
	struct engine *en = fs->engine;
	struct metrics *m = &en->metrics;
	json_t *requests = requests_to_json(fs->requests), *status;
	__cleanup_free struct mount_entry *now = calloc(1, sizeof(*now));
	bool read_only =
		en->config.read_only ||
		(now && mountinfo_find_device(fs->major, fs->minor, now) && now->read_only);

	if (!sees_all(viewer))
		json_object_set_new(requests, "waiting", json_array());
	status = json_pack(
		"{s:s, s:i, s:s, s:o, s:o, s:s, s:s, s:b, s:I, s:I, s:o, s:o, s:{s:I, "
		"s:I}, s:I, s:I, "
		"s:I}",
		"version", CKPTFS_VERSION, "abi", CKPTFS_ABI_VERSION, "state", "live", "backing",
		json_text(en->backing.path), "mountpoint", json_text(fs->mountpoint), "node",
		fs->label, "uuid", en->format.uuid, "read_only", read_only, "pid",
		(json_int_t)getpid(), "started_ns", (json_int_t)en->started_ns, "features",
		features_to_json(en->backing.features), "requests", requests, "bytes", "read",
		(json_int_t)m->read_bytes, "written", (json_int_t)m->written_bytes, "open_handles",
		(json_int_t)m->open_handles, "nodes", (json_int_t)m->nodes, "failures",
		(json_int_t)failures_total(en->failures));
	json_object_set_new(status, "notices",
			    failures_to_json(en->notices, viewer, sees_all(viewer)));
	json_object_set_new(status, "coord", engine_coord(en));
	if (en->units) {
		json_object_set_new(status, "cache", cache_to_json(en->cache));
		json_object_set_new(status, "flush", flush_to_json(en->flush));
		json_object_set_new(status, "pending",
				    units_to_json(en->units, viewer, sees_all(viewer)));
		/* After `pending`, so that a save which ends in between is in one of the two. */
		json_object_set_new(status, "units", units_counts(en->units));
		json_object_set_new(status, "removals",
				    removals_to_json(en->units, viewer, sees_all(viewer)));
		json_object_set_new(status, "sessions",
				    captures_to_json(en->captures, viewer, sees_all(viewer)));
		json_object_set_new(status, "captures", captures_counts(en->captures));
		json_object_set_new(status, "exit_status_readable",
				    json_boolean(writer_status_readable()));
	}
	return status;
}

/* --- the files --- */

static char *dump(json_t *value)
{
	char *text = value ? json_dumps(value, JSON_INDENT(2)) : NULL;
	char *line = NULL;

	json_decref(value);
	if (text && asprintf(&line, "%s\n", text) < 0)
		line = NULL;
	free(text);
	return line;
}

static char *make_status(struct fs *fs, uid_t viewer)
{
	return dump(control_status(fs, viewer));
}

static char *make_metrics(struct fs *fs, uid_t viewer)
{
	char *requests = metrics_prometheus(&fs->engine->metrics, fs->label,
					    failures_total(fs->engine->failures), request_op_name);
	char *rest = requests ? engine_metrics(fs->engine, fs->label) : NULL, *text = NULL;

	(void)viewer;
	if (rest && asprintf(&text, "%s%s", requests, rest) < 0)
		text = NULL;
	free(requests);
	free(rest);
	return text;
}

static char *make_failures(struct fs *fs, uid_t viewer)
{
	return dump(failures_to_json(fs->engine->failures, viewer, sees_all(viewer)));
}

static char *make_trace(struct fs *fs, uid_t viewer)
{
	struct engine *en = fs->engine;
	json_t *trace = en->units ? units_trace(en->units, viewer, sees_all(viewer))
				  : json_pack("{s:[]}", "traceEvents");

	if (en->captures)
		captures_trace(en->captures, viewer, sees_all(viewer),
			       json_object_get(trace, "traceEvents"));
	return dump(trace);
}

static char *make_config(struct fs *fs, uid_t viewer)
{
	(void)viewer;
	return dump(config_to_json(&fs->engine->config));
}

static const struct {
	const char *name;
	char *(*make)(struct fs *fs, uid_t viewer);
} files[] = {
	{"status.json", make_status}, {"metrics", make_metrics},  {"failures.json", make_failures},
	{"config.json", make_config}, {"trace.json", make_trace},
};

static void fill(struct stat *st, uint64_t id)
{
	bool dir = id == CONTROL_DIR_ID;

	memset(st, 0, sizeof(*st));
	st->st_ino = id;
	st->st_mode = dir		      ? S_IFDIR | 0555
		      : id >= CONTROL_SOCKETS ? S_IFSOCK | 0666
		      : id == CONTROL_CTL_ID  ? S_IFREG | 0666
					      : S_IFREG | 0444;
	st->st_nlink = dir ? 2 : 1;
	st->st_uid = geteuid();
	st->st_gid = getegid();
	st->st_mtim = clock_timespec(clock_wall_ns());
	st->st_atim = st->st_ctim = st->st_mtim;
}

/* 0: no such file. */
static uint64_t id_below(struct fs *fs, const char *name)
{
	struct captures *cs = fs->engine->captures;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(files); i++)
		if (!strcmp(files[i].name, name))
			return CONTROL_DIR_ID + 1 + i;
	if (!strcmp(name, CKPTFS_CTL))
		return CONTROL_CTL_ID;
	if (cs && captures_has_socket(cs, name))
		return CONTROL_SOCKETS + (hash_text(0, name) & 0x7fffffff);
	return 0;
}

void control_mknod(fuse_req_t req, const char *name, mode_t mode)
{
	struct fuse_entry_param entry = {.attr_timeout = 0, .entry_timeout = 0};
	struct captures *cs = req_fs(req)->engine->captures;
	bool ours = !tgkill(getpid(), fuse_req_ctx(req)->pid, 0);

	if (!ours || !S_ISSOCK(mode) || !cs || !captures_make_socket(cs, name)) {
		fuse_reply_err(req, EPERM);
		return;
	}
	entry.ino = id_below(req_fs(req), name);
	fill(&entry.attr, entry.ino);
	fuse_reply_entry(req, &entry);
}

void control_lookup(fuse_req_t req, uint64_t parent, const char *name)
{
	struct fuse_entry_param entry = {.attr_timeout = 0, .entry_timeout = 0};

	entry.ino = parent == NODE_ROOT	       ? CONTROL_DIR_ID
		    : parent == CONTROL_DIR_ID ? id_below(req_fs(req), name)
					       : 0;
	if (!entry.ino) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	fill(&entry.attr, entry.ino);
	fuse_reply_entry(req, &entry); /* lookups are not counted here */
}

void control_getattr(fuse_req_t req, uint64_t id)
{
	struct stat st;

	fill(&st, id);
	fuse_reply_attr(req, &st, 0);
}

void control_open(fuse_req_t req, uint64_t id, struct fuse_file_info *fi)
{
	uint64_t i = id - CONTROL_DIR_ID - 1;
	bool ctl = id == CONTROL_CTL_ID;
	char *text;

	if (!ctl && i >= ARRAY_SIZE(files)) {
		fuse_reply_err(req, EISDIR);
		return;
	}
	if (!ctl && ((fi->flags & O_ACCMODE) != O_RDONLY || fi->flags & O_TRUNC)) {
		fuse_reply_err(req, EACCES);
		return;
	}
	text = ctl ? strdup("") : files[i].make(req_fs(req), fuse_req_ctx(req)->uid);
	if (!text) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	fi->fh = (uintptr_t)text;
	fi->direct_io = 1;
	fi->noflush = 1;
	if (fuse_reply_open(req, fi))
		free(text);
}

void control_read(fuse_req_t req, size_t size, off_t off, struct fuse_file_info *fi)
{
	const char *text = (const char *)(uintptr_t)fi->fh;
	size_t len = strlen(text), at = (size_t)off < len ? (size_t)off : len;
	char *buf = requests_data_buffer();

	/* Copies the text: once the reply is out, a release may free it before the call returns. */
	len = len - at < size ? len - at : size;
	if (len > REQUEST_MAX_BYTES)
		len = REQUEST_MAX_BYTES;
	memcpy(buf, text + at, len);
	fuse_reply_buf(req, buf, len);
}

void control_release(fuse_req_t req, struct fuse_file_info *fi)
{
	struct captures *cs = req_fs(req)->engine->captures;

	if (cs)
		captures_closed(cs, fi->fh); /* before another open gets the same handle */
	free((char *)(uintptr_t)fi->fh);
	fuse_reply_err(req, 0);
}

void control_opendir(fuse_req_t req, struct fuse_file_info *fi)
{
	fi->fh = 0;
	fuse_reply_open(req, fi);
}

void control_readdir(fuse_req_t req, size_t size, off_t off)
{
	char buf[1024];
	size_t len = 0, i;

	for (i = (size_t)off; i < ARRAY_SIZE(files) + 2; i++) {
		struct stat st;
		const char *name = i == 0 ? "." : i == 1 ? ".." : files[i - 2].name;
		size_t need;

		fill(&st, i < 2 ? CONTROL_DIR_ID : CONTROL_DIR_ID + i - 1);
		need = fuse_add_direntry(req, NULL, 0, name, &st, (off_t)i + 1);
		if (len + need > size || len + need > sizeof(buf))
			break;
		len += fuse_add_direntry(req, buf + len, sizeof(buf) - len, name, &st,
					 (off_t)i + 1);
	}
	fuse_reply_buf(req, buf, len);
}
