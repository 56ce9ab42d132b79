/* SPDX-License-Identifier: MIT */
#include "engine/base/message.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"

static void note_provoked(const char *id)
{
	const char *path = getenv("CKPTFS_MESSAGE_LOG");
	char line[80];
	int len = snprintf(line, sizeof(line), "%s\n", id);

	if (!path || len < 0)
		return;
	__cleanup_fd int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (fd >= 0 && write(fd, line, (size_t)len) < 0)
		perror(path);
}

void message_format(char *buf, size_t size, const char *id, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(buf, size, fmt, ap);
	va_end(ap);
	note_provoked(id);
}
