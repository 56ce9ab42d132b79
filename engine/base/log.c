/* SPDX-License-Identifier: MIT */
#include "engine/base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <syslog.h>

static _Atomic enum log_level max_level = LOG_LEVEL_INFO;
static atomic_bool use_syslog;

void log_set_level(enum log_level level)
{
	max_level = level;
}

void log_to_syslog(void)
{
	openlog("ckptfs", LOG_PID | LOG_NDELAY, LOG_DAEMON);
	use_syslog = true;
}

void log_write(enum log_level level, const char *fmt, ...)
{
	static const int priority[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};
	static const char *const name[] = {"error", "warning", "info", "debug"};
	char text[4096];
	va_list ap;

	if (level > max_level)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (use_syslog)
		syslog(priority[level], "%s", text);
	else
		fprintf(stderr, "ckptfs: %s: %s\n", name[level], text);
}
