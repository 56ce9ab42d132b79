/* SPDX-License-Identifier: MIT */
#include "engine/format/format.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "engine/base/appear.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"

#define VERSION_MAX_BYTES 65536

const char *format_parse(const char *text, size_t len, struct format *f, long long *version)
{
	json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	const json_t *number = json_object_get(root, "ckptfs");
	const char *uuid = json_string_value(json_object_get(root, "uuid"));
	const char *problem = NULL;
	bool has_uuid = uuid && strlen(uuid) == sizeof(f->uuid) - 1;

	if (!root)
		problem = "not JSON";
	else if (!json_is_integer(number) || json_integer_value(number) < 1)
		problem = "no format number in key 'ckptfs'";
	else if (json_integer_value(number) <= FORMAT_VERSION && !has_uuid)
		problem = "no uuid"; /* a newer format may have none */
	if (!problem) {
		*version = json_integer_value(number);
		if (has_uuid)
			memcpy(f->uuid, uuid, sizeof(f->uuid));
		f->present = true;
	}
	json_decref(root);
	return problem;
}

/* Opens .ckptfs itself and follows no symbolic link. -ELOOP: it is a symbolic link. */
static int open_dir(int root_fd, int access)
{
	int fd = openat(root_fd, FORMAT_DIR, access | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int err = -errno;
	struct stat st;

	if (fd >= 0)
		return fd;
	if (err == -ENOTDIR && !fstatat(root_fd, FORMAT_DIR, &st, AT_SYMLINK_NOFOLLOW) &&
	    S_ISLNK(st.st_mode))
		err = -ELOOP;
	return err;
}

int format_read(int root_fd, const char *path, struct format *f, struct error *e)
{
	char text[VERSION_MAX_BYTES];
	const char *problem;
	long long version;
	ssize_t len;
	__cleanup_fd int dir = open_dir(root_fd, O_PATH);
	__cleanup_fd int fd = -1;

	memset(f, 0, sizeof(*f));
	if (dir == -ENOENT || dir == -ENOTDIR)
		return 0;
	if (dir == -ELOOP)
		return FAIL(e, ELOOP, FORMAT_LINK, path, path);
	if (dir < 0)
		return FAIL(e, -dir, FORMAT_BROKEN, path, strerror(-dir), path);
	fd = openat(dir, FORMAT_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return FAIL(e, errno, FORMAT_BROKEN, path, strerror(errno), path);
	len = read(fd, text, sizeof(text));
	if (len < 0)
		return FAIL(e, errno, FORMAT_BROKEN, path, strerror(errno), path);
	problem = format_parse(text, (size_t)len, f, &version);
	if (problem)
		return FAIL(e, EINVAL, FORMAT_BROKEN, path, problem, path);
	if (version > FORMAT_VERSION)
		return FAIL(e, EPROTO, FORMAT_NEWER, path, version, FORMAT_VERSION);
	return 0;
}

/* Makes a random (version 4) uuid. */
static int make_uuid(char uuid[37])
{
	unsigned char b[16];

	if (getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b))
		return -EIO;
	b[6] = (b[6] & 0x0f) | 0x40;
	b[8] = (b[8] & 0x3f) | 0x80;
	snprintf(uuid, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		 b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12],
		 b[13], b[14], b[15]);
	return 0;
}

/*
 * Makes the directory @name unless something has that name. The owner of @dirfd may replace the new
 * directory at any moment. So its mode, which umask or default ACL may have reduced, is set by
 * descriptor, and only if the directory still belongs to the daemon's user.
 */
static int make_dir(int dirfd, const char *name, mode_t mode)
{
	struct stat st;
	__cleanup_fd int fd = -1;

	if (mkdirat(dirfd, name, mode))
		return errno == EEXIST ? 0 : -errno;
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (st.st_uid != geteuid() || (st.st_mode & 07777) == mode)
		return 0;
	return fchmod(fd, mode) ? -errno : 0;
}

/* Writes version.json under a temporary name and links it: the first of several writers wins. */
static int write_version(int dirfd)
{
	char tmp[64], uuid[37], text[256];
	int len, err = make_uuid(uuid);
	__cleanup_fd int fd = -1;

	if (err)
		return err;
	if (!faccessat(dirfd, FORMAT_FILE, F_OK, AT_SYMLINK_NOFOLLOW))
		return 0;
	snprintf(tmp, sizeof(tmp), "%s.%.8s", FORMAT_FILE, uuid);
	len = snprintf(text, sizeof(text),
		       "{\"ckptfs\": %d, \"uuid\": \"%s\", \"created_ns\": %llu}\n", FORMAT_VERSION,
		       uuid, (unsigned long long)clock_wall_ns());
	fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	if (write(fd, text, (size_t)len) != len)
		err = errno ? -errno : -EIO;
	if (!err && (fchmod(fd, 0644) || fsync(fd)))
		err = -errno;
	if (err)
		unlinkat(dirfd, tmp, 0);
	else
		err = appear_first(dirfd, tmp, FORMAT_FILE);
	return err == -EEXIST ? 0 : err;
}

static int init_tree(int root_fd)
{
	int err = make_dir(root_fd, FORMAT_DIR, 0755);
	__cleanup_fd int fd = -1;

	if (err)
		return err;
	fd = open_dir(root_fd, O_RDONLY);
	if (fd < 0)
		return fd;
	err = make_dir(fd, FORMAT_TXN, 01777);
	if (!err)
		err = make_dir(fd, FORMAT_NODES, 01777);
	/*
	 * `init` of an older backing of another user is no error. The first save that needs
	 * `digests` then makes it.
	 */
	if (!err)
		make_dir(fd, FORMAT_DIGESTS, 01777);
	if (!err)
		err = write_version(fd);
	if (!err && (fsync(fd) || fsync(root_fd)))
		err = -errno;
	return err;
}

int format_init(int root_fd, const char *path, struct error *e)
{
	struct format f;
	int err = format_read(root_fd, path, &f, e);

	if (err)
		return err;
	err = init_tree(root_fd);
	if (err)
		return FAIL(e, -err, INIT_FAILED, path, strerror(-err));
	return 0;
}

/* The path of @fd, for messages. */
static void fd_path(int fd, char *buf, size_t size)
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, buf, size - 1);
	snprintf(buf + (n > 0 ? n : 0), n > 0 ? 1 : size, "%s", n > 0 ? "" : "an ancestor");
}

static bool same_dir(int a, int b)
{
	struct stat sa, sb;

	return !fstat(a, &sa) && !fstat(b, &sb) && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

int format_check_nested(int root_fd, const char *path, struct error *e)
{
	__cleanup_fd int at = dup(root_fd);
	int depth;

	if (at < 0)
		return FAIL(e, errno, BACKING_UNUSABLE, path, strerror(errno));
	for (depth = 0; depth < PATH_MAX / 2; depth++) {
		int up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		bool top;

		if (up < 0)
			return 0; /* an ancestor without search permission */
		top = same_dir(at, up);
		close(at);
		at = up;
		if (top)
			return 0;
		if (!faccessat(at, FORMAT_DIR "/" FORMAT_FILE, F_OK, AT_SYMLINK_NOFOLLOW)) {
			char above[PATH_MAX];

			fd_path(at, above, sizeof(above));
			return FAIL(e, EBUSY, BACKING_NESTED, path, above, above);
		}
	}
	return FAIL(e, ELOOP, BACKING_UNUSABLE, path, strerror(ELOOP));
}
