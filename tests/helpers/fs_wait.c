/* SPDX-License-Identifier: MIT */
/*
 * fs_wait [-a] OP DIR: one system call, made when the test says so.
 *
 * Prepares what OP needs in DIR, stops itself (the test sees state T, breaks what it
 * wants to break, and sends SIGCONT), makes the call, and prints "ok" or the errno. With
 * -a a SIGALRM handler without SA_RESTART runs a second after the call began.
 */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MAP_BYTES 65536

static _Alignas(4096) char block[4096];
static int fd, fd2;
static char *map;

static long do_write(void)
{
	return pwrite(fd, block, sizeof(block), 8192);
}
static long do_append(void)
{
	return write(fd, block, 100);
}
static long do_read(void)
{
	return pread(fd, block, sizeof(block), 0);
}
static long do_fsync(void)
{
	return fsync(fd);
}
static long do_close(void)
{
	return close(fd);
}
static long do_ftruncate(void)
{
	return ftruncate(fd, 10);
}
static long do_fallocate(void)
{
	return fallocate(fd, 0, 0, 1 << 20);
}
static long do_lseek(void)
{
	return lseek(fd, 0, SEEK_DATA);
}
static long do_fstat(void)
{
	struct stat st;

	return fstat(fd, &st);
}
static long do_copy(void)
{
	loff_t in = 0, out = 0;

	return copy_file_range(fd, &in, fd2, &out, 4096, 0);
}
static long do_truncate(void)
{
	return truncate("file", 10);
}
static long do_create(void)
{
	return open("new", O_CREAT | O_EXCL | O_WRONLY, 0600);
}
static long do_open(void)
{
	return open("file", O_RDONLY);
}
static long do_open_trunc(void)
{
	return open("file", O_WRONLY | O_TRUNC);
}
static long do_mkdir(void)
{
	return mkdir("newdir", 0700);
}
static long do_rmdir(void)
{
	return rmdir("dir");
}
static long do_mknod(void)
{
	return mknod("fifo", S_IFIFO | 0600, 0);
}
static long do_symlink(void)
{
	return symlink("target", "newlink");
}
static long do_link(void)
{
	return link("file", "hard");
}
static long do_unlink(void)
{
	return unlink("file");
}
static long do_rename(void)
{
	return rename("file", "moved");
}
static long do_chmod(void)
{
	return chmod("file", 0640);
}
static long do_utimens(void)
{
	return utimensat(AT_FDCWD, "file", NULL, 0);
}
static long do_setxattr(void)
{
	return setxattr("file", "user.test", "x", 1, 0);
}
static long do_getxattr(void)
{
	return getxattr("file", "user.other", block, sizeof(block));
}
static long do_stat(void)
{
	struct stat st;

	return stat("never-seen", &st);
}
static long do_readlink(void)
{
	return readlink("link", block, sizeof(block));
}
static long do_statfs(void)
{
	struct statvfs sv;

	return statvfs(".", &sv);
}
static long do_readdir(void)
{
	DIR *d = opendir(".");
	long r = d && readdir(d) ? 0 : -1;

	return r;
}
static long do_map_read(void)
{
	return *(volatile char *)(map + MAP_BYTES - 1) * 0L;
}
static long do_map_write(void)
{
	memset(map, 'm', MAP_BYTES);
	return msync(map, MAP_BYTES, MS_SYNC);
}
static long do_map_exit(void) /* dirty pages of a mapping when the process ends */
{
	memset(map, 'm', MAP_BYTES);
	pause();
	return -1;
}
static long do_hold(void) /* killed with a written file open */
{
	pause();
	return -1;
}

