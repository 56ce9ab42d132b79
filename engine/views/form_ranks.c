/* SPDX-License-Identifier: MIT */
/*
 * A file for each rank of another parallelism: "rank-00003.safetensors" has the slices of rank 3. A
 * layout says who has what. It is a JSON object whose "tensors" are rules; the first one whose
 * pattern is that of the name counts:
 *
 *	match	a pattern of names (fnmatch)
 *	tp	the axis that the ranks of a layer share, in equal parts; left out: each has all
 *	of	a number (numbers.h): that axis is so many equal parts, none of which is cut
 *	dp	the axis that the replicas share, as torch.chunk does, after tp; left out: each has all
 *	pp	"layer": the stage that the first number in its name falls into; "first", "last"; left
 *		out: each stage has it
 *	about	a text for readers, also beside "tensors"
 *
 * Ranks are counted as Megatron does: tp first, then dp, then pp.
 */
#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/tensors/types.h"
#include "engine/views/making.h"
#include "engine/views/numbers.h"

#define RULES_MAX   256
#define ENTRIES_MAX 500000 /* tensors of all ranks: their memory is the daemon's */

/* A tensor, and its slices for all ranks of a stage. */
struct shared {
	const struct view_tensor *t;
	int tp, dp; /* axes; -1: each rank has all */
	enum { EACH_STAGE, FIRST_STAGE, LAST_STAGE, LAYER_STAGE } stage;
	uint64_t layer;
	struct view_tensor *slices; /* [tp][dp]; one if the axis is -1 */
};

struct dealing {
	struct making *m;
	json_t *layout, *config;
	struct numbers numbers;
	struct shared *list;
	size_t nr;
	uint64_t nr_layers;
};

/* --- the layout --- */

static int wrong(struct dealing *g, size_t rule, const char *what)
{
	return making_refuse(g->m, "the layout %s, rule %zu: %s", g->m->v->spec.layout, rule + 1,
			     what);
}

static bool is_axis(const json_t *value)
{
	return !value || (json_is_integer(value) && json_integer_value(value) >= 0 &&
			  json_integer_value(value) < TYPE_DIMS);
}

static int check_rule(struct dealing *g, size_t nr, json_t *rule)
{
	static const char *const words[] = {"match", "tp", "of", "dp", "pp", "about"};
	const char *key, *stage = json_get_text(rule, "pp", "layer");
	json_t *value;

	if (!json_is_string(json_object_get(rule, "match")))
		return wrong(g, nr, "it is no object with a match");
	json_object_foreach (rule, key, value) {
		size_t i = 0;

		while (i < ARRAY_SIZE(words) && strcmp(words[i], key) != 0)
			i++;
		if (i == ARRAY_SIZE(words))
			return wrong(g, nr,
				     "it has another word than match, tp, of, dp, pp and about");
	}
	if (!is_axis(json_object_get(rule, "tp")) || !is_axis(json_object_get(rule, "dp")))
		return wrong(g, nr, "tp or dp is no axis");
	value = json_object_get(rule, "pp");
	if ((value && !json_is_string(value)) ||
	    (strcmp(stage, "layer") && strcmp(stage, "first") && strcmp(stage, "last")))
		return wrong(g, nr, "pp is not layer, first or last");
	return 0;
}

static int check_layout(struct dealing *g)
{
	const json_t *rules = json_object_get(g->layout, "tensors");
	json_t *one;
	size_t i;
	int err = 0;

	if (!json_is_array(rules) || !json_array_size(rules) || json_array_size(rules) > RULES_MAX)
		return making_refuse(g->m, "the layout %s: tensors is no list of 1 to 256 rules",
				     g->m->v->spec.layout);
	json_array_foreach (rules, i, one) {
		err = check_rule(g, i, one);
		if (err)
			break;
	}
	return err;
}

static const json_t *rule_of(const struct dealing *g, const char *name)
{
	const json_t *rules = json_object_get(g->layout, "tensors"), *one;
	size_t i;

	json_array_foreach (rules, i, one)
		if (!fnmatch(json_get_text(one, "match", ""), name, 0))
			return one;
	return NULL;
}

/* The first part of the name, between dots, that is a number. False: none is. */
static bool layer_of(const char *name, uint64_t *layer)
{
	for (;; name++) {
		char *end;

		if (isdigit((unsigned char)*name)) {
			*layer = strtoull(name, &end, 10);
			if ((*end == '.' || !*end) && *layer < INT32_MAX)
				return true;
		}
		name = strchr(name, '.');
		if (!name)
			return false;
	}
}

