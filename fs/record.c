/* SPDX-License-Identifier: MIT */
#include "fs/record.h"

#include <errno.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "engine/base/clock.h"

int record_read(int fd, struct record *r)
{
	char text[DIGEST_RECORD_MAX];
	ssize_t len = fgetxattr(fd, DIGEST_XATTR, text, sizeof(text));

	r->hex[0] = '\0';
	if (len < 0 && errno == ERANGE)
		return -EINVAL;
	if (len < 0)
		return errno == EOPNOTSUPP ? -ENODATA : -errno;
	return digest_record_parse(text, (size_t)len, r->hex, &r->size, &r->mtime_ns);
}

bool record_is_of(const struct record *r, const struct stat *st)
{
	return r->size == (uint64_t)st->st_size && r->mtime_ns == stat_mtime_ns(st);
}

bool record_is_awaited(int fd)
{
	char state[32];
	ssize_t len = fgetxattr(fd, "user.ckptfs.state", state, sizeof(state) - 1);

	if (len <= 0)
		return false;
	state[len] = '\0';
	/* "durable" is what a file of others is, too. */
	return !strcmp(state, "open") || !strcmp(state, "sealed");
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