static const struct op {
	const char *name;
	long (*run)(void);
	bool map;
	int flags; /* of the open of "file"; -1: not opened */
} ops[] = {
	{"write", do_write, false, O_RDWR},
	{"write-direct", do_write, false, O_RDWR | O_DIRECT},
	{"append", do_append, false, O_WRONLY | O_APPEND},
	{"read", do_read, false, O_RDONLY},
	{"read-rdwr", do_read, false, O_RDWR},
	{"fsync", do_fsync, false, O_WRONLY},
	{"close", do_close, false, O_WRONLY},
	{"ftruncate", do_ftruncate, false, O_WRONLY},
	{"fallocate", do_fallocate, false, O_WRONLY},
	{"lseek", do_lseek, false, O_RDONLY},
	{"fstat", do_fstat, false, O_RDONLY},
	{"copy", do_copy, false, O_RDONLY},
	{"truncate", do_truncate, false, -1},
	{"create", do_create, false, -1},
	{"open", do_open, false, -1},
	{"open-trunc", do_open_trunc, false, -1},
	{"mkdir", do_mkdir, false, -1},
	{"rmdir", do_rmdir, false, -1},
	{"mknod", do_mknod, false, -1},
	{"symlink", do_symlink, false, -1},
	{"link", do_link, false, -1},
	{"unlink", do_unlink, false, -1},
	{"rename", do_rename, false, -1},
	{"chmod", do_chmod, false, -1},
	{"utimens", do_utimens, false, -1},
	{"setxattr", do_setxattr, false, -1},
	{"getxattr", do_getxattr, false, -1},
	{"stat", do_stat, false, -1},
	{"readlink", do_readlink, false, -1},
	{"statfs", do_statfs, false, -1},
	{"readdir", do_readdir, false, -1},
	{"map-read", do_map_read, true, O_RDONLY},
	{"map-write", do_map_write, true, O_RDWR},
	{"map-exit", do_map_exit, true, O_RDWR},
	{"hold", do_hold, false, O_WRONLY},
};

static void on_alarm(int sig)
{
	(void)sig;
}

static void prepare(const struct op *op, const char *dir)
{
	static char bytes[MAP_BYTES];
	bool written;
	size_t i;

	if (mkdir(dir, 0700) && errno != EEXIST)
		err(2, "mkdir %s", dir);
	if (chdir(dir))
		err(2, "cd %s", dir);
	fd = open("file", O_CREAT | O_RDWR, 0600);
	if (fd < 0 || write(fd, bytes, sizeof(bytes)) != sizeof(bytes) || close(fd))
		err(2, "file");
	if (mkdir("dir", 0700) || symlink("somewhere", "link"))
		err(2, "dir, link");
	fd2 = open("copy", O_CREAT | O_RDWR, 0600);
	fd = op->flags < 0 ? -1 : open("file", op->flags);
	if (fd2 < 0 || (op->flags >= 0 && fd < 0))
		err(2, "open");
	if (op->map) {
		map = mmap(NULL, MAP_BYTES, PROT_READ | (op->flags ? PROT_WRITE : 0), MAP_SHARED,
			   fd, 0);
		if (map == MAP_FAILED)
			err(77, "mmap");
		for (i = 0; op->flags && i < MAP_BYTES; i += 4096)
			block[0] += ((volatile char *)map)[i]; /* so that changing it
								  waits for nothing */
	}
	written = op->run == do_fsync || op->run == do_close || op->run == do_hold;
	if (written && write(fd, bytes, sizeof(bytes)) != sizeof(bytes))
		err(2, "write");
}

int main(int argc, char **argv)
{
	struct sigaction handler = {.sa_handler = on_alarm};
	bool alarmed = argc > 1 && !strcmp(argv[1], "-a");
	size_t i;
	long r;

	argv += alarmed;
	argc -= alarmed;
	for (i = 0; argc == 3 && i < sizeof(ops) / sizeof(*ops); i++)
		if (!strcmp(ops[i].name, argv[1]))
			break;
	if (argc != 3 || i == sizeof(ops) / sizeof(*ops))
		errx(2, "usage: fs_wait [-a] OP DIR");
	prepare(&ops[i], argv[2]);
	raise(SIGSTOP);
	if (alarmed) {
		sigaction(SIGALRM, &handler, NULL);
		alarm(1);
	}
	errno = 0;
	r = ops[i].run();
	puts(r < 0 ? strerrorname_np(errno) : "ok");
	return 0;
}