/* --- slices --- */

static bool cannot(struct dealing *g, const struct view_tensor *t, const char *why)
{
	if (!view_spec_wants_name(&g->m->v->spec, t->name))
		return false;
	making_tell(g->m, t->name, "the layout %s: %s", g->m->v->spec.layout, why);
	return false;
}

/* Finds who has the tensor. False: it has said why nobody can. */
static bool look_up(struct dealing *g, struct shared *s)
{
	const struct view_tensor *t = s->t;
	const json_t *rule = rule_of(g, t->name);
	uint64_t parts = g->m->v->spec.tp;
	const char *stage;
	char why[NUMBERS_WHY];

	if (!rule)
		return cannot(g, t, "no rule has it");
	s->tp = (int)json_get_int(rule, "tp", -1);
	s->dp = (int)json_get_int(rule, "dp", -1);
	if (s->tp >= (int)t->ndim || s->dp >= (int)t->ndim)
		return cannot(g, t, "it has no such axis");
	if (s->tp >= 0 && t->shape[s->tp] % g->m->v->spec.tp)
		return cannot(g, t, "the ranks cannot share its axis equally");
	if (s->tp >= 0 && json_object_get(rule, "of") && g->m->v->spec.tp > 1 &&
	    !number_of(&g->numbers, json_object_get(rule, "of"), &parts, why))
		return cannot(g, t, why);
	if (parts % g->m->v->spec.tp)
		return cannot(g, t, "the ranks cannot share the parts of its axis equally");
	stage = json_get_text(rule, "pp", "");
	s->stage = !strcmp(stage, "layer")   ? LAYER_STAGE
		   : !strcmp(stage, "first") ? FIRST_STAGE
		   : !strcmp(stage, "last")  ? LAST_STAGE
					     : EACH_STAGE;
	if (s->stage == LAYER_STAGE && !layer_of(t->name, &s->layer))
		return cannot(g, t, "its name has no number of a layer");
	if (s->stage == LAYER_STAGE && s->layer >= g->nr_layers)
		g->nr_layers = s->layer + 1;
	return true;
}

static unsigned parts_of(int axis, unsigned ranks)
{
	return axis < 0 ? 1 : ranks;
}

/* The range of the axis that is slice @nr of @parts, as torch.chunk has it. */
static void chunk(uint64_t length, unsigned parts, unsigned nr, uint64_t *first, uint64_t *end)
{
	uint64_t each = (length + parts - 1) / parts;

	*first = each * nr < length ? each * nr : length;
	*end = *first + each < length ? *first + each : length;
}

/* The bytes of a slice, whose first element has these places and whose shape is @shape. */
static int add_slice(struct making *m, const struct view_tensor *t, const uint64_t *first,
		     const uint64_t *shape, struct view_tensor *out)
{
	struct array_axis axes[TYPE_DIMS];
	unsigned element = type_bits(t->dtype) / 8;
	uint64_t from = element, to = element, at = 0;
	struct array *a;
	int err;

	for (unsigned d = t->ndim; d-- > 0;) {
		axes[d] = (struct array_axis){shape[d], from, to};
		at += first[d] * from;
		from *= t->shape[d];
		to *= shape[d];
	}
	out->bytes = to;
	out->array = NULL;
	if (!to)
		return 0;
	err = array_joined(&a, &m->v->arrays, to, 1);
	out->array = a;
	return err ? err : array_add_part(a, t->array, at, 0, element, axes, t->ndim);
}

static int make_slice(struct dealing *g, const struct shared *s, unsigned tp, unsigned dp,
		      struct view_tensor *out)
{
	const struct view_spec *spec = &g->m->v->spec;
	const struct view_tensor *t = s->t;
	uint64_t first[TYPE_DIMS] = {0}, from, end;
	uint64_t *shape = making_alloc(g->m, (t->ndim + 1) * sizeof(*shape));

	if (!shape)
		return -ENOMEM;
	*out = *t;
	memcpy(shape, t->shape, t->ndim * sizeof(*shape));
	out->shape = shape;
	if (s->tp >= 0) {
		chunk(shape[s->tp], spec->tp, tp, &from, &end);
		first[s->tp] += from;
		shape[s->tp] = end - from;
	}
	if (s->dp >= 0) {
		chunk(shape[s->dp], spec->dp, dp, &from, &end);
		first[s->dp] += from;
		shape[s->dp] = end - from;
	}
	return memcmp(shape, t->shape, t->ndim * sizeof(*shape))
		       ? add_slice(g->m, t, first, shape, out)
		       : 0;
}

