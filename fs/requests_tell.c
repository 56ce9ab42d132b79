/* SPDX-License-Identifier: MIT */
/*
 * Messages about requests: names of opcodes, slow requests, those in flight for status. The lock is
 * held only while they are copied.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/list.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/base/message.h"
#include "engine/metrics/failures.h"
#include "engine/metrics/metrics.h"
#include "fs/fs.h"
#include "fs/requests_inside.h"

const char *request_op_name(unsigned opcode)
{
	static const char *const names[METRIC_OPS] = {
		[FUSE_LOOKUP] = "LOOKUP",
		[FUSE_FORGET] = "FORGET",
		[FUSE_GETATTR] = "GETATTR",
		[FUSE_SETATTR] = "SETATTR",
		[FUSE_READLINK] = "READLINK",
		[FUSE_SYMLINK] = "SYMLINK",
		[FUSE_MKNOD] = "MKNOD",
		[FUSE_MKDIR] = "MKDIR",
		[FUSE_UNLINK] = "UNLINK",
		[FUSE_RMDIR] = "RMDIR",
		[FUSE_RENAME] = "RENAME",
		[FUSE_LINK] = "LINK",
		[FUSE_OPEN] = "OPEN",
		[FUSE_READ] = "READ",
		[FUSE_WRITE] = "WRITE",
		[FUSE_STATFS] = "STATFS",
		[FUSE_RELEASE] = "RELEASE",
		[FUSE_FSYNC] = "FSYNC",
		[FUSE_SETXATTR] = "SETXATTR",
		[FUSE_GETXATTR] = "GETXATTR",
		[FUSE_LISTXATTR] = "LISTXATTR",
		[FUSE_REMOVEXATTR] = "REMOVEXATTR",
		[FUSE_FLUSH] = "FLUSH",
		[FUSE_INIT] = "INIT",
		[FUSE_OPENDIR] = "OPENDIR",
		[FUSE_READDIR] = "READDIR",
		[FUSE_RELEASEDIR] = "RELEASEDIR",
		[FUSE_FSYNCDIR] = "FSYNCDIR",
		[FUSE_ACCESS] = "ACCESS",
		[FUSE_CREATE] = "CREATE",
		[FUSE_IOCTL] = "IOCTL",
		[FUSE_FALLOCATE] = "FALLOCATE",
		[FUSE_RENAME2] = "RENAME2",
		[FUSE_LSEEK] = "LSEEK",
		[FUSE_COPY_FILE_RANGE] = "COPY_FILE_RANGE",
	};

	return opcode < METRIC_OPS ? names[opcode] : NULL;
}

static const char *op_name(unsigned opcode)
{
	const char *name = request_op_name(opcode);

	return name ? name : "request";
}

void requests_tell_waiting(struct requests *rs, const struct request_facts *w, bool abandoned)
{
	char path[PATH_MAX], text[MESSAGE_MAX];
	const char *op = op_name(w->opcode);

	tree_path(rs->fs->tree, w->nodeid, NULL, path, sizeof(path));
	if (abandoned)
		MESSAGE(text, OP_ABANDONED, op, path, w->pid, w->waited);
	else
		MESSAGE(text, OP_STUCK, op, path, w->pid, w->waited, rs->fs->engine->backing.path);
	failures_add(rs->fs->engine->failures, w->uid, op, path, abandoned ? EINTR : ETIMEDOUT,
		     text);
}

void requests_tell_late(struct requests *rs, const struct request_facts *w, int reply_error)
{
	char path[PATH_MAX], text[MESSAGE_MAX];

	tree_path(rs->fs->tree, w->nodeid, NULL, path, sizeof(path));
	MESSAGE(text, OP_LATE, op_name(w->opcode), path, w->waited,
		reply_error ? strerror(-reply_error) : "it took effect");
	log_warn("%s", text);
}

json_t *requests_to_json(struct requests *rs)
{
	struct request_facts facts[16];
	uint64_t now, oldest;
	struct list *heads[] = {&rs->active, &rs->queued}, *l;
	json_t *waiting = json_array();
	unsigned in_flight, threads, nr = 0;
	size_t i;
	{
		LOCK_SCOPE(&rs->lock);
		oldest = now = clock_mono_ns();
		in_flight = rs->in_flight;
		threads = rs->nr_threads;
		for (i = 0; i < ARRAY_SIZE(heads); i++) {
			list_for_each (l, heads[i]) {
				struct request *r = container_of(l, struct request, link);

				if (r->started_ns < oldest)
					oldest = r->started_ns;
				if (nr < ARRAY_SIZE(facts) && now - r->started_ns > NSEC_PER_SEC)
					facts[nr++] = (struct request_facts){
						r->nodeid, r->opcode, r->pid, r->uid,
						(double)(now - r->started_ns) / NSEC_PER_SEC};
			}
		}
	}
	for (i = 0; i < nr; i++) {
		char path[PATH_MAX];

		tree_path(rs->fs->tree, facts[i].nodeid, NULL, path, sizeof(path));
		json_array_append_new(waiting,
				      json_pack("{s:s, s:o, s:i, s:f}", "op",
						op_name(facts[i].opcode), "path", json_text(path),
						"pid", facts[i].pid, "age_s", facts[i].waited));
	}
	return json_pack("{s:i, s:I, s:i, s:f, s:o}", "in_flight", in_flight, "queued",
			 (json_int_t)rs->fs->engine->metrics.queued, "threads", threads, "oldest_s",
			 (double)(now - oldest) / NSEC_PER_SEC, "waiting", waiting);
}
