/* SPDX-License-Identifier: MIT */
#include "engine/views/view.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/tensors/types.h"
#include "engine/views/gather.h"
#include "engine/views/round.h"

#define INDEX_NAME "model.safetensors.index.json"
#define ALIGN	   8
#define HEADER_MAX 100000000 /* safetensors's own limit */

/* --- which tensors --- */

struct making {
	struct view *v;
	FILE *why;
};

static void tell(struct making *m, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void tell(struct making *m, const char *name, const char *format, ...)
{
	va_list args;

	fprintf(m->why, "%s: ", name);
	va_start(args, format);
	vfprintf(m->why, format, args);
	va_end(args);
	fputc('\n', m->why);
	m->v->nr_not_shown++;
}

/* Why @t cannot be shown; NULL: it can. */
static const char *problem_of(const struct index_tensor *t)
{
	if (t->hole)
		return t->hole;
	if (t->opaque)
		return "some of its bytes are in a form that ckptfs does not read";
	if (t->inferred)
		return "no file says its shape";
	if (type_bits(t->dtype) % 8)
		return "its elements are no whole bytes";
	if (!strcmp(t->dtype, "C32") || !strcmp(t->dtype, "C128"))
		return "safetensors has no such type of elements";
	for (unsigned i = 0; i < t->ndim; i++)
		if (t->shape[i] > INT64_MAX)
			return "its shape is too large to be true";
	return NULL;
}

/* Why no tensor can have that name in a header; NULL: one can. */
static const char *name_problem(const char *name)
{
	json_t *text = json_string(name); /* NULL: it is no UTF-8 */
	bool is_text = text != NULL;

	json_decref(text);
	return !is_text			       ? "its name is no UTF-8"
	       : !strcmp(name, "__metadata__") ? "safetensors keeps that name for itself"
					       : NULL;
}

/* True if the tensor that has the bytes of @t, too, is shown. */
static bool shows_root(const struct view *v, const struct index_tensor *t)
{
	const struct index_tensor *root = t->alias ? index_find(v->ix, t->scope, t->alias) : NULL;
	const char *name = root ? view_spec_name(&v->spec, root) : "";

	return root && view_spec_wants(&v->spec, root, name) && !problem_of(root) &&
	       !name_problem(name);
}

static int by_name(const void *a, const void *b)
{
	const struct view_tensor *x = a, *y = b;

	return strverscmp(x->name, y->name);
}

/* Takes all tensors that are asked for, sorted by name. */
static int choose(struct making *m)
{
	struct view *v = m->v;

	v->tensors = calloc(v->ix->nr + 1, sizeof(*v->tensors));
	if (!v->tensors)
		return -ENOMEM;
	for (size_t i = 0; i < v->ix->nr; i++) {
		const struct index_tensor *t = v->ix->tensors[i];
		const char *name = view_spec_name(&v->spec, t), *problem = problem_of(t);

		if (!view_spec_wants(&v->spec, t, name))
			continue;
		problem = problem ? problem : name_problem(name);
		if (shows_root(v, t))
			fprintf(m->why, "%s: it has the bytes of %s, which is shown\n", name,
				t->alias);
		else if (problem)
			tell(m, name, "%s", problem);
		else
			v->tensors[v->nr_tensors++] = (struct view_tensor){.t = t, .name = name};
	}
	for (const struct index_opaque *o = v->ix->opaque; o; o = o->next)
		if (o->missing && !*o->name) /* a file, and not an object in one */
			tell(m, o->path, "%s", o->reason);
		else
			fprintf(m->why, "%s: %s%s%s\n", o->path, o->name, *o->name ? ": " : "",
				o->reason);
	if (v->nr_tensors)
		qsort(v->tensors, v->nr_tensors, sizeof(*v->tensors), by_name);
	return 0;
}

/* Of several files, or by `strip`, several may have one name: then none of these is shown. */
static void drop_ambiguous(struct making *m)
{
	struct view *v = m->v;
	size_t nr = 0;

	for (size_t i = 0, n; i < v->nr_tensors; i += n) {
		const struct view_tensor *first = &v->tensors[i];

		for (n = 1; i + n < v->nr_tensors && !strcmp(first->name, first[n].name); n++)
			;
		if (n == 1)
			v->tensors[nr++] = *first;
		else
			tell(m, first->name,
			     "%zu tensors have this name, such as that of '%s': choose one by "
			     "scope=",
			     n, first->t->scope);
	}
	v->nr_tensors = nr;
}

static const char *dtype_in(const struct view *v, const struct index_tensor *t)
{
	return v->spec.bf16 && round_can(t->dtype) ? "BF16" : t->dtype;
}

/* --- the files --- */

/* Larger elements first, as safetensors itself has them: so all are aligned. */
static int by_size(const void *a, const void *b)
{
	const struct view_tensor *x = a, *y = b;
	unsigned p = type_bits(x->dtype), q = type_bits(y->dtype);

	return p != q ? (p < q ? 1 : -1) : strverscmp(x->name, y->name);
}

/* The header of a safetensors file, with the eight bytes of its length. */
static int make_head(struct view_file *f)
{
	json_t *o = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
	char *text = NULL;
	size_t len, padded;

	for (size_t i = 0; o && i < f->nr; i++) {
		const struct view_tensor *t = &f->first[i];
		json_t *shape = json_array(), *one;

		for (unsigned d = 0; d < t->t->ndim; d++)
			json_array_append_new(shape, json_integer((json_int_t)t->t->shape[d]));
		one = json_pack("{s:s, s:o, s:[I, I]}", "dtype", t->dtype, "shape", shape,
				"data_offsets", (json_int_t)t->at, (json_int_t)(t->at + t->bytes));
		json_object_set_new(o, t->name, one);
	}
	text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	json_decref(o);
	if (!text)
		return -ENOMEM;
	len = strlen(text);
	padded = (len + ALIGN - 1) / ALIGN * ALIGN;
	if (padded > HEADER_MAX) {
		free(text);
		return -EFBIG;
	}
	f->head_size = 8 + padded;
	f->head = malloc(f->head_size);
	if (f->head) {
		for (size_t i = 0; i < 8; i++)
			f->head[i] = (char)(padded >> 8 * i);
		memset(f->head + 8, ' ', padded);
		memcpy(f->head + 8, text, len);
	}
	free(text);
	return f->head ? 0 : -ENOMEM;
}

/* Lays out the tensors of @f. */
static int lay_out(struct view_file *f)
{
	uint64_t at = 0;
	int err;

	qsort(f->first, f->nr, sizeof(*f->first), by_size);
	for (size_t i = 0; i < f->nr; i++) {
		f->first[i].at = at;
		at += f->first[i].bytes;
	}
	err = make_head(f);
	for (size_t i = 0; i < f->nr && !err; i++)
		f->first[i].at += f->head_size;
	f->size = f->head_size + at;
	return err;
}

/* The file that tells in which file each tensor is. */
static int add_index(struct view *v)
{
	struct view_file *f = &v->files[v->nr_files];
	json_t *map = json_object(), *o;
	json_int_t total = 0;

	for (size_t i = 0; i < v->nr_files; i++)
		for (size_t k = 0; k < v->files[i].nr; k++) {
			json_object_set_new(map, v->files[i].first[k].name,
					    json_string(v->files[i].name));
			total += (json_int_t)v->files[i].first[k].bytes;
		}
	o = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", total, "weight_map", map);
	if (o && v->spec.bf16)
		json_object_set_new(json_object_get(o, "metadata"), "rounded_to",
				    json_string("BF16, to nearest, ties to even"));
	f->head = o ? json_dumps(o, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
	json_decref(o);
	if (!f->head)
		return -ENOMEM;
	snprintf(f->name, sizeof(f->name), INDEX_NAME);
	f->size = f->head_size = strlen(f->head);
	v->nr_files++;
	return 0;
}

/* How many tensors from @first on go into one file. */
static size_t take_some(const struct view *v, size_t first)
{
	uint64_t bytes = v->tensors[first].bytes;
	size_t n = first + 1;

	while (n < v->nr_tensors && v->tensors[n].bytes <= v->spec.max &&
	       bytes <= v->spec.max - v->tensors[n].bytes)
		bytes += v->tensors[n++].bytes;
	return n - first;
}

static int make_files(struct view *v)
{
	size_t nr = 0, i = 0;
	int err = 0;

	for (size_t k = 0; k < v->nr_tensors; k += take_some(v, k))
		nr++;
	v->files = calloc(nr + 2, sizeof(*v->files));
	if (!v->files)
		return -ENOMEM;
	for (size_t k = 0; k < nr && !err; k++) {
		struct view_file *f = &v->files[k];

		f->first = &v->tensors[i];
		f->nr = take_some(v, i);
		i += f->nr;
		if (nr == 1)
			snprintf(f->name, sizeof(f->name), "model.safetensors");
		else
			snprintf(f->name, sizeof(f->name), "model-%05zu-of-%05zu.safetensors",
				 k + 1, nr);
	}
	/* Only now: laying out sorts the tensors of a file. */
	for (size_t k = 0; k < nr && !err; k++)
		err = lay_out(&v->files[k]);
	v->nr_files = nr;
	return !err && (nr > 1 || v->spec.bf16) ? add_index(v) : err;
}

/* --- where their bytes are --- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static size_t path_nr(const void *view, const char *path)
{
	const struct view *v = view;
	const char **found = bsearch(&path, v->paths, v->nr_paths, sizeof(*v->paths), by_text);

	return (size_t)(found - v->paths);
}

static int gather_paths(struct view *v)
{
	size_t nr = 0, kept = 0;

	for (size_t i = 0; i < v->nr_tensors; i++)
		nr += v->tensors[i].t->nr_pieces;
	v->paths = calloc(nr + 1, sizeof(*v->paths));
	if (!v->paths)
		return -ENOMEM;
	nr = 0;
	for (size_t i = 0; i < v->nr_tensors; i++)
		for (const struct index_piece *p = v->tensors[i].t->pieces; p; p = p->next)
			v->paths[nr++] = p->path;
	if (nr)
		qsort(v->paths, nr, sizeof(*v->paths), by_text);
	for (size_t i = 0; i < nr; i++)
		if (!kept || strcmp(v->paths[kept - 1], v->paths[i]))
			v->paths[kept++] = v->paths[i];
	v->nr_paths = kept;
	return 0;
}

static int plan_tensors(struct view *v)
{
	int err = gather_paths(v);

	for (size_t i = 0; i < v->nr_tensors && !err; i++)
		if (v->tensors[i].bytes)
			err = gather_create(&v->tensors[i].gather, v->tensors[i].t, path_nr, v);
	return err;
}

/* --- all of it --- */

static int fill(struct view *v)
{
	struct making m = {.v = v, .why = open_memstream(&v->why, &v->why_size)};
	int err = m.why ? choose(&m) : -ENOMEM;

	if (!err)
		drop_ambiguous(&m);
	for (size_t i = 0; i < v->nr_tensors && !err; i++) {
		struct view_tensor *t = &v->tensors[i];

		t->dtype = dtype_in(v, t->t);
		t->bytes = index_bytes(t->t) / (type_bits(t->t->dtype) / 8) *
			   (type_bits(t->dtype) / 8);
	}
	if (m.why && fclose(m.why) && !err)
		err = -ENOMEM;
	if (!err)
		err = make_files(v);
	return err ? err : plan_tensors(v);
}

int view_create(struct view **out, struct index *ix, const char *spec, char why[SPEC_WHY_MAX])
{
	struct view *v = calloc(1, sizeof(*v));
	int err;

	*out = NULL;
	if (!v) {
		index_destroy(ix);
		return -ENOMEM;
	}
	v->ix = ix;
	err = view_spec_parse(&v->spec, spec, why);
	if (!err)
		err = fill(v);
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
	for (size_t i = 0; i < v->nr_tensors; i++)
		free(v->tensors[i].gather);
	for (size_t i = 0; i < v->nr_files; i++)
		free(v->files[i].head);
	free(v->tensors);
	free(v->files);
	free(v->paths);
	free(v->why);
	index_destroy(v->ix);
	free(v);
}

int view_find(const struct view *v, const char *name)
{
	for (size_t i = 0; i < v->nr_files; i++)
		if (!strcmp(v->files[i].name, name))
			return (int)i;
	return -1;
}

int view_each_path(const struct view *v, size_t file, int (*one)(void *arg, size_t path), void *arg)
{
	const struct view_file *f = &v->files[file];
	int err = 0;

	for (size_t i = 0; i < f->nr && !err; i++)
		if (f->first[i].gather)
			err = gather_each_path(f->first[i].gather, one, arg);
	return err;
}

/* --- reading --- */

/* Reads [off, off + len) of a tensor as the view has it. */
static int read_tensor(const struct view_tensor *t, char *buf, size_t len, uint64_t off,
		       const struct view_source *src)
{
	return t->dtype == t->t->dtype ? gather_read(t->gather, buf, len, off, src)
				       : round_read(t->gather, t->t->dtype, buf, len, off, src);
}

/* The first tensor of @f that ends behind @off. */
static size_t first_behind(const struct view_file *f, uint64_t off)
{
	size_t lo = 0, hi = f->nr;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (f->first[mid].at + f->first[mid].bytes <= off)
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
	if (off < f->head_size) {
		size_t n = len < f->head_size - off ? len : (size_t)(f->head_size - off);

		memcpy(to, f->head + off, n);
		to += n;
		off += n;
	}
	for (size_t i = first_behind(f, off); i < f->nr && to < (char *)buf + len && !err; i++) {
		const struct view_tensor *t = &f->first[i];
		uint64_t from = off - t->at, left = len - (size_t)(to - (char *)buf);
		size_t n = left < t->bytes - from ? (size_t)left : (size_t)(t->bytes - from);

		if (!n)
			continue;
		err = read_tensor(t, to, n, from, src);
		to += n;
		off += n;
	}
	return err ? err : (ssize_t)len;
}
