/* SPDX-License-Identifier: MIT */
/*
 * The ioctls of client/ckptfs_abi.h: on the control file, files and directories. Every other one
 * gets ENOTTY. Checks the arguments, and leaves the work to the engine and control_file.c. Takes no
 * lock.
 */
#include <errno.h>
#include <string.h>

#include "client/ckptfs_abi.h"
#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/capture/capture.h"
#include "fs/control_dir.h"
#include "fs/control_file.h"
#include "fs/data.h"
#include "fs/fs.h"
#include "fs/views.h"

static void hello(fuse_req_t req, struct captures *cs, uid_t uid, uint64_t handle, const void *in)
{
	struct ckptfs_hello h;
	int err;

	memcpy(&h, in, sizeof(h));
	err = captures_hello(cs, uid, handle, &h);
	/* Beside -EPROTO the reply has the bytes, too: they say which ABI this is. */
	if (err && err != -EPROTO)
		reply_result(req, "session", CONTROL_CTL_ID, NULL, err);
	else
		fuse_reply_ioctl(req, err, &h, sizeof(h));
}

/* @in lies in requests_data_buffer, so the answer is built elsewhere. */
static void next(fuse_req_t req, struct captures *cs, uid_t uid, const void *in)
{
	struct ckptfs_next out;
	int err = captures_next(cs, uid, in, &out);

	if (err)
		fuse_reply_err(req, -err);
	else
		fuse_reply_ioctl(req, 0, &out, sizeof(out));
}

static void stats(fuse_req_t req, struct captures *cs, uid_t uid, const void *in)
{
	struct ckptfs_stats st;
	int err;

	memcpy(&st, in, sizeof(st));
	err = captures_stats(cs, uid, &st);
	if (err)
		fuse_reply_err(req, -err);
	else
		fuse_reply_ioctl(req, 0, &st, sizeof(st));
}

static void on_control(fuse_req_t req, unsigned cmd, uint64_t handle, const void *in)
{
	struct captures *cs = req_fs(req)->engine->captures;
	uid_t uid = fuse_req_ctx(req)->uid;
	int err;

	switch (cmd) {
	case CKPTFS_IOC_HELLO:
		hello(req, cs, uid, handle, in);
		return;
	case CKPTFS_IOC_NEXT:
		next(req, cs, uid, in);
		return;
	case CKPTFS_IOC_STATS:
		stats(req, cs, uid, in);
		return;
	case CKPTFS_IOC_REGISTER:
		err = captures_register(cs, uid, in);
		break;
	case CKPTFS_IOC_UNREGISTER:
		err = captures_unregister(cs, uid, in);
		break;
	case CKPTFS_IOC_FAIL:
		err = captures_fail(cs, uid, in);
		break;
	case CKPTFS_IOC_BARRIER:
		err = captures_barrier(cs, uid, in);
		break;
	case CKPTFS_IOC_BYE:
		err = captures_bye(cs, uid, in);
		break;
	default:
		err = -ENOTTY;
	}
	if (err)
		fuse_reply_err(req, -err);
	else
		fuse_reply_ioctl(req, 0, NULL, 0);
}

/* --- on a directory --- */

static void query(fuse_req_t req, const struct caller *c, fuse_ino_t dir, struct ckptfs_query *q)
{
	struct fs *fs = req_fs(req);
	char path[PATH_MAX];
	json_t *o;

	if (!backing_name_ok(q->name) || !memchr(q->generation, 0, sizeof(q->generation))) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	if (!tree_true_path(fs->tree, dir, q->name, path, sizeof(path))) {
		fuse_reply_err(req, ENOENT); /* the directory was removed */
		return;
	}
	o = control_file(fs, c, path, *q->generation ? q->generation : NULL);
	*q = (struct ckptfs_query){.state = control_state(o)};
	snprintf(q->generation, sizeof(q->generation), "%s", json_get_text(o, "generation", ""));
	snprintf(q->text, sizeof(q->text), "%s", control_reason(o));
	/* A save that was removed or replaced has not failed: it has its own errno. */
	if (q->state >= CKPTFS_FAILED)
		q->err = (int)json_get_int(
			o, "errno", strcmp(json_get_text(o, "state", ""), "dropped") ? EIO : EIDRM);
	json_decref(o);
	fuse_reply_ioctl(req, 0, q, sizeof(*q));
}

static void commit(fuse_req_t req, const struct caller *caller, fuse_ino_t dir,
		   struct ckptfs_commit *c)
{
	struct fs *fs = req_fs(req);
	char path[PATH_MAX];
	json_t *o;

	if (!backing_name_ok(c->name) || c->abandon > 1 || c->err) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	if (!tree_true_path(fs->tree, dir, c->name, path, sizeof(path))) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	o = control_commit(fs, caller, path, c->abandon);
	c->err = (uint32_t)json_get_int(o, "errno", 0);
	snprintf(c->text, sizeof(c->text), "%s", json_get_text(o, "message", ""));
	json_decref(o);
	fuse_reply_ioctl(req, 0, c, sizeof(*c));
}

/* Copies the argument, and refuses a name without an end. */
static void on_directory(fuse_req_t req, const struct caller *c, fuse_ino_t id, unsigned cmd,
			 const void *in)
{
	union {
		struct ckptfs_query query;
		struct ckptfs_commit commit;
		char name[256]; /* both begin with it */
	} arg;

	memcpy(&arg, in, _IOC_SIZE(cmd));
	if (!memchr(arg.name, 0, sizeof(arg.name)))
		fuse_reply_err(req, EINVAL);
	else if (cmd == CKPTFS_IOC_QUERY)
		query(req, c, id, &arg.query);
	else
		commit(req, c, id, &arg.commit);
}

/* replies: ioctl, error */
static void op_ioctl(fuse_req_t req, fuse_ino_t id, unsigned cmd, void *arg,
		     struct fuse_file_info *fi, unsigned flags, const void *in, size_t in_size,
		     size_t out_size)
{
	struct fs *fs = req_fs(req);
	struct caller c = req_caller(req);
	struct handle *h;
	bool of_dir = cmd == CKPTFS_IOC_QUERY || cmd == CKPTFS_IOC_COMMIT;
	int err;

	(void)arg;
	(void)out_size;
	if (flags & FUSE_IOCTL_COMPAT || !(flags & FUSE_IOCTL_DIR) == of_dir ||
	    _IOC_TYPE(cmd) != 'K' || in_size != _IOC_SIZE(cmd)) {
		fuse_reply_err(req, ENOTTY);
		return;
	}
	if (!fs->engine->captures && !of_dir) {
		fuse_reply_err(req, EROFS);
		return;
	}
	if (id == CONTROL_CTL_ID) {
		on_control(req, cmd, fi->fh, in);
		return;
	}
	if (control_is(id) || views_is(id) || (cmd != CKPTFS_IOC_WRITE && !of_dir)) {
		fuse_reply_err(req, ENOTTY);
		return;
	}
	if (of_dir) {
		on_directory(req, &c, id, cmd, in);
		return;
	}
	h = req_handle(req, fi);
	if (!h)
		return;
	err = data_capture(fs, &c, h, in);
	if (err)
		fuse_reply_err(req, -err);
	else
		fuse_reply_ioctl(req, 0, NULL, 0);
	finish_handle(fs, h);
}

void ops_ioctl(struct fuse_lowlevel_ops *ops)
{
	ops->ioctl = op_ioctl;
}
