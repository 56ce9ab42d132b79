/* SPDX-License-Identifier: MIT */
#include "engine/tensors/index.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/tensors/types.h"

#define BLOCK_BYTES ((size_t)1 << 20)
#define WORK_MAX    2000000000 /* a tensor of 10^6 pieces in a square grid takes a quarter */

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

bool index_spend(struct index *ix, uint64_t work)
{
	ix->work = work < WORK_MAX - ix->work ? ix->work + work : WORK_MAX;
	return ix->work < WORK_MAX;
}

static int add_opaque(struct index *ix, const char *path, const char *name, bool missing,
		      const char *format, va_list args)
{
	struct index_opaque *o = index_alloc(ix, sizeof(*o));
	char reason[512];

	if (!o)
		return -ENOMEM;
	vsnprintf(reason, sizeof(reason), format, args);
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
	va_list args;
	int err;

	va_start(args, format);
	err = add_opaque(ix, path, name, false, format, args);
	va_end(args);
	return err;
}

int index_add_missing(struct index *ix, const char *path, const char *name, const char *format, ...)
{
	va_list args;
	int err;

	va_start(args, format);
	err = add_opaque(ix, path, name, true, format, args);
	va_end(args);
	return err;
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

const char *index_state(const struct index_tensor *t)
{
	return t->hole ? t->hole : t->opaque ? "opaque" : "complete";
}

uint64_t index_bytes(const struct index_tensor *t)
{
	uint64_t nr, bytes;

	return shape_volume(t->shape, t->ndim, &nr) && type_bytes(t->dtype, nr, &bytes) ? bytes : 0;
}
