/* SPDX-License-Identifier: MIT */
#include "fs/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/source.h"
#include "engine/format/digest_record.h"
#include "engine/format/format.h"

/* --- the record file of a backing without extended attributes: engine/content/recorded.h --- */

#define OPEN_DIR (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* The directory .ckptfs of the backing that contains the file @fd, or a negative number. */
static int open_top(int fd)
{
	char link[32], path[PATH_MAX + sizeof("/" FORMAT_DIR)], *slash;
	ssize_t len;
	int top;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, path, PATH_MAX - 1);
	for (path[len > 0 ? len : 0] = '\0'; (slash = strrchr(path, '/')); *slash = '\0') {
		strcpy(slash, "/" FORMAT_DIR);
		top = open(path, OPEN_DIR);
		if (top >= 0)
			return top;
	}
	return -1;
}

static bool is_trusted(int fd, uid_t owner, mode_t type)
{
	struct stat st;

	return !fstat(fd, &st) && (st.st_mode & S_IFMT) == type &&
	       (st.st_uid == owner || st.st_uid == 0);
}

/* The length of the record file's text, or -ENODATA. */
static ssize_t read_file(int fd, char text[DIGEST_FILE_TEXT_MAX])
{
	char name[DIGEST_FILE_MAX], owner[DIGEST_FILE_MAX];
	__cleanup_fd int top = -1, all = -1, dir = -1, file = -1;
	struct stat st;
	ssize_t len;

	if (fstat(fd, &st))
		return -ENODATA;
	digest_file_dir(owner, st.st_uid);
	digest_file_name(name, st.st_ino);
	top = open_top(fd);
	all = top < 0 ? top : openat(top, FORMAT_DIGESTS, OPEN_DIR);
	dir = all < 0 ? all : openat(all, owner, OPEN_DIR);
	if (dir < 0 || !is_trusted(dir, st.st_uid, S_IFDIR))
		return -ENODATA;
	file = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (file < 0 || !is_trusted(file, st.st_uid, S_IFREG))
		return -ENODATA;
	len = read(file, text, DIGEST_FILE_TEXT_MAX);
	len = len > 0 ? digest_file_check(text, (size_t)len) : len;
	return len > 0 ? len : -ENODATA;
}

/* --- */

int record_read(int fd, struct record *r)
{
	char text[DIGEST_FILE_TEXT_MAX];
	ssize_t len = fgetxattr(fd, DIGEST_XATTR, text, sizeof(text));

	r->hex[0] = '\0';
	if (len < 0 && errno == ERANGE)
		return -EINVAL;
	if (len < 0 && errno != EOPNOTSUPP && errno != ENODATA)
		return -errno;
	if (len < 0)
		len = read_file(fd, text);
	if (len == -ENODATA)
		return -ENODATA;
	return digest_record_parse(text, (size_t)len, r->hex, &r->size, &r->mtime_ns);
}

bool record_is_of(const struct record *r, const struct stat *st)
{
	return r->size == (uint64_t)st->st_size && r->mtime_ns == stat_mtime_ns(st);
}

/* The state that the mount around @fd reports, or "". */
static const char *state_of(int fd, char state[32])
{
	ssize_t len = fgetxattr(fd, "user.ckptfs.state", state, 31);

	state[len > 0 ? len : 0] = '\0';
	return state;
}

bool record_is_awaited(int fd)
{
	char state[32];

	state_of(fd, state);
	/* Not "durable", which files that await no name are, too. */
	return !strcmp(state, "open") || !strcmp(state, "sealed");
}

bool record_is_of_part(int fd)
{
	char state[32];

	state_of(fd, state);
	return !strcmp(state, "open") || !strcmp(state, "sealed") || !strcmp(state, "durable") ||
	       !strcmp(state, "failed");
}

uint64_t stat_mtime_ns(const struct stat *st)
{
	return (uint64_t)st->st_mtim.tv_sec * NSEC_PER_SEC + (uint64_t)st->st_mtim.tv_nsec;
}

static ssize_t read_fd(void *arg, void *buf, size_t len, uint64_t off)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pread(*(int *)arg, (char *)buf + done, len - done, (off_t)(off + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

struct source source_of_fd(int *fd)
{
	return (struct source){read_fd, fd};
}