static int make_slices(struct dealing *g, struct shared *s)
{
	unsigned tp = parts_of(s->tp, g->m->v->spec.tp), dp = parts_of(s->dp, g->m->v->spec.dp);
	int err = 0;

	s->slices = making_alloc(g->m, (size_t)tp * dp * sizeof(*s->slices));
	if (!s->slices)
		return -ENOMEM;
	for (unsigned i = 0; i < tp * dp && !err; i++)
		err = make_slice(g, s, i / dp, i % dp, &s->slices[i]);
	return err;
}

/* --- ranks --- */

static bool has(const struct dealing *g, const struct shared *s, unsigned stage)
{
	unsigned pp = g->m->v->spec.pp;

	return s->stage == EACH_STAGE || (s->stage == FIRST_STAGE && !stage) ||
	       (s->stage == LAST_STAGE && stage == pp - 1) ||
	       (s->stage == LAYER_STAGE && s->layer * pp / g->nr_layers == stage);
}

static int add_rank(struct dealing *g, unsigned rank, const struct view_tensor **list)
{
	const struct view_spec *spec = &g->m->v->spec;
	unsigned tp = rank % spec->tp, dp = rank / spec->tp % spec->dp;
	unsigned stage = rank / spec->tp / spec->dp;
	char name[32];
	size_t nr = 0;

	for (size_t i = 0; i < g->nr; i++) {
		const struct shared *s = &g->list[i];
		unsigned across = parts_of(s->dp, spec->dp);

		if (has(g, s, stage))
			list[nr++] = &s->slices[(s->tp < 0 ? 0 : tp) * across + dp % across];
	}
	snprintf(name, sizeof(name), "rank-%05u.safetensors", rank);
	return safetensors_file(g->m, &g->m->v->files[g->m->v->nr_files++], name, list, nr);
}

/* Now that all layers are counted: leaves out what is not asked for, or has no stage. */
static void drop_some(struct dealing *g)
{
	size_t nr = 0;

	for (size_t i = 0; i < g->nr; i++) {
		const struct shared *s = &g->list[i];

		if (s->stage == LAYER_STAGE && g->nr_layers % g->m->v->spec.pp)
			cannot(g, s->t, "the stages cannot share the layers equally");
		else if (view_spec_wants_name(&g->m->v->spec, s->t->name))
			g->list[nr++] = *s;
	}
	g->nr = nr;
	g->m->v->nr_tensors = nr;
}

static int deal(struct dealing *g)
{
	const struct view_spec *spec = &g->m->v->spec;
	__cleanup_free const struct view_tensor **list = calloc(g->m->nr + 1, sizeof(*list));
	unsigned ranks = spec->tp * spec->pp * spec->dp;
	int err = check_layout(g);

	g->list = calloc(g->m->nr + 1, sizeof(*g->list));
	g->m->v->files = calloc(ranks, sizeof(*g->m->v->files));
	if (!err && (!list || !g->list || !g->m->v->files))
		return -ENOMEM;
	if (!err && g->m->nr > ENTRIES_MAX / ranks)
		return making_refuse(
			g->m,
			"%u ranks of %zu tensors are too many at once: choose by only=", ranks,
			g->m->nr);
	for (size_t i = 0; i < g->m->nr && !err; i++) {
		g->list[g->nr] = (struct shared){.t = &g->m->tensors[i]};
		g->nr += look_up(g, &g->list[g->nr]);
	}
	drop_some(g);
	for (size_t i = 0; i < g->nr && !err; i++)
		err = make_slices(g, &g->list[i]);
	for (unsigned rank = 0; rank < ranks && !err; rank++)
		err = add_rank(g, rank, list);
	return err;
}

int view_form_ranks(struct making *m)
{
	struct dealing g = {.m = m};
	int err = making_json(m, m->v->spec.layout, "layout", false, &g.layout);

	if (!err)
		err = making_json(m, "config", "file", true, &g.config);
	g.numbers.config = g.config;
	if (!err)
		err = deal(&g);
	json_decref(g.layout);
	json_decref(g.config);
	free(g.list);
	return err;
}
