/* SPDX-License-Identifier: MIT */
#include "engine/tensors/index.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/tensors/cover.h"
#include "engine/tensors/types.h"

#define BLOCK_BYTES ((size_t)1 << 20)

struct index_block {
	struct index_block *next;
	size_t used, size;
	_Alignas(16) char data[];
};

int index_create(struct index **out)
{
	struct index *ix = calloc(1, sizeof(*ix));

	*out = ix;
	return ix ? table_init(&ix->table) : -ENOMEM;
}

void index_destroy(struct index *ix)
{
	struct index_block *b, *next;

	if (!ix)
		return;
	for (b = ix->blocks; b; b = next) {
		next = b->next;
		free(b);
	}
	free(ix->table.buckets); /* its nodes are in the blocks */
	free(ix->tensors);
	free(ix);
}

void *index_alloc(struct index *ix, size_t size)
{
	struct index_block *b = ix->blocks;
	void *at;

	size = (size + 7) & ~(size_t)7;
	if (!b || b->size - b->used < size) {
		size_t room = size > BLOCK_BYTES ? size : BLOCK_BYTES;

		b = malloc(sizeof(*b) + room);
		if (!b)
			return NULL;
		*b = (struct index_block){.next = ix->blocks, .size = room};
		ix->blocks = b;
	}
	at = b->data + b->used;
	b->used += size;
	return at;
}

const char *index_text(struct index *ix, const char *text, size_t len)
{
	char *copy = index_alloc(ix, len + 1);

	if (copy) {
		memcpy(copy, text, len);
		copy[len] = '\0';
	}
	return copy;
}

/* --- tensors --- */

static uint64_t hash_of(const char *scope, const char *name)
{
	return hash_text(hash_text(hash_text(0, scope), "\n"), name);
}

struct index_tensor *index_find(const struct index *ix, const char *scope, const char *name)
{
	uint64_t hash = hash_of(scope, name);
	struct list *l;

	table_for_each (l, &ix->table, hash) {
		struct index_tensor *t = container_of(l, struct index_tensor, node.link);

		if (t->node.hash == hash && !strcmp(t->name, name) && !strcmp(t->scope, scope))
			return t;
	}
	return NULL;
}

static struct index_tensor *make(struct index *ix, const char *scope, const char *name,
				 unsigned ndim, const uint64_t *shape)
{
	struct index_tensor *t = index_alloc(ix, sizeof(*t));

	if (!t)
		return NULL;
	*t = (struct index_tensor){
		.scope = index_text(ix, scope, strlen(scope)),
		.name = index_text(ix, name, strlen(name)),
		.part = index_part_of(name),
		.ndim = ndim,
		.inferred = !shape,
		.shape = index_alloc(ix, ndim * sizeof(*shape)),
	};
	if (!t->scope || !t->name || !t->shape)
		return NULL;
	if (shape && ndim)
		memcpy(t->shape, shape, ndim * sizeof(*shape));
	else
		memset(t->shape, 0, ndim * sizeof(*shape));
	return t;
}

