/* SPDX-License-Identifier: MIT */
/*
 * The optimizer states of DeepSpeed's ZeRO. Each rank writes `*_optim_states.pt` with flat fp32
 * tensors. `*_model_states.pt` has the names and shapes of the parameters, in the order in which
 * they lie in the flat ones (DeepSpeed's zero_to_fp32.py reads them so):
 *
 * - Stages 1 and 2: all parameters of a group are one vector, which is cut into equal parts, one
 *   for each rank. The last part may end with padding.
 * - Stage 3: each parameter is cut by itself, into parts of ceil(elements / ranks). The vector of a
 *   rank has its parts of all parameters, one after another, over all groups.
 *
 * The states of the optimizer lie as the fp32 parameters do. A parameter P becomes the tensors
 * `fp32.P`, `exp_avg.P` and so on. What is in the model states is left to read_torch.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/tensors/read.h"
#include "engine/tensors/torch.h"

#define OPTIM "_optim_states.pt"
#define MODEL "_model_states.pt"
#define FP32  "fp32"

#define MISSING_MAX 16
#define RANKS_MAX   (1u << 24)
#define START_MAX   (INT64_MAX / 2) /* of elements in a vector */

/* A flat tensor of one rank. */
struct flat {
	const char *what; /* "fp32", "exp_avg", ... */
	unsigned group, rank;
	const char *path, *dtype;
	uint64_t at, nr; /* bytes; elements */
};

/* The ranks in the name "...pp_rank_3_mp_rank_00_optim_states.pt". False: it is none. */
static bool ranks_of(const char *path, const char *suffix, unsigned *rank, unsigned *mp)
{
	const char *name = path_name(path), *at = strstr(name, "mp_rank_");
	const char *dp = strstr(name, "pp_rank_");
	char *end;

	if (!at || !isdigit((unsigned char)at[8]))
		return false;
	*mp = (unsigned)strtoul(at + 8, &end, 10);
	*rank = dp ? (unsigned)strtoul(dp + 8, NULL, 10) : 0;
	return !strcmp(end, suffix) && *rank < RANKS_MAX;
}

/* Files of one kind, by directory, model-parallel rank and rank. */
struct file {
	struct tree_file *file;
	size_t nr_dir; /* bytes of its path up to its name */
	unsigned mp, rank;
};

static int compare_group(const struct file *x, const struct file *y)
{
	size_t least = x->nr_dir < y->nr_dir ? x->nr_dir : y->nr_dir;
	int order = memcmp(x->file->path, y->file->path, least);

	if (order || x->nr_dir != y->nr_dir)
		return order ? order : x->nr_dir < y->nr_dir ? -1 : 1;
	return (x->mp > y->mp) - (x->mp < y->mp);
}

