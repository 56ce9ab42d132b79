/* SPDX-License-Identifier: MIT */
#include "engine/base/text.h"

#include <stdarg.h>
#include <stdio.h>

void text_say(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->buf + t->len, t->size - t->len, fmt, ap);
	va_end(ap);
	t->len += n > 0 ? (size_t)n : 0;
	if (t->len >= t->size)
		t->len = t->size - 1;
}

const char *text_bytes(char buf[TEXT_BYTES_MAX], double bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
	size_t u = 0;

	for (; bytes >= 1024 && u + 1 < sizeof(units) / sizeof(*units); u++)
		bytes /= 1024;
	snprintf(buf, TEXT_BYTES_MAX, "%.*f %s", u ? 1 : 0, bytes, units[u]);
	return buf;
}
