/* SPDX-License-Identifier: MIT */
/*
 * The log in the background sends its own datagrams to /dev/log instead of calling syslog(3).
 * syslog(3) blocks while the reader of /dev/log hangs, and the logging thread may be the one that
 * watches for blocked calls. A datagram that cannot be sent at once is lost and counted.
 */
#include "engine/base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/lock.h"

#define TEXT_MAX 4096

static _Atomic enum log_level max_level = LOG_LEVEL_INFO;
static atomic_bool use_syslog;
static struct sockaddr_un address = {.sun_family = AF_UNIX}; /* const after log_to_syslog */
static struct lock lock = LOCK_INIT(LOCK_LOG);		     /* never held across a blocking call */
static int log_fd = -1;					     /* lock; connected, or -1 */
static unsigned long lost; /* lock; messages since the last one sent */

void log_set_level(enum log_level level)
{
	max_level = level;
}

static bool connect_log_locked(void)
{
	if (log_fd >= 0)
		close(log_fd);
	log_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (log_fd >= 0 && connect(log_fd, (struct sockaddr *)&address, sizeof(address)))
		close(take_fd(&log_fd));
	return log_fd >= 0;
}

static bool send_log_locked(const char *line, size_t len)
{
	int tries;

	for (tries = 0; tries < 2; tries++) {
		if (log_fd < 0 && !connect_log_locked())
			return false;
		if (send(log_fd, line, len, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			return true;
		if (errno == EAGAIN || errno == ENOBUFS)
			return false;
		/* ECONNREFUSED, ENOTCONN: the reader of /dev/log was restarted. */
		close(take_fd(&log_fd));
	}
	return false;
}

static void to_syslog(int priority, const char *text)
{
	char line[TEXT_MAX + 128], note[64] = "";
	int len;

	LOCK_SCOPE(&lock);
	if (lost)
		snprintf(note, sizeof(note), " (%lu messages were lost)", lost);
	len = snprintf(line, sizeof(line), "<%d>ckptfs[%d]: %s%s", LOG_DAEMON | priority,
		       (int)getpid(), text, note);
	lost = send_log_locked(line, (size_t)len) ? 0 : lost + 1;
}

/* Tests set CKPTFS_LOG_SOCKET. */
void log_to_syslog(void)
{
	const char *given = getenv("CKPTFS_LOG_SOCKET");

	LOCK_SCOPE(&lock);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", given ? given : "/dev/log");
	connect_log_locked();
	use_syslog = true;
}

void log_write(enum log_level level, const char *fmt, ...)
{
	static const int priority[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};
	static const char *const name[] = {"error", "warning", "info", "debug"};
	char text[TEXT_MAX];
	va_list ap;

	if (level > max_level)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (use_syslog)
		to_syslog(priority[level], text);
	else
		fprintf(stderr, "ckptfs: %s: %s\n", name[level], text);
}
