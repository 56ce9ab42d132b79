/* SPDX-License-Identifier: MIT */
/* The ioctls of client/ckptfs_abi.h: on the control file, and WRITE on files. All others are ENOTTY. */
#include <errno.h>
#include <string.h>

#include "client/ckptfs_abi.h"
#include "engine/base/cleanup.h"
#include "fs/control_dir.h"
#include "fs/data.h"
#include "fs/fs.h"

static void hello(fuse_req_t req, struct captures *cs, uid_t uid, uint64_t handle, const void *in)
{
	struct ckptfs_hello h;
	int err;

	memcpy(&h, in, sizeof(h));
	err = captures_hello(cs, uid, handle, &h);
	/* So the bytes come back beside an error, too: which ABI it is. */
	if (err && err != -EPROTO)
		reply_result(req, "session", CONTROL_CTL_ID, NULL, err);
	else
		fuse_reply_ioctl(req, err, &h, sizeof(h));
}

/* @in lies where requests_data_buffer is. */
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

/* replies: ioctl, error */
static void op_ioctl(fuse_req_t req, fuse_ino_t id, unsigned cmd, void *arg,
		     struct fuse_file_info *fi, unsigned flags, const void *in, size_t in_size,
		     size_t out_size)
{
	struct fs *fs = req_fs(req);
	struct caller c = req_caller(req);
	struct handle *h;
	int err;

	(void)arg;
	(void)out_size;
	if (flags & (FUSE_IOCTL_DIR | FUSE_IOCTL_COMPAT) || _IOC_TYPE(cmd) != 'K' ||
	    in_size != _IOC_SIZE(cmd)) {
		fuse_reply_err(req, ENOTTY);
		return;
	}
	if (!fs->engine->captures) {
		fuse_reply_err(req, EROFS);
		return;
	}
	if (id == CONTROL_CTL_ID) {
		on_control(req, cmd, fi->fh, in);
		return;
	}
	if (control_is(id) || cmd != CKPTFS_IOC_WRITE) {
		fuse_reply_err(req, ENOTTY);
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
