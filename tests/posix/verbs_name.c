// SPDX-License-Identifier: MIT
/* Verbs on names: make, remove, move, look at. */
#include "posixcmp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static const struct flag rename_flags[] = {
	{"NOREPLACE", RENAME_NOREPLACE},
	{"EXCHANGE", RENAME_EXCHANGE},
	{"WHITEOUT", RENAME_WHITEOUT},
	{NULL, 0},
};

static void v_mkdir(struct ctx *c, char **w)
{
	say_ret(c, mkdir(w[0], arg_mode(c, w[1])));
}

static void v_rmdir(struct ctx *c, char **w)
{
	say_ret(c, rmdir(w[0]));
}

static void v_unlink(struct ctx *c, char **w)
{
	say_ret(c, unlink(w[0]));
}

static void v_unlinkat(struct ctx *c, char **w)
{
	say_ret(c, unlinkat(AT_FDCWD, w[0], arg_flags(c, at_flags, w[1])));
}

static void v_rename(struct ctx *c, char **w)
{
	unsigned int flags = arg_flags(c, rename_flags, w[2]);

	/* without flags by the older call, which is the common one */
	if (!flags)
		say_ret(c, rename(w[0], w[1]));
	else
		say_ret(c, renameat2(AT_FDCWD, w[0], AT_FDCWD, w[1], flags));
}

static void v_link(struct ctx *c, char **w)
{
	say_ret(c, linkat(AT_FDCWD, w[0], AT_FDCWD, w[1], arg_flags(c, at_flags, w[2])));
}

static void v_linkfd(struct ctx *c, char **w)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", arg_fd(c, w[0]));
	say_ret(c, linkat(AT_FDCWD, path, AT_FDCWD, w[1], AT_SYMLINK_FOLLOW));
}

static void v_symlink(struct ctx *c, char **w)
{
	say_ret(c, symlink(w[0], w[1]));
}

static void v_readlink(struct ctx *c, char **w)
{
	size_t size = w[1] ? arg_num(c, w[1]) : 8192;
	char *buf = calloc(1, size + 1);
	ssize_t n = readlink(w[0], buf, size);

	say_ret(c, n);
	if (n >= 0)
		say_bytes(c, buf, n);
	free(buf);
}

static void v_mknod(struct ctx *c, char **w)
{
	static const struct flag types[] = {
		{"fifo", S_IFIFO},  {"socket", S_IFSOCK}, {"file", S_IFREG}, {"char", S_IFCHR},
		{"block", S_IFBLK}, {"dir", S_IFDIR},	  {"untyped", 0},    {NULL, 0},
	};
	mode_t type = arg_flags(c, types, w[1]);
	dev_t dev = 0;

	if (type == S_IFCHR || type == S_IFBLK)
		dev = makedev(1, 3);
	say_ret(c, mknod(w[0], type | arg_mode(c, w[2]), dev));
}

static void v_creat(struct ctx *c, char **w)
{
	int fd = open(w[0], O_WRONLY | O_CREAT | O_EXCL, arg_mode(c, w[1]));
	ssize_t n = 0;

	if (fd < 0) {
		say_ret(c, fd);
		return;
	}
	if (w[2])
		n = write(fd, w[2], strlen(w[2]));
	if (n >= 0)
		n = fchmod(fd, arg_mode(c, w[1]));
	if (close(fd))
		n = -1;
	say_ret(c, n);
}

static void v_stat(struct ctx *c, char **w)
{
	struct stat st;

	if (stat(w[0], &st))
		say_ret(c, -1);
	else
		say_stat(c, &st);
}

static void v_lstat(struct ctx *c, char **w)
{
	struct stat st;

	if (lstat(w[0], &st))
		say_ret(c, -1);
	else
		say_stat(c, &st);
}

static void v_same(struct ctx *c, char **w)
{
	struct stat a, b;

	if (lstat(w[0], &a) || lstat(w[1], &b))
		say_ret(c, -1);
	else
		say(c,
		    a.st_ino == b.st_ino && a.st_dev == b.st_dev ? "the same inode" : "two inodes");
}

static void v_umask(struct ctx *c, char **w)
{
	umask(arg_mode(c, w[0]));
	say(c, "0");
}

static void v_chdir(struct ctx *c, char **w)
{
	say_ret(c, chdir(w[0]));
}

static void v_cwd(struct ctx *c, char **w)
{
	char *p = getcwd(NULL, 0);

	(void)w;
	if (!p) {
		say_ret(c, -1);
		return;
	}
	say(c, "in %s", strrchr(p, '/') + 1);
	free(p);
}

const struct verb name_verbs[] = {
	{"mkdir", "PATH MODE", "", v_mkdir},
	{"rmdir", "PATH", "", v_rmdir},
	{"unlink", "PATH", "", v_unlink},
	{"unlinkat", "PATH [FLAGS]", "", v_unlinkat},
	{"rename", "OLD NEW [FLAGS]", "NOREPLACE EXCHANGE", v_rename},
	{"link", "OLD NEW [FLAGS]", "FOLLOW", v_link},
	{"linkfd", "SLOT NEW", "link /proc/self/fd/N", v_linkfd},
	{"symlink", "TARGET PATH", "", v_symlink},
	{"readlink", "PATH [SIZE]", "", v_readlink},
	{"mknod", "PATH TYPE MODE", "fifo socket file char block dir", v_mknod},
	{"creat", "PATH MODE [TEXT]", "new file with this content", v_creat},
	{"stat", "PATH", "type mode owner size links", v_stat},
	{"lstat", "PATH", "", v_lstat},
	{"same", "PATH PATH", "one inode or two", v_same},
	{"umask", "MODE", "0 unless set", v_umask},
	{"chdir", "PATH", "", v_chdir},
	{"cwd", "", "last part of the working directory", v_cwd},
	{NULL, NULL, NULL, NULL},
};
