/* SPDX-License-Identifier: MIT */
/*
 * Files as safetensors itself writes them, to the byte: tensors are in the order of their types,
 * the larger first, and then of their names. So all elements are aligned. Several files have an
 * index, as Hugging Face writes it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/views/making.h"

#define INDEX_NAME  "model.safetensors.index.json"
#define MAX_DEFAULT 5000000000 /* what Hugging Face calls 5GB */
#define ALIGN	    8
#define HEADER_MAX  100000000 /* safetensors's own limit */

/* The order in which safetensors has them, reversed. */
static unsigned rank_of(const char *dtype)
{
	static const char *const order[] = {
		"U64",	   "I64",     "F64", "C64", "F32",	   "U32",	  "I32",
		"BF16",	   "F16",     "U16", "I16", "F8_E5M2FNUZ", "F8_E4M3FNUZ", "F8_E8M0",
		"F8_E4M3", "F8_E5M2", "I8",  "U8",  "BOOL"};
	unsigned i = 0;

	while (i < ARRAY_SIZE(order) && strcmp(order[i], dtype) != 0)
		i++;
	return i;
}

static int by_place(const void *a, const void *b)
{
	const struct view_tensor *x = *(const struct view_tensor *const *)a;
	const struct view_tensor *y = *(const struct view_tensor *const *)b;
	unsigned p = rank_of(x->dtype), q = rank_of(y->dtype);

	return p != q ? (p > q) - (p < q) : strcmp(x->name, y->name);
}

static json_t *header_of(const struct view_tensor *const *list, size_t nr)
{
	json_t *o = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
	uint64_t at = 0;

	for (size_t i = 0; o && i < nr; i++) {
		const struct view_tensor *t = list[i];
		json_t *shape = json_array(), *one;

		for (unsigned d = 0; d < t->ndim; d++)
			json_array_append_new(shape, json_integer((json_int_t)t->shape[d]));
		one = json_pack("{s:s, s:o, s:[I, I]}", "dtype", t->dtype, "shape", shape,
				"data_offsets", (json_int_t)at, (json_int_t)(at + t->bytes));
		if (json_object_set_new(o, t->name, one)) { /* no tensor may be left out */
			json_decref(o);
			return NULL;
		}
		at += t->bytes;
	}
	return o;
}

/* The text of the header, with the eight bytes of its length. For free(); NULL and *@err. */
static char *head_of(const struct view_tensor *const *list, size_t nr, size_t *size, int *err)
{
	json_t *o = header_of(list, nr);
	char *text = o ? json_dumps(o, JSON_COMPACT) : NULL, *head = NULL;
	size_t len = text ? strlen(text) : 0, padded = (len + ALIGN - 1) / ALIGN * ALIGN;

	json_decref(o);
	*err = !text ? -ENOMEM : padded > HEADER_MAX ? -EFBIG : 0;
	if (!*err)
		head = malloc(8 + padded);
	if (head) {
		*size = 8 + padded;
		for (size_t i = 0; i < 8; i++)
			head[i] = (char)(padded >> 8 * i);
		memset(head + 8, ' ', padded);
		memcpy(head + 8, text, len);
	} else if (!*err) {
		*err = -ENOMEM;
	}
	free(text);
	return head;
}

int safetensors_file(struct making *m, struct view_file *f, const char *name,
		     const struct view_tensor **list, size_t nr)
{
	__cleanup_free char *head = NULL;
	size_t size = 0;
	int err;

	if (nr)
		qsort(list, nr, sizeof(*list), by_place);
	head = head_of(list, nr, &size, &err);
	if (!err)
		err = file_begin(m, f, name, head, size, nr);
	for (size_t i = 0; i < nr && !err; i++)
		file_add(f, list[i]);
	return err;
}

/* How many tensors from @first on go into one file. */
static size_t take_some(const struct making *m, size_t first)
{
	uint64_t bytes = m->tensors[first].bytes, max = m->v->spec.max;
	size_t n = first + 1;

	max = max ? max : MAX_DEFAULT;
	while (n < m->nr && m->tensors[n].bytes <= max && bytes <= max - m->tensors[n].bytes)
		bytes += m->tensors[n++].bytes;
	return n - first;
}

/* The file that tells in which file each tensor is: as @map says. */
static int add_index(struct making *m, json_t *map)
{
	struct view *v = m->v;
	json_int_t total = 0;
	char *text;
	json_t *o;
	int err;

	for (size_t i = 0; i < m->nr; i++)
		total += (json_int_t)m->tensors[i].bytes;
	o = json_pack("{s:{s:I}, s:O}", "metadata", "total_size", total, "weight_map", map);
	if (o && v->spec.bf16)
		json_object_set_new(json_object_get(o, "metadata"), "rounded_to",
				    json_string("BF16, to nearest, ties to even"));
	text = o ? json_dumps(o, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
	json_decref(o);
	if (!text)
		return -ENOMEM;
	err = file_begin(m, &v->files[v->nr_files++], INDEX_NAME, text, strlen(text), 0);
	free(text);
	return err;
}

/* Makes the files, and tells @map in which of them each tensor is. */
static int add_files(struct making *m, size_t nr, json_t *map)
{
	__cleanup_free const struct view_tensor **list = calloc(m->nr + 1, sizeof(const void *));
	int err = list ? 0 : -ENOMEM;
	char name[64] = "model.safetensors";

	for (size_t k = 0, i = 0, n; k < nr && !err; k++, i += n) {
		n = take_some(m, i);
		if (nr > 1)
			snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", k + 1, nr);
		for (size_t j = 0; j < n; j++) {
			list[j] = &m->tensors[i + j];
			json_object_set_new(map, list[j]->name, json_string(name));
		}
		err = safetensors_file(m, &m->v->files[m->v->nr_files++], name, list, n);
	}
	return err;
}

int view_form_safetensors(struct making *m)
{
	json_t *map = json_object();
	size_t nr = 0;
	int err = -ENOMEM;

	for (size_t k = 0; k < m->nr; k += take_some(m, k))
		nr++;
	m->v->files = calloc(nr + 2, sizeof(*m->v->files));
	if (m->v->files && map)
		err = add_files(m, nr, map);
	if (!err && nr && (nr > 1 || m->v->spec.bf16))
		err = add_index(m, map);
	json_decref(map);
	return err;
}
