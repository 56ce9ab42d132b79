/* SPDX-License-Identifier: MIT */
/*
 * The directories of torch_checkpointing: ITEM_RANK.pt, by torch.save, and metadata.pkl, which says
 * how each DTensor is spread over ranks:
 *
 *	{"metadata": {ITEM: {"nested_path_to_metadata": {'["layer", "weight"]': [
 *		{"ranks": (0, 1), "sharding_metadata": {"type": "DTensorShardingMetadata", "data": {
 *			"global_shape": [4, 2], "mesh_spec": {"mesh_shape": (2,), "mesh_data": (0, 1)},
 *			"placements": [{"type": "Shard", "dim": 0}]}}}]}}}}
 *
 * read_torch.c has described what each file holds, as the local part of a tensor. Here the parts
 * become pieces of the whole. What this does not know stays a local part.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/tensors/pickle.h"
#include "engine/tensors/read.h"
#include "engine/tensors/torch.h"

#define METADATA     "metadata.pkl"
#define METADATA_MAX ((size_t)256 << 20)
#define WAY_MAX	     2048

/* How one DTensor is spread. */
struct spread {
	unsigned ndim, mesh_ndim;
	uint64_t shape[TYPE_DIMS], mesh[TYPE_DIMS];
	int dim[TYPE_DIMS]; /* for each one of the mesh, which of the tensor it cuts; -1: none */
	pickle_ref ranks;   /* in row-major order of the mesh */
};

struct reading {
	struct index *ix;
	struct tree *tree;
	const struct pickle *p;
	char item[WAY_MAX], name[WAY_MAX];
	bool only; /* there is one item: its names need no scope */
};

/* '["layer", 0]' as "layer.0". False: it is no such list, or too long. */
static bool join_way(const struct pickle *p, pickle_ref key, char *name, size_t size)
{
	size_t len, used = 0, i;
	const char *text = pickle_text(p, key, &len);
	json_t *way = text ? json_loadb(text, len, 0, NULL) : NULL, *step;
	bool ok = json_array_size(way) > 0;

	json_array_foreach (way, i, step) {
		int n = json_is_integer(step)
				? snprintf(name + used, size - used, "%s%" JSON_INTEGER_FORMAT,
					   i ? "." : "", json_integer_value(step))
			: json_is_string(step) ? snprintf(name + used, size - used, "%s%s",
							  i ? "." : "", json_string_value(step))
					       : INT_MAX;

		ok = ok && (size_t)n < size - used;
		if (!ok)
			break;
		used += (size_t)n;
	}
	json_decref(way);
	return ok;
}

static bool read_placements(const struct pickle *p, pickle_ref list, struct spread *s)
{
	if (pickle_nr(p, list) != s->mesh_ndim)
		return false;
	for (unsigned i = 0; i < s->mesh_ndim; i++) {
		pickle_ref one = pickle_item(p, list, i), type = pickle_get(p, one, "type");
		int64_t dim = -1;

		if (pickle_is_text(p, type, "Shard")) {
			if (!pickle_int(p, pickle_get(p, one, "dim"), &dim) || dim < 0 ||
			    dim >= s->ndim)
				return false;
		} else if (!pickle_is_text(p, type, "Replicate")) {
			return false;
		}
		s->dim[i] = (int)dim;
	}
	return true;
}

/* False: it is no DTensor, or spread in a way that is not known here. */
static bool read_spread(const struct pickle *p, pickle_ref sharding, struct spread *s)
{
	pickle_ref data = pickle_get(p, sharding, "data"), mesh = pickle_get(p, data, "mesh_spec");
	uint64_t nr;

	s->ranks = pickle_get(p, mesh, "mesh_data");
	return pickle_is_text(p, pickle_get(p, sharding, "type"), "DTensorShardingMetadata") &&
	       torch_numbers(p, pickle_get(p, data, "global_shape"), s->shape, &s->ndim) &&
	       torch_numbers(p, pickle_get(p, mesh, "mesh_shape"), s->mesh, &s->mesh_ndim) &&
	       read_placements(p, pickle_get(p, data, "placements"), s) &&
	       shape_volume(s->mesh, s->mesh_ndim, &nr) && nr == pickle_nr(p, s->ranks);
}

/* The box of the @nr-th rank of the mesh: each dimension of the mesh cuts what is left. */
static void box_of(const struct spread *s, uint64_t nr, uint64_t *box)
{
	uint64_t place[TYPE_DIMS];

	memset(box, 0, s->ndim * sizeof(*box));
	memcpy(box + s->ndim, s->shape, s->ndim * sizeof(*box));
	for (unsigned i = s->mesh_ndim; i-- > 0; nr /= s->mesh[i])
		place[i] = nr % s->mesh[i];
	for (unsigned i = 0; i < s->mesh_ndim; i++) {
		uint64_t *len, chunk, from;

		if (s->dim[i] < 0)
			continue;
		len = &box[s->ndim + (unsigned)s->dim[i]];
		chunk = *len / s->mesh[i] + !!(*len % s->mesh[i]);
		from = place[i] * chunk < *len ? place[i] * chunk : *len;
		box[s->dim[i]] += from;
		*len = *len - from < chunk ? *len - from : chunk;
	}
}