static int compare_files(const void *a, const void *b)
{
	const struct file *x = a, *y = b;
	int order = compare_group(x, y);

	return order ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

/* All that no reader has taken. *@out is for free(). 0 or -ENOMEM. */
static int gather(struct tree *t, const char *suffix, struct file **out, size_t *nr)
{
	*nr = 0;
	*out = calloc(t->nr + 1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	for (size_t i = 0; i < t->nr; i++) {
		struct tree_file *f = &t->list[i];
		struct file *one = &(*out)[*nr];

		if (f->taken || !ranks_of(f->path, suffix, &one->rank, &one->mp))
			continue;
		one->file = f;
		one->nr_dir = (size_t)(path_name(f->path) - f->path);
		++*nr;
	}
	qsort(*out, *nr, sizeof(**out), compare_files);
	return 0;
}

struct zero {
	struct index *ix;
	struct tree *tree;
	const struct file *files, *models; /* of this group, by rank; of all */
	size_t nr_files, nr_models;
	const char *dir, *scope;
	unsigned ranks;
	bool by_param; /* stage 3: each parameter is cut by itself */
	struct flat *flats;
	size_t nr, room;
	char name[4096];
};

/* --- the flat tensors --- */

static int add_flat(struct zero *z, struct torch_file *tf, pickle_ref r, const char *what,
		    size_t what_len, unsigned group, unsigned rank, const char **why)
{
	struct torch_tensor tt;
	int err = torch_tensor(tf, r, &tt, why);

	if (err || tt.ndim != 1)
		return err == 1 || !err ? 0 : err; /* a number, such as `step` */
	if (z->nr == z->room) {
		size_t room = z->room ? 2 * z->room : 64;
		struct flat *more = reallocarray(z->flats, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		z->flats = more;
		z->room = room;
	}
	z->flats[z->nr] = (struct flat){
		.what = index_text(z->ix, what, what_len),
		.group = group,
		.rank = rank,
		.path = tf->part.file->path,
		.dtype = tt.dtype,
		.at = tt.at,
		.nr = tt.shape[0],
	};
	return z->flats[z->nr++].what ? 0 : -ENOMEM;
}

/* The states of one group: name -> flat tensor. */
static int add_states(struct zero *z, struct torch_file *tf, pickle_ref states, unsigned group,
		      unsigned rank, const char **why)
{
	const struct pickle *p = tf->pickle;
	int err = 0;

	for (size_t i = 0; i < pickle_nr_pairs(p, states) && !err; i++) {
		size_t len;
		const char *what = pickle_text(p, pickle_key(p, states, i), &len);

		if (what && len < 64 && !memchr(what, '\0', len))
			err = add_flat(z, tf, pickle_value(p, states, i), what, len, group, rank,
				       why);
	}
	return err;
}

/* The states of all groups, which are a list, or a dict in "state" by the number of the group. */
static int add_all_states(struct zero *z, struct torch_file *tf, pickle_ref base, unsigned rank,
			  const char **why)
{
	const struct pickle *p = tf->pickle;
	pickle_ref state = pickle_get(p, base, "state");
	int err = 0;

	for (size_t i = 0; i < pickle_nr(p, base) && !err; i++)
		err = add_states(z, tf, pickle_item(p, base, i), (unsigned)i, rank, why);
	for (size_t i = 0; i < pickle_nr_pairs(p, state) && !err; i++) {
		int64_t group;

		if (pickle_int(p, pickle_key(p, state, i), &group) && group >= 0)
			err = add_states(z, tf, pickle_value(p, state, i), (unsigned)group, rank,
					 why);
	}
	return err;
}

static void note_ranks(struct zero *z, const struct pickle *p, pickle_ref count)
{
	int64_t nr;

	if (pickle_int(p, count, &nr) || pickle_int(p, pickle_item(p, count, 0), &nr))
		z->ranks = nr > 0 && nr < RANKS_MAX ? (unsigned)nr : 0;
}

/* True if a number that is not 0 stands in a nest of lists. */
static bool has_number(const struct pickle *p, pickle_ref r, unsigned depth)
{
	int64_t number;
	bool has = pickle_int(p, r, &number) && number;

	for (size_t i = 0; i < pickle_nr(p, r) && !has && depth < 2; i++)
		has = has_number(p, pickle_item(p, r, i), depth + 1);
	return has;
}

static int read_optim(struct zero *z, const struct tree_file *f, unsigned rank)
{
	__cleanup_free struct torch_file *tf = calloc(1, sizeof(*tf));
	const struct pickle *p;
	const char *why = "";
	pickle_ref all, groups, base, aligned;
	int err = tf ? torch_open(tf, z->tree, f, 0, f->size, &why) : -ENOMEM;

	if (err)
		return read_is_format(err) ? index_add_opaque(z->ix, f->path, "", "%s", why) : err;
	p = tf->pickle;
	all = pickle_get(p, pickle_root(p), "optimizer_state_dict");
	note_ranks(z, p, pickle_get(p, all, "partition_count"));
	groups = pickle_get(p, all, "fp32_flat_groups"); /* of stage 3 alone */
	z->by_param = groups;
	if (!groups)
		groups = pickle_get(p, all, "single_partition_of_fp32_groups");
	base = pickle_get(p, all, z->by_param ? "optimizer_state_dict" : "base_optimizer_state");
	aligned = pickle_get(p, all, "param_alignment_paddings");
	if (has_number(p, aligned, 0)) {
		groups = base = 0;
		err = index_add_opaque(z->ix, f->path, "",
				       "its parameters are aligned by gaps (parameter_alignment)");
	} else if (!groups)
		err = index_add_opaque(z->ix, f->path, "",
				       "it has no flat fp32 groups of ZeRO 1, 2 or 3");
	for (size_t i = 0; i < pickle_nr(p, groups) && !err; i++)
		err = add_flat(z, tf, pickle_item(p, groups, i), FP32, 4, (unsigned)i, rank, &why);
	if (!err)
		err = add_all_states(z, tf, base, rank, &why);
	if (read_is_format(err))
		err = index_add_opaque(z->ix, f->path, "", "%s", why);
	torch_close(tf);
	return err;
}

static int by_place(const void *a, const void *b)
{
	const struct flat *x = a, *y = b;
	int order = strcmp(x->what, y->what);

	if (order)
		return order;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->group < y->group ? -1 : x->group > y->group;
}

/* --- the parameters --- */

struct param {
	struct index_tensor *tensor;
	uint64_t nr;
};

/*
 * Adds to @pm what of its elements [from, from + nr) lies in @f, where the first is number @start
 * of @f; it may be in front of it.
 */
static int add_range(struct zero *z, const struct param *pm, const struct flat *f, int64_t start,
		     uint64_t from, uint64_t nr)
{
	uint64_t skip = start < 0 ? (uint64_t)-start : 0;
	uint64_t at = start > 0 ? (uint64_t)start : 0, take, size = type_bits(f->dtype) / 8;
	struct index_piece piece = {.path = f->path};

	if (skip >= nr || at >= f->nr)
		return 0;
	take = nr - skip < f->nr - at ? nr - skip : f->nr - at;
	piece.at = f->at + at * size;
	piece.from = (from + skip) * size;
	piece.bytes = take * size;
	return index_add_piece(z->ix, pm->tensor, &piece);
}

/* Stages 1 and 2: the parameter begins at element @start of the vector of @group. */
static int add_of_group(struct zero *z, const struct param *pm, const char *what, unsigned group,
			uint64_t start)
{
	uint64_t part = 0;
	int err = 0;

	for (size_t i = 0; i < z->nr; i++)
		if (z->flats[i].group == group && z->flats[i].nr > part &&
		    !strcmp(z->flats[i].what, what))
			part = z->flats[i].nr;
	for (size_t i = 0; i < z->nr && !err; i++) {
		const struct flat *f = &z->flats[i];

		if (f->group == group && !strcmp(f->what, what))
			err = add_range(z, pm, f, (int64_t)start - (int64_t)(f->rank * part), 0,
					pm->nr);
	}
	return err;
}

/* Stage 3: each rank has @part elements of it, from @start of its vector on. */
static int add_of_ranks(struct zero *z, const struct param *pm, const char *what, uint64_t start,
			uint64_t part)
{
	uint64_t before = 0;
	int err = 0;

	for (size_t i = 0; i < z->nr && !err; i++) {
		const struct flat *f = &z->flats[i];
		uint64_t from = f->rank * part;

		if (i && z->flats[i - 1].rank != f->rank)
			before = 0;
		if (strcmp(f->what, what)) {
			before = 0;
			continue;
		}
		if (from < pm->nr)
			err = add_range(z, pm, f, (int64_t)start - (int64_t)before, from,
					pm->nr - from < part ? pm->nr - from : part);
		before += f->nr;
	}
	return err;
}

/* The type of the flat tensors of @what; NULL: there are none. */
static const char *dtype_of(const struct zero *z, const char *what)
{
	for (size_t i = 0; i < z->nr; i++)
		if (!strcmp(z->flats[i].what, what))
			return z->flats[i].dtype;
	return NULL;
}

static int make_param(struct zero *z, const struct pickle *p, pickle_ref shapes, size_t i,
		      const char *what, struct param *pm)
{
	uint64_t shape[TYPE_DIMS];
	unsigned ndim;
	size_t len;
	const char *name = pickle_text(p, pickle_key(p, shapes, i), &len);

	if (!name || memchr(name, '\0', len) || len + strlen(what) + 2 > sizeof(z->name) ||
	    !torch_numbers(p, pickle_value(p, shapes, i), shape, &ndim) ||
	    !shape_volume(shape, ndim, &pm->nr) || pm->nr > START_MAX)
		return -EBADMSG;
	snprintf(z->name, sizeof(z->name), "%s.%.*s", what, (int)len, name);
	if (index_add(z->ix, z->scope, z->name, dtype_of(z, what), ndim, shape, &pm->tensor))
		return -EBADMSG;
	pm->tensor->part = PART_OPTIMIZER;
	return 0;
}

/* Describes all parameters for one kind of flat tensors. */
static int add_params(struct zero *z, const struct pickle *p, pickle_ref list, const char *what)
{
	uint64_t start = 0;
	int err = 0;

	for (size_t g = 0; g < pickle_nr(p, list) && !err; g++) {
		pickle_ref shapes = pickle_item(p, list, g);

		for (size_t i = 0; i < pickle_nr_pairs(p, shapes) && !err; i++) {
			struct param pm;
			uint64_t part;

			err = index_spend(z->ix, z->nr) ? make_param(z, p, shapes, i, what, &pm)
							: -EBADMSG;
			if (err)
				break;
			part = z->ranks ? (pm.nr + z->ranks - 1) / z->ranks : pm.nr;
			err = z->by_param ? add_of_ranks(z, &pm, what, start, part)
					  : add_of_group(z, &pm, what, (unsigned)g, start);
			start += z->by_param ? part : pm.nr;
			err = err || start < START_MAX ? err : -EBADMSG;
		}
		if (!z->by_param)
			start = 0;
	}
	return err;
}

static int by_group(const void *a, const void *b)
{
	return compare_group(a, b);
}

/* The file with the shapes: the same for all ranks. */
static struct tree_file *find_model(const struct zero *z)
{
	const struct file *f =
		z->nr_models ? bsearch(z->files, z->models, z->nr_models, sizeof(*f), by_group)
			     : NULL;

	return f ? f->file : NULL;
}

/* Names the first ranks whose file is missing. */
static int note_missing(struct zero *z)
{
	unsigned missing = 0;
	int err = 0;

	for (size_t i = 0, r = 0; r < z->ranks && missing < MISSING_MAX && !err; r++) {
		while (i < z->nr_files && z->files[i].rank < r)
			i++;
		if (i < z->nr_files && z->files[i].rank == r)
			continue;
		missing++;
		err = index_add_missing(z->ix, z->dir, "",
					"the optimizer states of rank %zu are missing", r);
	}
	return err;
}

static int describe(struct zero *z)
{
	__cleanup_free struct torch_file *tf = calloc(1, sizeof(*tf));
	struct tree_file *model = find_model(z);
	const char *why = "";
	int err = tf ? 0 : -ENOMEM;

	if (!z->nr || err)
		return err;
	if (!model)
		return index_add_opaque(z->ix, z->flats[0].path, "",
					"the model states that name its parameters are missing");
	err = torch_open(tf, z->tree, model, 0, model->size, &why);
	if (err)
		return read_is_format(err) ? 0 : err; /* read_torch says why */
	qsort(z->flats, z->nr, sizeof(*z->flats), by_place);
	for (size_t i = 0; i < z->nr && !err; i++)
		if (!i || strcmp(z->flats[i].what, z->flats[i - 1].what))
			err = add_params(
				z, tf->pickle,
				pickle_get(tf->pickle, pickle_root(tf->pickle), "param_shapes"),
				z->flats[i].what);
	torch_close(tf);
	if (read_is_format(err))
		err = index_add_opaque(z->ix, model->path, "param_shapes",
				       "its parameters have a form that ckptfs does not know");
	return err;
}

/* All of one directory and one model-parallel rank: z->files. */
static int read_group(struct zero *z)
{
	unsigned highest = z->files[z->nr_files - 1].rank;
	const char *path = z->files[0].file->path;
	char scope[8192];
	int err = 0;

	z->dir = index_text(z->ix, path, z->files[0].nr_dir);
	snprintf(scope, sizeof(scope), "%smp_rank_%02u", z->dir ? z->dir : "", z->files[0].mp);
	z->scope = index_text(z->ix, scope, strlen(scope));
	if (!z->dir || !z->scope)
		return -ENOMEM;
	for (size_t i = 0; i < z->nr_files && !err; i++) {
		z->files[i].file->taken = true;
		err = read_optim(z, z->files[i].file, z->files[i].rank);
	}
	z->ranks = z->ranks > highest ? z->ranks : highest + 1;
	if (!err)
		err = note_missing(z);
	if (!err)
		err = describe(z);
	free(z->flats);
	return err;
}

int read_zero(struct index *ix, struct tree *t)
{
	struct file *optims, *models = NULL;
	size_t nr, nr_models = 0;
	int err = gather(t, OPTIM, &optims, &nr);

	if (!err && nr)
		err = gather(t, MODEL, &models, &nr_models);
	for (size_t i = 0, n; i < nr && !err; i += n) {
		struct zero z = {.ix = ix, .tree = t, .files = optims + i, .models = models};

		for (n = 1; i + n < nr && !compare_group(&optims[i], &optims[i + n]); n++)
			;
		z.nr_files = n;
		z.nr_models = nr_models;
		err = read_group(&z);
	}
	free(models);
	free(optims);
	return err;
}
