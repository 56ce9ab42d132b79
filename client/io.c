/* SPDX-License-Identifier: MIT */
#include "client/io.h"

#include <errno.h>
#include <unistd.h>

int ckpt_read_all(int fd, void *to, size_t len, uint64_t off, size_t *done)
{
	*done = 0;
	while (*done < len) {
		ssize_t n = pread(fd, (char *)to + *done, len - *done, (off_t)(off + *done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ENODATA;
		*done += (size_t)n;
	}
	return 0;
}

int ckpt_write_all(int fd, const void *from, size_t len, uint64_t off)
{
	const char *at = from;

	while (len) {
		ssize_t n = pwrite(fd, at, len, (off_t)off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		at += n;
		len -= (size_t)n;
		off += (uint64_t)n;
	}
	return 0;
}