int index_add(struct index *ix, const char *scope, const char *name, const char *dtype,
	      unsigned ndim, const uint64_t *shape, struct index_tensor **out)
{
	struct index_tensor *t = index_find(ix, scope, name);

	*out = t;
	if (t) {
		if (strcmp(t->dtype, dtype) || t->ndim != ndim || t->inferred != !shape ||
		    (shape && memcmp(t->shape, shape, ndim * sizeof(*shape))))
			return -EEXIST;
		return 0;
	}
	if (ix->nr == ix->room) {
		size_t room = ix->room ? 2 * ix->room : 256;
		struct index_tensor **more = reallocarray(ix->tensors, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		ix->tensors = more;
		ix->room = room;
	}
	t = make(ix, scope, name, ndim, shape);
	if (!t)
		return -ENOMEM;
	t->dtype = dtype;
	ix->tensors[ix->nr++] = t;
	table_add(&ix->table, &t->node, hash_of(scope, name));
	*out = t;
	return 0;
}

/* Pieces of one file come one after another, and share the text of its path. */
static const char *path_for(struct index *ix, const struct index_tensor *t, const char *path)
{
	if (t->last && !strcmp(t->last->path, path))
		return t->last->path;
	return index_text(ix, path, strlen(path));
}

static void enlarge(struct index_tensor *t, const uint64_t *box)
{
	for (unsigned i = 0; i < t->ndim; i++)
		if (t->shape[i] < box[i] + box[t->ndim + i])
			t->shape[i] = box[i] + box[t->ndim + i];
}

int index_add_piece(struct index *ix, struct index_tensor *t, const struct index_piece *piece)
{
	struct index_piece *p = index_alloc(ix, sizeof(*p));
	uint64_t *box = index_alloc(ix, 2 * t->ndim * sizeof(*box));

	if (!p || !box)
		return -ENOMEM;
	*p = *piece;
	p->path = path_for(ix, t, piece->path);
	p->next = NULL;
	if (!p->path)
		return -ENOMEM;
	if (piece->box && t->ndim) {
		memcpy(box, piece->box, 2 * t->ndim * sizeof(*box));
	} else if (t->ndim) {
		memset(box, 0, t->ndim * sizeof(*box));
		memcpy(box + t->ndim, t->shape, t->ndim * sizeof(*box));
	}
	p->box = box;
	if (t->inferred)
		enlarge(t, box);
	if (t->last)
		t->last->next = p;
	else
		t->pieces = p;
	t->last = p;
	t->nr_pieces++;
	return 0;
}

static int add_opaque(struct index *ix, const char *path, const char *name, bool missing,
		      const char *reason)
{
	struct index_opaque *o = index_alloc(ix, sizeof(*o));

	if (!o)
		return -ENOMEM;
	*o = (struct index_opaque){
		.path = index_text(ix, path, strlen(path)),
		.name = index_text(ix, name, strlen(name)),
		.reason = index_text(ix, reason, strlen(reason)),
		.missing = missing,
	};
	if (!o->path || !o->name || !o->reason)
		return -ENOMEM;
	if (ix->last_opaque)
		ix->last_opaque->next = o;
	else
		ix->opaque = o;
	ix->last_opaque = o;
	return 0;
}

int index_add_opaque(struct index *ix, const char *path, const char *name, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return add_opaque(ix, path, name, false, text);
}

int index_add_missing(struct index *ix, const char *path, const char *name, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return add_opaque(ix, path, name, true, text);
}

size_t index_nr_missing(const struct index *ix)
{
	size_t nr = 0;

	for (size_t i = 0; i < ix->nr; i++)
		nr += ix->tensors[i]->hole != NULL;
	for (const struct index_opaque *o = ix->opaque; o; o = o->next)
		nr += o->missing;
	return nr;
}

enum index_part index_part_of(const char *name)
{
	/* How frameworks call what belongs to the optimizer; then what belongs to neither. */
	static const char *const optimizer[] = {"optim", "exp_avg", "fp32.", "momentum", "master_"};
	static const char *const other[] = {"rng",    "lr_sched", "scheduler", "random",
					    "loader", "dataload", "sampler"};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(optimizer); i++)
		if (strstr(name, optimizer[i]))
			return PART_OPTIMIZER;
	for (i = 0; i < ARRAY_SIZE(other); i++)
		if (!strncmp(name, other[i], strlen(other[i])))
			return PART_OTHER;
	return PART_MODEL;
}

/* --- the end --- */

static int by_name(const void *a, const void *b)
{
	const struct index_tensor *x = *(struct index_tensor *const *)a;
	const struct index_tensor *y = *(struct index_tensor *const *)b;
	int order = strcmp(x->scope, y->scope);

	return order ? order : strverscmp(x->name, y->name);
}

/* By the place of the bytes; then by name. */
static int by_place(const void *a, const void *b)
{
	const struct index_tensor *x = *(struct index_tensor *const *)a;
	const struct index_tensor *y = *(struct index_tensor *const *)b;
	int order = strcmp(x->pieces->path, y->pieces->path);

	if (order)
		return order;
	if (x->pieces->at != y->pieces->at)
		return x->pieces->at < y->pieces->at ? -1 : 1;
	return by_name(a, b);
}

/* Tied tensors have the same bytes of the same file, and one shape. */
static int note_aliases(struct index *ix)
{
	__cleanup_free struct index_tensor **list = calloc(ix->nr + 1, sizeof(*list));
	size_t nr = 0;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < ix->nr; i++)
		if (ix->tensors[i]->nr_pieces == 1 && ix->tensors[i]->pieces->bytes)
			list[nr++] = ix->tensors[i];
	if (nr)
		qsort(list, nr, sizeof(*list), by_place);
	for (size_t i = 1; i < nr; i++) {
		const struct index_tensor *a = list[i - 1], *b = list[i];

		if (a->pieces->at == b->pieces->at && a->pieces->bytes == b->pieces->bytes &&
		    a->ndim == b->ndim && !strcmp(a->pieces->path, b->pieces->path) &&
		    !strcmp(a->scope, b->scope) && !strcmp(a->dtype, b->dtype) &&
		    !memcmp(a->shape, b->shape, a->ndim * sizeof(*a->shape)))
			list[i]->alias = a->alias ? a->alias : a->name;
	}
	return 0;
}

