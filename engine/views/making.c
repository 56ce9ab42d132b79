/* SPDX-License-Identifier: MIT */
#include "engine/views/making.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/views/builtin.h"

#define WHY_MAX ((size_t)1 << 20) /* what is more is counted, and not told */

void *making_alloc(struct making *m, size_t size)
{
	m->v->bytes += size;
	return index_alloc(m->v->ix, size);
}

const char *making_text(struct making *m, const char *text)
{
	m->v->bytes += strlen(text);
	return index_text(m->v->ix, text, strlen(text));
}

/* Adds a line. A name may have any characters. */
static void add_line(struct making *m, const char *begin, const char *name, const char *format,
		     va_list args)
{
	char text[2048];
	int len = snprintf(text, sizeof(text) / 2, "%s%s: ", begin, name);

	len = len < (int)sizeof(text) / 2 ? len : (int)sizeof(text) / 2 - 1;
	len += vsnprintf(text + len, sizeof(text) - (size_t)len, format, args);
	len = len < (int)sizeof(text) ? len : (int)sizeof(text) - 1;
	for (int i = 0; i < len; i++)
		text[i] = (unsigned char)text[i] < ' ' ? '?' : text[i];
	if (m->why_size < WHY_MAX)
		fprintf(m->why, "%s\n", text);
	else if (m->why_size < 2 * WHY_MAX)
		fputs("and more\n", m->why);
	m->why_size += m->why_size < WHY_MAX ? (size_t)len : 2 * WHY_MAX;
}

void making_tell(struct making *m, const char *name, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add_line(m, "", name, format, args);
	va_end(args);
	m->v->nr_not_shown++;
}

void making_note(struct making *m, const char *name, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add_line(m, VIEW_NOTE, name, format, args);
	va_end(args);
}

int making_refuse(struct making *m, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(m->error, SPEC_WHY_MAX, format, args);
	va_end(args);
	return -EINVAL;
}

int making_json(struct making *m, const char *name, const char *what, bool optional, json_t **out)
{
	__cleanup_free char *text = NULL;
	const char *builtin = builtin_json(name);
	json_error_t e;
	char file[SPEC_TEXT_MAX + sizeof(".json")], *near;
	int err = 0;

	*out = NULL;
	snprintf(file, sizeof(file), "%s.json", name);
	if (!builtin)
		err = m->beside ? m->beside->read(m->beside->arg, file, &text) : -ENOENT;
	if (err == -ENOENT && optional)
		return 0;
	if (err == -ENOENT)
		return making_refuse(m,
				     "there is no %s %s in the checkpoint, nor in a directory "
				     "above it; built in %s",
				     what, file, BUILTIN_NAMES);
	if (err)
		return making_refuse(m, "%s cannot be read: %s", file, strerror(-err));
	*out = json_loads(builtin ? builtin : text, optional ? 0 : JSON_REJECT_DUPLICATES, &e);
	if (json_is_object(*out))
		return 0;
	if (*out) {
		e.line = 1;
		snprintf(e.text, sizeof(e.text), "it is no object");
	}
	json_decref(*out);
	*out = NULL;
	near = strstr(e.text, " near "); /* others read this who may not read that */
	if (near)
		*near = '\0';
	if (!optional)
		return making_refuse(m, "the %s %s, line %d: %s", what, file, e.line, e.text);
	making_note(m, file, "it is not used, as line %d is no JSON: %s", e.line, e.text);
	return 0;
}

const char *making_name_problem(const char *name)
{
	json_t *text = json_string(name); /* NULL: it is no UTF-8 */
	bool is_text = text != NULL;

	json_decref(text);
	return !is_text			       ? "its name is no UTF-8"
	       : !strcmp(name, "__metadata__") ? "safetensors keeps that name for itself"
					       : NULL;
}

static int by_name(const void *a, const void *b)
{
	const struct view_tensor *x = a, *y = b;

	return strverscmp(x->name, y->name);
}

int making_sort(struct making *m, const char *way)
{
	size_t nr = 0;

	if (m->nr)
		qsort(m->tensors, m->nr, sizeof(*m->tensors), by_name);
	for (size_t i = 0, n; i < m->nr; i += n) {
		struct view_tensor *first = &m->tensors[i];
		const char *scope = first->t ? first->t->scope : "";
		char text[512];

		for (n = 1; i + n < m->nr && !strcmp(first->name, first[n].name); n++)
			;
		if (n > 1) {
			snprintf(text, sizeof(text), "%zu tensors have this name%s%.200s%s: %s", n,
				 *scope ? ", such as that of '" : "", scope, *scope ? "'" : "",
				 way);
			first->problem = making_text(m, text);
			if (!first->problem)
				return -ENOMEM;
		}
		m->tensors[nr++] = *first;
	}
	m->nr = nr;
	return 0;
}

int file_begin(struct making *m, struct view_file *f, const char *name, const char *text,
	       size_t len, size_t nr)
{
	char *copy = making_alloc(m, len + 1);

	*f = (struct view_file){.name = making_text(m, name)};
	f->segments = making_alloc(m, (nr + 1) * sizeof(*f->segments));
	if (!f->name || !copy || !f->segments)
		return -ENOMEM;
	memcpy(copy, text, len);
	f->segments[f->nr++] = (struct view_segment){.bytes = len, .text = copy};
	f->size = len;
	return 0;
}

void file_add(struct view_file *f, const struct view_tensor *t)
{
	if (!t->bytes)
		return;
	f->segments[f->nr++] = (struct view_segment){.at = f->size, .bytes = t->bytes, .tensor = t};
	f->size += t->bytes;
}
