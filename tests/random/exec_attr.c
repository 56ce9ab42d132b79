/* SPDX-License-Identifier: MIT */
/* Modes, times, extended attributes, access, statfs. */
#include "randops.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

static struct timespec time_of(int64_t sec, int nsec, bool now, bool omit)
{
	return (struct timespec){sec, omit ? UTIME_OMIT : now ? UTIME_NOW : nsec};
}

static void do_utimens(struct side *s, const struct op *op, const char *name, struct result *r)
{
	struct timespec ts[2] = {
		time_of(op->off, op->n, op->flags & UT_ATIME_NOW, op->flags & UT_ATIME_OMIT),
		time_of(op->len, op->n, op->flags & UT_MTIME_NOW, op->flags & UT_MTIME_OMIT),
	};
	int at = op->flags & UT_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0;
	struct stat st;

	result_ret(r, utimensat(s->rootfd, name, ts, at));
	if (r->ret || fstatat(s->rootfd, name, &st, at))
		return;
	if (!(op->flags & (UT_ATIME_NOW | UT_ATIME_OMIT))) {
		result_field(r, "atime seconds", st.st_atim.tv_sec);
		result_field(r, "atime nanoseconds", st.st_atim.tv_nsec);
	}
	if (!(op->flags & (UT_MTIME_NOW | UT_MTIME_OMIT))) {
		result_field(r, "mtime seconds", st.st_mtim.tv_sec);
		result_field(r, "mtime nanoseconds", st.st_mtim.tv_nsec);
	}
}

static void do_getxattr(struct side *s, const struct op *op, const char *full, struct result *r)
{
	result_ret(r, getxattr(full, xattr_name(op->n), s->buf, op->len));
	if (r->ret > 0 && op->len) {
		r->data = s->buf;
		r->len = r->ret;
	}
}

static void do_setxattr(struct side *s, const struct op *op, const char *full, struct result *r)
{
	if (faulty(s, FAULT_LOST_XATTR) && op->len > 64 && !op->flags && !access(full, F_OK))
		return;
	fill_pattern(s->buf, op->len, op->seed);
	result_ret(r, setxattr(full, xattr_name(op->n), s->buf, op->len, op->flags));
}

static void do_listxattr(struct side *s, const char *full, struct result *r)
{
	result_ret(r, xattr_list_sorted(full, (char *)s->buf, MAX_IO));
	if (r->ret > 0) {
		r->data = s->buf;
		r->len = r->ret;
		r->text = true;
	}
}

void exec_attr(struct side *s, const struct op *op, struct result *r)
{
	char name[NAME_TEXT_MAX], full[ROOT_MAX + NAME_TEXT_MAX];
	struct statvfs vfs;

	path_real(&op->path, name);
	snprintf(full, sizeof(full), "%s/%s", s->root, name);
	switch (op->kind) {
	case OP_CHMOD:
		result_ret(r, fchmodat(s->rootfd, name, op->mode, 0));
		break;
	case OP_UTIMENS:
		do_utimens(s, op, name, r);
		break;
	case OP_SETXATTR:
		do_setxattr(s, op, full, r);
		break;
	case OP_GETXATTR:
		do_getxattr(s, op, full, r);
		break;
	case OP_LISTXATTR:
		do_listxattr(s, full, r);
		break;
	case OP_REMOVEXATTR:
		result_ret(r, removexattr(full, xattr_name(op->n)));
		break;
	case OP_ACCESS:
		result_ret(r, faccessat(s->rootfd, name, op->mode & 7, 0));
		break;
	default: /* OP_STATFS: that it answers */
		result_ret(r, statvfs(full, &vfs));
	}
	result_lstat(r, s, &op->path);
}
