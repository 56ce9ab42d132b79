/* SPDX-License-Identifier: MIT */
/* Operations on names. */
#include "randops.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* POSIX leaves the choice in these pairs to the implementation. */
static void errno_unify(struct result *r, int from, int to)
{
	if (r->err == from)
		r->err = to;
}

static void do_truncate(struct side *s, const struct op *op, const char *name, struct result *r)
{
	char full[ROOT_MAX + NAME_TEXT_MAX];
	struct stat st;
	bool same;

	snprintf(full, sizeof(full), "%s/%s", s->root, name);
	same = !stat(full, &st) && st.st_size == op->len;
	result_ret(r, truncate(full, op->len));
	if (same && !r->ret)
		settle_mtime(s, name, -1);
}

static void do_rename(struct side *s, const struct op *op, const char *from, const char *to,
		      struct result *r)
{
	struct stat st;

	if (faulty(s, FAULT_LOST_RENAME) && !fstatat(s->rootfd, from, &st, 0) &&
	    S_ISREG(st.st_mode))
		return;
	result_ret(r, renameat2(s->rootfd, from, s->rootfd, to, op->flags));
	errno_unify(r, EEXIST, op->flags ? EEXIST : ENOTEMPTY);
}

static void do_mkdir(struct side *s, const struct op *op, const char *name, struct result *r)
{
	result_ret(r, mkdirat(s->rootfd, name, op->mode));
	if (faulty(s, FAULT_BAD_ERRNO) && r->err == EEXIST)
		r->err = EPERM;
}

static void do_readlink(struct side *s, const struct op *op, const char *name, struct result *r)
{
	result_ret(r, readlinkat(s->rootfd, name, (char *)s->buf, op->len));
	if (r->ret > 0) {
		r->data = s->buf;
		r->len = r->ret;
	}
}

void exec_name(struct side *s, const struct op *op, struct result *r)
{
	char one[NAME_TEXT_MAX], two[NAME_TEXT_MAX];

	path_real(&op->path, one);
	path_real(&op->path2, two);
	switch (op->kind) {
	case OP_TRUNCATE:
		do_truncate(s, op, one, r);
		break;
	case OP_RENAME:
		do_rename(s, op, one, two, r);
		result_lstat(r, s, &op->path2);
		break;
	case OP_LINK:
		result_ret(r, linkat(s->rootfd, one, s->rootfd, two, 0));
		result_lstat(r, s, &op->path2);
		break;
	case OP_SYMLINK:
		result_ret(r, symlinkat(two, s->rootfd, one));
		break;
	case OP_READLINK:
		do_readlink(s, op, one, r);
		break;
	case OP_UNLINK:
		result_ret(r, unlinkat(s->rootfd, one, 0));
		errno_unify(r, EPERM, EISDIR);
		break;
	case OP_MKDIR:
		do_mkdir(s, op, one, r);
		break;
	case OP_RMDIR:
		result_ret(r, unlinkat(s->rootfd, one, AT_REMOVEDIR));
		errno_unify(r, EEXIST, ENOTEMPTY);
		break;
	default: /* OP_STAT: the fields are the result */
		break;
	}
	result_lstat(r, s, &op->path);
}
