/* SPDX-License-Identifier: MIT */
#include "engine/views/making.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/views/builtin.h"

void *making_alloc(struct making *m, size_t size)
{
	return index_alloc(m->v->ix, size);
}

const char *making_text(struct making *m, const char *text)
{
	return index_text(m->v->ix, text, strlen(text));
}

void making_tell(struct making *m, const char *name, const char *format, ...)
{
	va_list args;

	fprintf(m->why, "%s: ", name);
	va_start(args, format);
	vfprintf(m->why, format, args);
	va_end(args);
	fputc('\n', m->why);
	m->v->nr_not_shown++;
}

void making_note(struct making *m, const char *name, const char *format, ...)
{
	va_list args;

	fprintf(m->why, VIEW_NOTE "%s: ", name);
	va_start(args, format);
	vfprintf(m->why, format, args);
	va_end(args);
	fputc('\n', m->why);
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
	const char *builtin = NULL;
	json_error_t e;
	char file[SPEC_TEXT_MAX + sizeof(".json")];
	int err;

	*out = NULL;
	snprintf(file, sizeof(file), "%s.json", name);
	err = m->beside ? m->beside->read(m->beside->arg, file, &text) : -ENOENT;
	if (err == -ENOENT)
		builtin = builtin_json(name);
	if (err == -ENOENT && !builtin && optional)
		return 0;
	if (err == -ENOENT && !builtin)
		return making_refuse(m,
				     "there is no %s %s in the checkpoint, nor in a directory "
				     "above it; built in %s",
				     what, file, BUILTIN_NAMES);
	if (err && err != -ENOENT)
		return making_refuse(m, "%s cannot be read: %s", file, strerror(-err));
	*out = json_loads(builtin ? builtin : text, JSON_REJECT_DUPLICATES, &e);
	if (*out && json_is_object(*out))
		return 0;
	if (*out)
		snprintf(e.text, sizeof(e.text), "it is no object");
	json_decref(*out);
	*out = NULL;
	return making_refuse(m, "the %s %s, line %d: %s", what, file, e.line, e.text);
}

static int by_name(const void *a, const void *b)
{
	const struct view_tensor *x = a, *y = b;

	return strverscmp(x->name, y->name);
}

void making_sort(struct making *m, const char *way)
{
	size_t nr = 0;

	if (m->nr)
		qsort(m->tensors, m->nr, sizeof(*m->tensors), by_name);
	for (size_t i = 0, n; i < m->nr; i += n) {
		const struct view_tensor *first = &m->tensors[i];

		for (n = 1; i + n < m->nr && !strcmp(first->name, first[n].name); n++)
			;
		if (n == 1)
			m->tensors[nr++] = *first;
		else if (first->t && *first->t->scope)
			making_tell(m, first->name,
				    "%zu tensors have this name, such as that of '%s': %s", n,
				    first->t->scope, way);
		else
			making_tell(m, first->name, "%zu tensors have this name: %s", n, way);
	}
	m->nr = nr;
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
