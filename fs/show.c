/* SPDX-License-Identifier: MIT */
#include "fs/show.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/text.h"

#define PROGRESS_FROM_NS (2 * NSEC_PER_SEC)
#define PROGRESS_EACH_NS (200 * NSEC_PER_MSEC)

const char *show_size(char buf[SHOW_MAX], double bytes)
{
	return text_bytes(buf, bytes);
}

const char *show_age(char buf[SHOW_MAX], double s)
{
	if (s < 0)
		s = 0;
	if (s < 120)
		snprintf(buf, SHOW_MAX, "%.0f s", s);
	else if (s < 2 * 3600)
		snprintf(buf, SHOW_MAX, "%.0f min", s / 60);
	else if (s < 2 * 86400)
		snprintf(buf, SHOW_MAX, "%.0f h", s / 3600);
	else
		snprintf(buf, SHOW_MAX, "%.0f d", s / 86400);
	return buf;
}

const char *show_name(char *buf, size_t size, const char *name)
{
	size_t i;

	for (i = 0; name[i] && i + 1 < size; i++)
		buf[i] = (unsigned char)name[i] < ' ' || name[i] == 0x7f ? '?' : name[i];
	buf[i] = '\0';
	return buf;
}

const char *show_shared(char *buf, size_t size, const json_t *shared)
{
	const char *own = json_get_text(shared, "node", "?");
	const char *root = json_get_text(shared, "sees_end", "?");
	const json_t *o;
	char *text = malloc(size);
	size_t len = 0, i;

	*buf = '\0';
	if (!text)
		return buf;
	len += (size_t)snprintf(text, size, "this is node %s: %s; ", own,
				json_get_text(shared, "state", "?"));
	if (len < size && strcmp(own, root))
		snprintf(text + len, size - len, "its end is seen by node %s", root);
	else if (len < size)
		snprintf(text + len, size - len, "it sees the end");
	len = strlen(text);
	json_array_foreach (json_object_get(shared, "others"), i, o) {
		if (len < size)
			len += (size_t)snprintf(text + len, size - len, "; node %s: %s",
						json_get_text(o, "node", "?"),
						json_get_text(o, "state", "?"));
	}
	show_name(buf, size, text);
	free(text);
	return buf;
}

void show_path_json(json_t *object, const char *path)
{
	json_t *text = json_string(path);
	__cleanup_free char *hex = NULL;
	size_t i, len = strlen(path);

	if (text) {
		json_object_set_new(object, "path", text);
		return;
	}
	json_object_set_new(object, "path", json_text(path));
	hex = malloc(2 * len + 1);
	for (i = 0; hex && i < len; i++)
		sprintf(hex + 2 * i, "%02x", (unsigned char)path[i]);
	if (hex)
		json_object_set_new(object, "path_hex", json_string(hex));
}

void progress_start(struct progress *p)
{
	p->tty = isatty(STDERR_FILENO);
	p->started_ns = clock_mono_ns();
	p->shown_ns = 0;
}

void progress_show(struct progress *p, const char *format, ...)
{
	uint64_t now = clock_mono_ns();
	va_list ap;

	if (!p->tty || now - p->started_ns < PROGRESS_FROM_NS ||
	    now - p->shown_ns < PROGRESS_EACH_NS)
		return;
	p->shown_ns = now;
	fputs("\r\033[K", stderr);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fflush(stderr);
}

void progress_hide(struct progress *p)
{
	if (p->shown_ns)
		fputs("\r\033[K", stderr);
	p->shown_ns = 0;
}
