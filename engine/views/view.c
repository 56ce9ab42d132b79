/* SPDX-License-Identifier: MIT */
#include "engine/views/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/views/making.h"
#include "engine/views/round.h"

#define ARRAY_BYTES 256 /* of an array and its parts, about */

/* --- making --- */

static int round_all(struct making *m)
{
	int err = 0;

	making_note(m, "all", "F64, F32 and F16 are rounded to BF16, to nearest, ties to even");
	for (size_t i = 0; i < m->nr && !err; i++) {
		struct view_tensor *t = &m->tensors[i];
		struct array *rounded = NULL;

		if (!round_can(t->dtype))
			continue;
		if (t->array)
			err = array_rounded(&rounded, &m->v->arrays, t->array, t->dtype);
		t->bytes = round_bytes(t->bytes, t->dtype);
		t->array = rounded;
		t->dtype = "BF16";
	}
	return err;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct view_file *)a)->name, ((const struct view_file *)b)->name);
}

/* The tensors stay where they are: files refer to them. */
static int keep_tensors(struct making *m)
{
	struct view_tensor *kept = making_alloc(m, (m->nr + 1) * sizeof(*kept));

	if (kept && m->nr)
		memcpy(kept, m->tensors, m->nr * sizeof(*kept));
	free(m->tensors);
	if (!kept)
		return -ENOMEM;
	m->tensors = kept;
	m->v->nr_tensors = m->nr;
	return 0;
}

static int form(struct making *m)
{
	struct view *v = m->v;
	int err = *v->spec.layout	     ? view_form_ranks(m)
		  : v->spec.form == FORM_NPY ? view_form_npy(m)
		  : v->spec.form == FORM_DCP ? view_form_dcp(m)
					     : view_form_safetensors(m);

	if (!err && v->nr_files)
		qsort(v->files, v->nr_files, sizeof(*v->files), by_name);
	return err;
}

/* What the map has not used is no matter; without a map all is asked for. */
static void drop_problems(struct making *m)
{
	size_t nr = 0;

	for (size_t i = 0; i < m->nr; i++)
		if (m->tensors[i].problem)
			making_tell(m, m->tensors[i].name, "%s", m->tensors[i].problem);
		else
			m->tensors[nr++] = m->tensors[i];
	m->nr = nr;
}

static int make(struct making *m)
{
	struct view *v = m->v;
	int err = view_choose(m);

	if (!err && *v->spec.map)
		err = view_map(m);
	if (!err)
		drop_problems(m);
	if (!err && v->spec.bf16)
		err = round_all(m);
	if (err) {
		free(m->tensors);
		return err;
	}
	err = keep_tensors(m);
	if (!err)
		err = form(m);
	v->bytes += v->arrays.nr * ARRAY_BYTES + m->why_size;
	return err;
}

int view_create(struct view **out, struct index *ix, const char *spec,
		const struct view_beside *beside, char why[SPEC_WHY_MAX])
{
	struct view *v = calloc(1, sizeof(*v));
	struct making m = {.v = v, .beside = beside, .error = why};
	int err;

	*out = NULL;
	if (!v) {
		index_destroy(ix);
		return -ENOMEM;
	}
	v->ix = ix;
	err = view_spec_parse(&v->spec, spec, why);
	if (!err) {
		m.why = open_memstream(&v->why, &v->why_size);
		err = m.why ? make(&m) : -ENOMEM;
		if (m.why && fclose(m.why) && !err)
			err = -ENOMEM;
		if (err == -EFBIG)
			err = making_refuse(
				&m, "a header would be longer than 100 MB, which safetensors "
				    "does not read: choose by only= or max=");
	}
	if (err) {
		view_destroy(v);
		return err;
	}
	*out = v;
	return 0;
}

void view_destroy(struct view *v)
{
	if (!v)
		return;
	arrays_destroy(&v->arrays);
	free(v->files);
	free(v->paths);
	free(v->why);
	index_destroy(v->ix);
	free(v);
}

static int by_key(const void *name, const void *file)
{
	return strcmp(name, ((const struct view_file *)file)->name);
}

int view_find(const struct view *v, const char *name)
{
	const struct view_file *f =
		v->nr_files ? bsearch(name, v->files, v->nr_files, sizeof(*v->files), by_key)
			    : NULL;

	return f ? (int)(f - v->files) : -1;
}

int view_each_path(const struct view *v, size_t file, int (*one)(void *arg, size_t path), void *arg)
{
	const struct view_file *f = &v->files[file];
	bool *seen = calloc(v->arrays.nr + 1, sizeof(*seen));
	int err = seen ? 0 : -ENOMEM;

	for (size_t i = 0; i < f->nr && !err; i++)
		if (f->segments[i].tensor)
			err = array_each_path(f->segments[i].tensor->array, seen, one, arg);
	free(seen);
	return err;
}

/* --- reading --- */

/* The segment that has the byte @off. */
static size_t find_segment(const struct view_file *f, uint64_t off)
{
	size_t lo = 0, hi = f->nr;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (f->segments[mid].at + f->segments[mid].bytes <= off)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

ssize_t view_read(const struct view *v, size_t file, void *buf, size_t len, uint64_t off,
		  const struct view_source *src)
{
	const struct view_file *f = &v->files[file];
	char *to = buf;
	int err = 0;

	if (off >= f->size)
		return 0;
	len = len < f->size - off ? len : (size_t)(f->size - off);
	for (size_t i = find_segment(f, off); to < (char *)buf + len && !err; i++) {
		const struct view_segment *s = &f->segments[i];
		uint64_t from = off - s->at, left = len - (size_t)(to - (char *)buf);
		size_t n = left < s->bytes - from ? (size_t)left : (size_t)(s->bytes - from);

		if (s->text)
			memcpy(to, s->text + from, n);
		else
			err = array_read(s->tensor->array, to, n, from, src);
		to += n;
		off += n;
	}
	return err ? err : (ssize_t)len;
}