int index_finish(struct index *ix)
{
	int err = note_aliases(ix);

	if (ix->nr)
		qsort(ix->tensors, ix->nr, sizeof(*ix->tensors), by_name);
	for (size_t i = 0; i < ix->nr && !err; i++)
		err = cover_check(ix, ix->tensors[i]);
	return err;
}

const char *index_state(const struct index_tensor *t)
{
	return t->hole ? t->hole : t->opaque ? "opaque" : "complete";
}

uint64_t index_bytes(const struct index_tensor *t)
{
	uint64_t nr, bytes;

	return shape_volume(t->shape, t->ndim, &nr) && type_bytes(t->dtype, nr, &bytes) ? bytes : 0;
}

/* --- as text --- */

static const char *const part_names[] = {"model", "optimizer", "other"};

static json_t *numbers(const uint64_t *list, unsigned nr)
{
	json_t *a = json_array();

	for (unsigned i = 0; i < nr; i++)
		json_array_append_new(a, json_integer((json_int_t)list[i]));
	return a;
}

static json_t *piece_to_json(const struct index_tensor *t, const struct index_piece *p)
{
	json_t *o = json_object();

	json_set_path(o, "path", "path_hex", p->path);
	json_object_set_new(o, "at", json_integer((json_int_t)p->at));
	json_object_set_new(o, "bytes", json_integer((json_int_t)p->bytes));
	if (p->from)
		json_object_set_new(o, "from", json_integer((json_int_t)p->from));
	json_object_set_new(o, "offset", numbers(p->box, t->ndim));
	json_object_set_new(o, "length", numbers(p->box + t->ndim, t->ndim));
	return o;
}

static json_t *tensor_to_json(const struct index_tensor *t)
{
	json_t *o = json_object(), *pieces = json_array();

	json_object_set_new(o, "name", json_text(t->name));
	if (*t->scope)
		json_object_set_new(o, "scope", json_text(t->scope));
	json_object_set_new(o, "dtype", json_string(t->dtype));
	json_object_set_new(o, "shape", numbers(t->shape, t->ndim));
	if (t->inferred)
		json_object_set_new(o, "inferred", json_true());
	json_object_set_new(o, "part", json_string(part_names[t->part]));
	if (t->alias)
		json_object_set_new(o, "alias", json_text(t->alias));
	json_object_set_new(o, "state", json_text(index_state(t)));
	if (t->digest)
		json_object_set_new(o, "xxh3", json_string(t->digest));
	for (const struct index_piece *p = t->pieces; p; p = p->next)
		json_array_append_new(pieces, piece_to_json(t, p));
	json_object_set_new(o, "pieces", pieces);
	return o;
}

/* Prints @o, which it takes over, as an element of a list. */
static void print_element(json_t *o, bool first, FILE *out)
{
	char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

	fprintf(out, "%s\n%s", first ? "" : ",", text ? text : "null");
	free(text);
	json_decref(o);
}

int index_print(const struct index *ix, const char *unit, FILE *out)
{
	json_t *name = json_text(unit);
	char *quoted = name ? json_dumps(name, JSON_ENCODE_ANY) : NULL;

	fprintf(out, "{\n\"format\": \"" INDEX_FORMAT "\",\n\"version\": %d,\n\"unit\": %s,\n",
		INDEX_VERSION, quoted ? quoted : "\"\"");
	fputs("\"tensors\": [", out);
	for (size_t i = 0; i < ix->nr; i++)
		print_element(tensor_to_json(ix->tensors[i]), !i, out);
	fputs("\n],\n\"opaque\": [", out);
	for (const struct index_opaque *o = ix->opaque; o; o = o->next) {
		json_t *j = json_pack("{s:o, s:o}", "path", json_text(o->path), "reason",
				      json_text(o->reason));

		if (*o->name)
			json_object_set_new(j, "name", json_text(o->name));
		if (o->missing)
			json_object_set_new(j, "missing", json_true());
		print_element(j, o == ix->opaque, out);
	}
	fputs("\n]\n}\n", out);
	free(quoted);
	json_decref(name);
	return ferror(out) ? -EIO : 0;
}
