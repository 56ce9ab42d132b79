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
