/* SPDX-License-Identifier: MIT */
/* Applying one op to one side: what is common to all kinds. */
#include "randops.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum fault fault;

void fault_init(void)
{
	static const char *const names[] = {
		"",	      "drop-write",  "short-truncate", "lost-rename", "flip-read",
		"lost-xattr", "extra-mtime", "bad-errno",      "lost-append",
	};
	const char *want = getenv("RANDOPS_SELFTEST");
	size_t i;

	if (!want || !*want)
		return;
	for (i = 1; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(want, names[i]))
			fault = i;
	}
	if (fault == FAULT_NONE)
		die("RANDOPS_SELFTEST: no such mistake: %s", want);
	say("self-test: side A will do this wrong: %s", want);
}

void result_field(struct result *r, const char *name, int64_t value)
{
	if (r->nr_fields < NR_FIELDS)
		r->fields[r->nr_fields++] = (struct field){name, value};
}

void result_ret(struct result *r, int64_t ret)
{
	r->ret = ret < 0 ? -1 : ret;
	r->err = ret < 0 ? errno : 0;
}

/*
 * Explicit times set by utimens lie before 2001. So a time before 2001 must
 * be exactly what was set, and any other only says "touched since".
 */
int64_t stat_mtime_class(const struct stat *st)
{
	if (st->st_mtim.tv_sec >= 1000000000)
		return INT64_MAX;
	return st->st_mtim.tv_sec * 1000000000LL + st->st_mtim.tv_nsec;
}

/* After an op that may or may not have marked the time: make it known again. */
void settle_mtime(const struct side *s, const char *name, int fd)
{
	const struct timespec ts[2] = {{1000, 0}, {1000, 0}};

	if (s->sticky_mtime && (name ? utimensat(s->rootfd, name, ts, 0) : futimens(fd, ts)))
		say("note: cannot set a time: %s", strerror(errno));
}

void result_stat(struct result *r, const struct side *s, const struct stat *st, int err)
{
	result_field(r, "stat errno", err);
	if (err)
		return;
	result_field(r, "file type", st->st_mode & S_IFMT);
	if (!S_ISLNK(st->st_mode))
		result_field(r, "mode", st->st_mode & 07777);
	if (!S_ISDIR(st->st_mode)) {
		result_field(r, "size", st->st_size);
		result_field(r, "nlink", st->st_nlink);
	} else if (s->dir_nlink) {
		result_field(r, "nlink", st->st_nlink < 2 ? 0 : st->st_nlink);
	}
	if (s->sticky_mtime)
		result_field(r, "mtime (ns, or touched)", stat_mtime_class(st));
}

void result_lstat(struct result *r, const struct side *s, const struct path *p)
{
	char name[NAME_TEXT_MAX];
	struct stat st;
	int err;

	path_real(p, name);
	err = fstatat(s->rootfd, name, &st, AT_SYMLINK_NOFOLLOW) ? errno : 0;
	result_stat(r, s, &st, err);
}

void result_fstat(struct result *r, const struct side *s, const struct slot *slot)
{
	struct stat st;

	if (slot->fd < 0)
		return;
	result_stat(r, s, &st, fstat(slot->fd, &st) ? errno : 0);
	if (!slot->dir)
		result_field(r, "file position", lseek(slot->fd, 0, SEEK_CUR));
}

int accmode(const struct slot *slot)
{
	return slot->flags & O_ACCMODE;
}

typedef void (*exec_fn)(struct side *, const struct op *, struct result *);

static const exec_fn execs[NR_KINDS] = {
	[OP_OPEN] = exec_file,	     [OP_CLOSE] = exec_file,	 [OP_DUP] = exec_file,
	[OP_READ] = exec_io,	     [OP_PREAD] = exec_io,	 [OP_READV] = exec_io,
	[OP_WRITE] = exec_io,	     [OP_PWRITE] = exec_io,	 [OP_WRITEV] = exec_io,
	[OP_LSEEK] = exec_io,	     [OP_HOLE] = exec_io,	 [OP_FTRUNCATE] = exec_file,
	[OP_TRUNCATE] = exec_name,   [OP_FALLOCATE] = exec_file, [OP_MMAP_PRIVATE] = exec_map,
	[OP_MMAP_SHARED] = exec_map, [OP_FSYNC] = exec_file,	 [OP_FSYNC_DIR] = exec_dir,
	[OP_FSTAT] = exec_file,	     [OP_STAT] = exec_name,	 [OP_RENAME] = exec_name,
	[OP_LINK] = exec_name,	     [OP_SYMLINK] = exec_name,	 [OP_READLINK] = exec_name,
	[OP_UNLINK] = exec_name,     [OP_MKDIR] = exec_name,	 [OP_RMDIR] = exec_name,
	[OP_READDIR] = exec_dir,     [OP_CHURN] = exec_dir,	 [OP_CHMOD] = exec_attr,
	[OP_FCHMOD] = exec_file,     [OP_UTIMENS] = exec_attr,	 [OP_SETXATTR] = exec_attr,
	[OP_GETXATTR] = exec_attr,   [OP_LISTXATTR] = exec_attr, [OP_REMOVEXATTR] = exec_attr,
	[OP_COPY_RANGE] = exec_io,   [OP_ACCESS] = exec_attr,	 [OP_STATFS] = exec_attr,
	[OP_FLOCK] = exec_file,	     [OP_READ_FILE] = exec_io,
};

void side_exec(struct side *s, const struct op *op, struct result *r)
{
	memset(r, 0, sizeof(*r));
	errno = 0;
	if (execs[op->kind])
		execs[op->kind](s, op, r);
}
