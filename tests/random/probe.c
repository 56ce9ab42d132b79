/* SPDX-License-Identifier: MIT */
/*
 * Finds out what a side cannot do at all, and leaves that out of the run:
 * POSIX does not promise it. With --strict, something that B can do and A
 * cannot is a failure.
 */
#include "randops.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/xattr.h>
#include <unistd.h>

/* The probe's files of one side. */
struct probe {
	int dirfd, fd;
	char root[ROOT_MAX];
};

static bool unsupported(int err)
{
	return err == EOPNOTSUPP || err == ENOSYS || err == EINVAL || err == ENODEV ||
	       err == ENOTTY;
}

static bool can_falloc(const struct probe *p, int mode)
{
	return !fallocate(p->fd, mode, 0, PAGE) || !unsupported(errno);
}

static bool can_plain(const struct probe *p)
{
	return can_falloc(p, 0);
}

static bool can_keep(const struct probe *p)
{
	return can_falloc(p, FALLOC_FL_KEEP_SIZE);
}

static bool can_punch(const struct probe *p)
{
	return can_falloc(p, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
}

static bool can_zero(const struct probe *p)
{
	return can_falloc(p, FALLOC_FL_ZERO_RANGE);
}

static bool can_direct(const struct probe *p)
{
	int fd = openat(p->dirfd, "f", O_RDWR | O_DIRECT);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || !unsupported(errno);
}

static bool can_xattr(const struct probe *p)
{
	return !fsetxattr(p->fd, "user.probe", "x", 1, 0) || !unsupported(errno);
}

static bool can_exchange(const struct probe *p)
{
	return !renameat2(p->dirfd, "f", p->dirfd, "g", RENAME_EXCHANGE) || !unsupported(errno);
}

static bool can_noreplace(const struct probe *p)
{
	return !renameat2(p->dirfd, "g", p->dirfd, "h", RENAME_NOREPLACE) || !unsupported(errno);
}

static bool can_mmap(const struct probe *p)
{
	void *map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);

	if (map != MAP_FAILED)
		munmap(map, PAGE);
	return map != MAP_FAILED || !unsupported(errno);
}

static bool can_dir_nlink(const struct probe *p)
{
	struct stat st;

	return !fstat(p->dirfd, &st) && st.st_nlink == 3;
}

static bool can_long(const struct probe *p)
{
	char name[256];
	int fd;

	memset(name, 'x', 255);
	name[255] = '\0';
	fd = openat(p->dirfd, name, O_CREAT | O_WRONLY, 0600);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static const struct {
	const char *name; /* as --without knows it */
	bool (*can)(const struct probe *p);
	bool posix_free; /* lacking it is no fault even with --strict */
} probes[] = {
	{"fallocate", can_plain, false},     {"falloc_keep", can_keep, false},
	{"falloc_punch", can_punch, false},  {"falloc_zero", can_zero, false},
	{"direct", can_direct, false},	     {"xattr", can_xattr, false},
	{"mmap_shared", can_mmap, false},    {"dir_nlink", can_dir_nlink, true},
	{"long_name", can_long, false},	     {"exchange", can_exchange, false},
	{"noreplace", can_noreplace, false},
};

static void probe_open(struct probe *p, const char *dir)
{
	int fd;

	snprintf(p->root, sizeof(p->root), "%s/randops.probe.%d", dir, (int)getpid());
	if (mkdir(p->root, 0755))
		die("%s: cannot make a directory: %s", p->root, strerror(errno));
	p->dirfd = open(p->root, O_RDONLY | O_DIRECTORY);
	p->fd = openat(p->dirfd, "f", O_RDWR | O_CREAT, 0600);
	fd = openat(p->dirfd, "g", O_RDWR | O_CREAT, 0600);
	if (p->dirfd < 0 || p->fd < 0 || fd < 0 || ftruncate(p->fd, PAGE) ||
	    mkdirat(p->dirfd, "sub", 0755))
		die("%s: cannot make files: %s", p->root, strerror(errno));
	close(fd);
}

static void probe_close(struct probe *p)
{
	close(p->fd);
	close(p->dirfd);
	remove_tree(AT_FDCWD, p->root);
}

int probe(struct config *cfg)
{
	struct probe a, b;
	bool can_a, can_b;
	int ret = 0;
	size_t i;

	probe_open(&a, cfg->dir[0]);
	probe_open(&b, cfg->dir[1]);
	for (i = 0; i < sizeof(probes) / sizeof(probes[0]); i++) {
		can_a = probes[i].can(&a);
		can_b = probes[i].can(&b);
		if (can_a && can_b)
			continue;
		say("left out: %s (A %s it, B %s it)", probes[i].name, can_a ? "has" : "lacks",
		    can_b ? "has" : "lacks");
		without_set(cfg, probes[i].name);
		if (cfg->strict && can_b && !probes[i].posix_free)
			ret = -1;
	}
	probe_close(&a);
	probe_close(&b);
	return ret;
}
