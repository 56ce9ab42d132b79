/* SPDX-License-Identifier: MIT */
#include "engine/backing/features.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/io_uring.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/format/format.h"

const char *const feature_names[NR_FEATURES] = {
	[FEATURE_PASSTHROUGH] = "passthrough",
	[FEATURE_DIRECT_MMAP] = "direct_mmap",
	[FEATURE_OPENAT2] = "openat2",
	[FEATURE_BTIME] = "btime",
	[FEATURE_XATTR] = "xattr",
	[FEATURE_ODIRECT] = "odirect",
	[FEATURE_RENAME_FLAGS] = "rename_flags",
	[FEATURE_ACT_AS_CALLER] = "act_as_caller",
	[FEATURE_IO_URING] = "io_uring",
};

const char *const feature_fallbacks[NR_FEATURES] = {
	[FEATURE_PASSTHROUGH] = "reads go through the daemon and the page cache",
	[FEATURE_DIRECT_MMAP] = "files opened for reading and writing go through the page cache",
	[FEATURE_OPENAT2] = "openat with O_NOFOLLOW, one path component at a time",
	[FEATURE_BTIME] = "a file is known by device and inode number alone",
	[FEATURE_XATTR] = "extended attributes are refused with EOPNOTSUPP",
	[FEATURE_ODIRECT] = "O_DIRECT opens are served through the backing's page cache",
	[FEATURE_RENAME_FLAGS] = "RENAME_NOREPLACE and RENAME_EXCHANGE are refused with EINVAL",
	[FEATURE_ACT_AS_CALLER] = "everything is done as the user who mounted",
	[FEATURE_IO_URING] = "a pool of threads writes instead",
};

struct features *features_new(void)
{
	struct features *f = malloc(sizeof(*f));

	if (f)
		features_init(f);
	return f;
}

void features_init(struct features *f)
{
	const char *off = getenv("CKPTFS_FEATURES_OFF");
	__cleanup_free char *list = strdup(off ? off : "");
	char *word, *rest = list;
	size_t i;

	memset(f, 0, sizeof(*f));
	while (list && (word = strtok_r(rest, ", ", &rest)))
		for (i = 0; i < NR_FEATURES; i++)
			if (!strcmp(word, "all") || !strcmp(word, feature_names[i]))
				f->state[i] = FEATURE_TURNED_OFF;
}

void features_set(struct features *f, enum feature what, bool yes)
{
	if (f->state[what] != FEATURE_TURNED_OFF)
		__atomic_store_n(&f->state[what], yes ? FEATURE_YES : FEATURE_NO, __ATOMIC_RELAXED);
}

static bool try_openat2(int root_fd)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC,
			       .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
	long fd = syscall(SYS_openat2, root_fd, ".", &how, sizeof(how));

	if (fd < 0)
		return false;
	close((int)fd);
	return true;
}

static bool try_btime(int root_fd)
{
	struct statx stx;

	return !statx(root_fd, "", AT_EMPTY_PATH, STATX_BTIME, &stx) &&
	       (stx.stx_mask & STATX_BTIME);
}

static bool try_xattr(int root_fd)
{
	char path[64], byte;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", root_fd);
	return getxattr(path, "user.ckptfs.probe", &byte, sizeof(byte)) >= 0 || errno == ENODATA;
}

/* Containers often forbid it. Only the use of a ring shows whether all needed calls work. */
static bool try_io_uring(void)
{
	struct io_uring_params params = {0};
	long fd = syscall(SYS_io_uring_setup, 1, &params);

	if (fd < 0)
		return false;
	close((int)fd);
	return true;
}

/*
 * Makes two temporary files in BACKING/.ckptfs, where users keep nothing. Other nodes may be at it,
 * and have the same process id; a mount that was killed may have left some.
 */
static void probe_files(struct features *f, int dir)
{
	char a[64], b[64];
	uint64_t nr;
	int fd;

	if (getrandom(&nr, sizeof(nr), 0) != sizeof(nr))
		return;
	snprintf(a, sizeof(a), "probe-%016" PRIx64 "-a", nr);
	snprintf(b, sizeof(b), "probe-%016" PRIx64 "-b", nr);
	fd = openat(dir, a, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	close(fd);
	/* Another user may have put a link or a FIFO there by now. */
	fd = openat(dir, a, O_RDONLY | O_DIRECT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	features_set(f, FEATURE_ODIRECT, fd >= 0);
	if (fd >= 0)
		close(fd);
	if (!renameat2(dir, a, dir, b, RENAME_NOREPLACE)) {
		fd = openat(dir, a, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		features_set(f, FEATURE_RENAME_FLAGS,
			     fd >= 0 && !renameat2(dir, a, dir, b, RENAME_EXCHANGE));
		if (fd >= 0)
			close(fd);
		unlinkat(dir, b, 0);
	} else {
		features_set(f, FEATURE_RENAME_FLAGS, false);
	}
	unlinkat(dir, a, 0);
}

void features_probe(struct features *f, int root_fd, bool may_write)
{
	__cleanup_fd int dir =
		openat(root_fd, FORMAT_DIR, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	features_set(f, FEATURE_OPENAT2, try_openat2(root_fd));
	features_set(f, FEATURE_BTIME, try_btime(root_fd));
	features_set(f, FEATURE_XATTR, try_xattr(root_fd));
	if (feature_untried(f, FEATURE_IO_URING)) /* a ring costs more than all other probes */
		features_set(f, FEATURE_IO_URING, try_io_uring());
	if (dir >= 0 && may_write)
		probe_files(f, dir);
}

json_t *features_to_json(const struct features *f)
{
	static const char *const words[] = {"unknown", "no", "yes", "off"};
	json_t *object = json_object();
	size_t i;

	for (i = 0; i < NR_FEATURES; i++)
		json_object_set_new(
			object, feature_names[i],
			json_string(words[__atomic_load_n(&f->state[i], __ATOMIC_RELAXED)]));
	return object;
}