/* The local part of the tensor in the file of @rank. NULL: it is not there. */
static struct index_tensor *find_part(struct reading *r, int64_t rank, char *path, size_t size)
{
	char name[WAY_MAX + 16];
	const struct tree_file *f;

	snprintf(path, size, "%s_%" PRId64 ".pt", r->item, rank);
	snprintf(name, sizeof(name), "%s" TORCH_LOCAL_PART, r->name);
	f = tree_find(r->tree, path);
	return f ? index_find(r->ix, read_scope(r->tree, f), name) : NULL;
}

/* Adds what the @nr-th rank of the mesh holds, and drops the local part. */
static int add_part(struct reading *r, const struct spread *s, uint64_t nr,
		    struct index_tensor **whole)
{
	uint64_t box[2 * TYPE_DIMS];
	char path[2 * WAY_MAX];
	struct index_piece piece = {.path = path, .box = box};
	struct index_tensor *part;
	int64_t rank;
	int err = 0;

	if (!pickle_int(r->p, pickle_item(r->p, s->ranks, nr), &rank))
		return 0;
	box_of(s, nr, box);
	part = find_part(r, rank, path, sizeof(path));
	if (!part || part->nr_pieces != 1 || part->ndim != s->ndim ||
	    memcmp(part->shape, box + s->ndim, s->ndim * sizeof(*box)))
		return 0;
	if (!*whole)
		err = index_add(r->ix, r->only ? "" : r->item, r->name, part->dtype, s->ndim,
				s->shape, whole);
	if (err == -EEXIST || strcmp((*whole)->dtype, part->dtype))
		return 0;
	if (!err)
		(*whole)->requires_grad |= part->requires_grad;
	piece.at = part->pieces->at;
	piece.bytes = part->pieces->bytes;
	piece.unreachable = part->pieces->unreachable;
	part->dropped = true;
	return err ? err : index_add_piece(r->ix, *whole, &piece);
}

/* One tensor, by each way in which it is spread. */
static int read_tensor(struct reading *r, pickle_ref entries)
{
	struct index_tensor *whole = NULL;
	int err = 0;

	for (size_t i = 0; i < pickle_nr(r->p, entries) && !err; i++) {
		pickle_ref sharding =
			pickle_get(r->p, pickle_item(r->p, entries, i), "sharding_metadata");
		struct spread s;

		if (!read_spread(r->p, sharding, &s))
			continue;
		for (uint64_t nr = 0; nr < pickle_nr(r->p, s.ranks) && !err; nr++)
			err = add_part(r, &s, nr, &whole);
	}
	return err;
}

static int read_item(struct reading *r, pickle_ref tensors)
{
	int err = 0;

	for (size_t i = 0; i < pickle_nr_pairs(r->p, tensors) && !err; i++)
		if (join_way(r->p, pickle_key(r->p, tensors, i), r->name, sizeof(r->name)))
			err = read_tensor(r, pickle_value(r->p, tensors, i));
	return err;
}

static int read_items(struct reading *r, pickle_ref items)
{
	const char *key = "nested_path_to_metadata";
	size_t nr = 0;
	int err = 0;

	for (size_t i = 0; i < pickle_nr_pairs(r->p, items); i++)
		nr += pickle_nr_pairs(r->p, pickle_get(r->p, pickle_value(r->p, items, i), key)) >
		      0;
	r->only = nr <= 1;
	for (size_t i = 0; i < pickle_nr_pairs(r->p, items) && !err; i++) {
		size_t len;
		const char *item = pickle_text(r->p, pickle_key(r->p, items, i), &len);

		if (!item || len >= sizeof(r->item) || memchr(item, '\0', len))
			continue;
		memcpy(r->item, item, len);
		r->item[len] = '\0';
		err = read_item(r, pickle_get(r->p, pickle_value(r->p, items, i), key));
	}
	return err;
}

int read_checkpointing(struct index *ix, struct tree *t)
{
	__cleanup_free struct reading *r = calloc(1, sizeof(*r));
	struct tree_file *f = t->single ? NULL : tree_find(t, METADATA);
	__cleanup_free char *data = NULL;
	struct pickle *p = NULL;
	const char *why = "it is cut off";
	struct tree_part part;
	int err;

	if (!f || f->taken || !r)
		return r ? 0 : -ENOMEM;
	tree_part(&part, t, f, 0, f->size);
	err = tree_load(&part, 0, f->size, METADATA_MAX, &data);
	if (!err)
		err = pickle_read(data, (size_t)f->size, &p, NULL, &why);
	if (err)
		return read_is_format(err) ? index_add_opaque(ix, f->path, "", "%s", why) : err;
	f->taken = true;
	r->ix = ix;
	r->tree = t;
	r->p = p;
	err = read_items(r, pickle_get(p, pickle_root(p), "metadata"));
	pickle_free(p);
	return err;
}
