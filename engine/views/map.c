/* SPDX-License-Identifier: MIT */
/*
 * A map says which tensors there are under other names, and of what they are put together. It is a
 * JSON object:
 *
 *	tensors	rules, each an object (below)
 *	numbers	names of numbers that config.json lacks (numbers.h); may be left out
 *	drop	patterns of names (fnmatch) that are not shown, and not missed; may be left out
 *	about	a text for readers
 *
 * and a rule is
 *
 *	from	a pattern of names (names.h), or several: the tensors of these are joined
 *	to	the name that comes of it
 *	unstack	a word: the first axis is taken apart, and the word stands for the place in it
 *	dim	the axis that the words below are about; 0 if left out
 *	cut	the lengths that this axis is cut into, each a number; one may be null
 *	take	[axis, from, to] of what was cut: only that range
 *	join	the axis of what was cut by which several are joined; 0 if left out
 *	order	the axes of what was cut, in another order
 *
 * What was cut is one axis again at the end. So [q, k, v] that lie in groups of heads are taken
 * apart by cut ["groups", "q + 2", null] and take [1, 0, "q"].
 */
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/tensors/types.h"
#include "engine/views/making.h"
#include "engine/views/names.h"
#include "engine/views/numbers.h"

#define RULES_MAX 256
#define FROM_MAX  64
#define CUT_MAX	  8
#define AXES_MAX  (TYPE_DIMS + CUT_MAX)
#define NAME_LEN  1024
#define MADE_MAX  300000 /* tensors and parts of them: their memory is the daemon's */

struct rule {
	const char *from[FROM_MAX];
	unsigned nr_from, nr_cut;
	const char *to, *unstack;
	json_int_t dim, join;
	const json_t *cut[CUT_MAX];
	const json_t *take; /* or NULL */
	unsigned order[CUT_MAX];
	/* The numbers of cut and take, read when they are first needed. */
	bool counted;
	uint64_t lengths[CUT_MAX], range[2];
	char why[NUMBERS_WHY]; /* not empty: what is wrong with them */
};

struct mapping {
	struct making *m;
	json_t *map, *config;
	struct numbers numbers;
	struct view_tensor *from; /* the tensors before the map */
	size_t nr_from, room, made;
	bool *used;
	struct rule rule;
	size_t nr_rule;
};

/* --- a rule --- */

static int wrong(struct mapping *g, const char *what)
{
	return making_refuse(g->m, "the map %s, rule %zu: %s", g->m->v->spec.map, g->nr_rule, what);
}

/* Reads a text, or a list of them. False: it is neither. */
static bool read_from(struct rule *r, const json_t *from)
{
	size_t i;
	const json_t *one;

	if (json_is_string(from)) {
		r->from[r->nr_from++] = json_string_value(from);
		return true;
	}
	if (!json_is_array(from) || !json_array_size(from) || json_array_size(from) > FROM_MAX)
		return false;
	json_array_foreach (from, i, one) {
		if (!json_is_string(one))
			return false;
		r->from[r->nr_from++] = json_string_value(one);
	}
	return true;
}

static const char *read_cut(struct rule *r, const json_t *cut, const json_t *order)
{
	unsigned seen = 0, unknown = 0;
	const json_t *one;
	size_t i;

	r->nr_cut = 1;
	if (cut && (!json_is_array(cut) || !json_array_size(cut) || json_array_size(cut) > CUT_MAX))
		return "cut is no list of 1 to 8 lengths";
	if (cut)
		r->nr_cut = (unsigned)json_array_size(cut);
	json_array_foreach (cut, i, one) {
		r->cut[i] = json_is_null(one) ? NULL : one;
		unknown += json_is_null(one);
	}
	if (unknown > 1)
		return "cut has more than one null";
	for (unsigned k = 0; k < r->nr_cut; k++)
		r->order[k] = k;
	if (order && (!json_is_array(order) || json_array_size(order) != r->nr_cut))
		return "order does not have the axes of cut";
	json_array_foreach (order, i, one) {
		json_int_t axis = json_is_integer(one) ? json_integer_value(one) : -1;

		if (axis < 0 || axis >= r->nr_cut || seen & 1u << axis)
			return "order does not have each axis of cut once";
		seen |= 1u << axis;
		r->order[i] = (unsigned)axis;
	}
	return NULL;
}

/* What is wrong with the words of a rule; NULL: nothing. */
static const char *read_words(struct rule *r, json_t *o)
{
	static const char *const words[] = {"from", "to",   "unstack", "dim",  "cut",
					    "take", "join", "order",   "about"};
	const char *key, *problem;
	json_t *value;

	json_object_foreach (o, key, value) {
		size_t i = 0;

		while (i < ARRAY_SIZE(words) && strcmp(words[i], key) != 0)
			i++;
		if (i == ARRAY_SIZE(words))
			return "it has another word than from, to, unstack, dim, cut, take, join, "
			       "order and about";
	}
	if (!read_from(r, json_object_get(o, "from")))
		return "from is no name, nor a list of 1 to 64 names";
	r->to = json_string_value(json_object_get(o, "to"));
	if (!r->to)
		return "to is no name";
	for (unsigned i = 0; i < r->nr_from; i++)
		if (!pattern_ok(r->from[i]))
			return "a '{' in from has no word and '}'";
	if (!pattern_ok(r->to))
		return "a '{' in to has no word and '}'";
	value = json_object_get(o, "unstack");
	r->unstack = json_string_value(value);
	if (value && (!r->unstack || !*r->unstack))
		return "unstack is no word";
	problem = read_cut(r, json_object_get(o, "cut"), json_object_get(o, "order"));
	if (problem)
		return problem;
	r->take = json_object_get(o, "take");
	if (r->take && (!json_is_array(r->take) || json_array_size(r->take) != 3))
		return "take is not [axis, from, to]";
	return NULL;
}

static int read_rule(struct mapping *g, json_t *o)
{
	const json_t *dim, *join, *axis;
	const char *problem;

	g->rule = (struct rule){0};
	problem = json_is_object(o) ? read_words(&g->rule, o) : "it is no object";
	if (problem)
		return wrong(g, problem);
	dim = json_object_get(o, "dim");
	join = json_object_get(o, "join");
	axis = json_array_get(g->rule.take, 0);
	g->rule.dim = json_integer_value(dim);
	g->rule.join = json_integer_value(join);
	if ((dim && !json_is_integer(dim)) || g->rule.dim < 0 || g->rule.dim >= TYPE_DIMS)
		return wrong(g, "dim is no axis");
	if ((join && !json_is_integer(join)) || g->rule.join < 0 || g->rule.join >= g->rule.nr_cut)
		return wrong(g, "join is no axis of cut");
	if (axis && (!json_is_integer(axis) || json_integer_value(axis) < 0 ||
		     json_integer_value(axis) >= g->rule.nr_cut))
		return wrong(g, "take has no axis of cut");
	return 0;
}

/* --- a tensor of it --- */

/* A source: its axes are those before dim, what dim is cut into, and those behind. */
struct piece {
	const struct view_tensor *t;
	uint64_t at;		/* the byte of its first element, after unstack and take */
	uint64_t length;	/* of dim */
	uint64_t cut[CUT_MAX];	/* lengths, after take */
	uint64_t step[CUT_MAX]; /* bytes */
};

/* What is made of them: shape is after unstack. */
struct target {
	struct piece list[FROM_MAX];
	unsigned ndim, element;
	const uint64_t *shape; /* of the first source */
	uint64_t cut[CUT_MAX]; /* after join */
};

/*
 * Says why the tensor @name cannot be made, if it is asked for. A name with words in it stands for
 * several.
 */
static bool cannot(struct mapping *g, const char *name, const char *why)
{
	if (!strchr(name, '{') && !view_spec_wants_name(&g->m->v->spec, name))
		return false;
	making_tell(g->m, name, "the map %s, rule %zu: %s", g->m->v->spec.map, g->nr_rule, why);
	return false;
}

/* Reads the numbers of the rule. NULL, or what is wrong with them. */
static const char *count(struct mapping *g)
{
	struct rule *r = &g->rule;
	bool ok = true;

	for (unsigned i = 0; i < r->nr_cut && ok && !r->counted; i++)
		ok = !r->cut[i] || number_of(&g->numbers, r->cut[i], &r->lengths[i], r->why);
	for (unsigned i = 0; i < 2 && r->take && ok && !r->counted; i++)
		ok = number_of(&g->numbers, json_array_get(r->take, i + 1), &r->range[i], r->why);
	r->counted = true;
	return *r->why ? r->why : NULL;
}

/* The lengths that dim is cut into. */
static bool cut_dim(struct mapping *g, const char *name, struct piece *p)
{
	const struct rule *r = &g->rule;
	char why[NUMBERS_WHY];
	int unknown = -1;
	uint64_t product = 1;

	for (unsigned i = 0; i < r->nr_cut; i++) {
		if (!r->cut[i]) {
			unknown = (int)i;
			continue;
		}
		p->cut[i] = r->lengths[i];
		if (!p->cut[i] || __builtin_mul_overflow(product, p->cut[i], &product))
			return cannot(g, name, "a length that it is cut into is 0, or too large");
	}
	snprintf(why, sizeof(why), "its length %" PRIu64 " cannot be cut like that", p->length);
	if (unknown < 0 ? product != p->length : p->length % product != 0)
		return cannot(g, name, why);
	if (unknown >= 0)
		p->cut[unknown] = p->length / product;
	return true;
}

static bool take_range(struct mapping *g, const char *name, struct piece *p)
{
	uint64_t from = g->rule.range[0], to = g->rule.range[1];
	uint64_t axis = (uint64_t)json_integer_value(json_array_get(g->rule.take, 0));
	char why[NUMBERS_WHY];

	snprintf(why, sizeof(why),
		 "it takes %" PRIu64 " to %" PRIu64 " of an axis that has %" PRIu64, from, to,
		 p->cut[axis]);
	if (from >= to || to > p->cut[axis])
		return cannot(g, name, why);
	p->at += from * p->step[axis];
	p->cut[axis] = to - from;
	return true;
}

/* Fills what @t becomes as a source: @at is where its part begins, if it was unstacked. */
static bool make_piece(struct mapping *g, const char *name, const struct target *x, struct piece *p,
		       uint64_t at)
{
	uint64_t step = x->element;

	p->at = at;
	p->length = x->shape[g->rule.dim];
	if (!cut_dim(g, name, p))
		return false;
	for (unsigned d = x->ndim; d-- > (unsigned)g->rule.dim + 1;)
		step *= x->shape[d];
	for (unsigned i = g->rule.nr_cut; i-- > 0;) {
		p->step[i] = step;
		step *= p->cut[i];
	}
	return !g->rule.take || take_range(g, name, p);
}

/* The lengths after join. */
static bool join_pieces(struct mapping *g, const char *name, struct target *x)
{
	const struct rule *r = &g->rule;

	memcpy(x->cut, x->list[0].cut, sizeof(x->cut));
	for (unsigned k = 1; k < r->nr_from; k++)
		for (unsigned i = 0; i < r->nr_cut; i++)
			if ((json_int_t)i == r->join &&
			    !__builtin_add_overflow(x->cut[i], x->list[k].cut[i], &x->cut[i]))
				continue;
			else if (x->cut[i] != x->list[k].cut[i])
				return cannot(g, name, "what it joins has different lengths");
	return true;
}

/* The parts of the new array, whose axes are those before dim, the cut ones in order, the rest. */
static int add_parts(struct mapping *g, const struct target *x, struct array *a)
{
	const struct rule *r = &g->rule;
	struct array_axis axes[AXES_MAX];
	uint64_t inner = x->element, row = 1, step, shift = 0, join_step = 0;
	unsigned dim = (unsigned)r->dim, nr;
	int err = 0;

	for (unsigned d = dim + 1; d < x->ndim; d++)
		inner *= x->shape[d];
	for (unsigned i = 0; i < r->nr_cut; i++)
		row *= x->cut[i];
	for (unsigned k = 0; k < r->nr_from && !err; k++) {
		const struct piece *p = &x->list[k];
		uint64_t from = inner * p->length, to = inner * row;

		for (unsigned d = dim; d-- > 0;) {
			axes[d] = (struct array_axis){x->shape[d], from, to};
			from *= x->shape[d];
			to *= x->shape[d];
		}
		step = inner;
		for (unsigned i = r->nr_cut; i-- > 0;) {
			unsigned axis = r->order[i];

			axes[dim + i] = (struct array_axis){p->cut[axis], p->step[axis], step};
			join_step = axis == (unsigned)r->join ? step : join_step;
			step *= x->cut[axis];
		}
		nr = dim + r->nr_cut;
		step = inner;
		for (unsigned d = dim + 1; d < x->ndim; d++) {
			step /= x->shape[d];
			axes[nr++] = (struct array_axis){x->shape[d], step, step};
		}
		if (p->t->array) /* else it has no bytes */
			err = array_add_part(a, p->t->array, p->at, shift, x->element, axes, nr);
		shift += p->cut[r->join] * join_step;
	}
	return err;
}

static struct view_tensor *add_tensor(struct mapping *g)
{
	struct making *m = g->m;
	struct view_tensor *more;
	size_t room = g->room ? g->room * 2 : 64;

	if (m->nr == g->room) {
		more = reallocarray(m->tensors, room, sizeof(*more));
		if (!more)
			return NULL;
		m->tensors = more;
		g->room = room;
	}
	return memset(&m->tensors[m->nr++], 0, sizeof(*m->tensors));
}

/* True if the rule changes no more than names. */
static bool only_renames(const struct rule *r, const struct target *x)
{
	return r->nr_from == 1 && !r->unstack && !r->take && (r->nr_cut == 1 || !x->ndim);
}

static int make_tensor(struct mapping *g, const char *name, const struct target *x)
{
	const struct view_tensor *first = x->list[0].t;
	struct view_tensor *t;
	struct array *a = NULL;
	uint64_t *shape;
	int err = 0;

	if (making_name_problem(name)) {
		cannot(g, name, making_name_problem(name));
		return 0;
	}
	t = add_tensor(g);
	if (!t)
		return -ENOMEM;
	*t = *first;
	t->name = making_text(g->m, name);
	if (only_renames(&g->rule, x))
		return t->name ? 0 : -ENOMEM;
	shape = making_alloc(g->m, (x->ndim + 1) * sizeof(*shape));
	if (!t->name || !shape)
		return -ENOMEM;
	memcpy(shape, x->shape, x->ndim * sizeof(*shape));
	if (x->ndim)
		shape[g->rule.dim] = 1;
	for (unsigned i = 0; i < g->rule.nr_cut && x->ndim; i++)
		shape[g->rule.dim] *= x->cut[i];
	t->t = NULL;
	t->shape = shape;
	t->ndim = x->ndim;
	t->bytes = x->element;
	for (unsigned d = 0; d < x->ndim; d++)
		t->bytes *= shape[d];
	if (t->bytes)
		err = array_joined(&a, &g->m->v->arrays, t->bytes, g->rule.nr_from);
	t->array = a;
	if (a && x->ndim)
		return add_parts(g, x, a);
	return a && !err ? array_add_part(a, first->array, x->list[0].at, 0, x->element, NULL, 0)
			 : err;
}

/* Makes the tensor @name of the sources, from which the @nr-th of the first axis is taken. */
static int make_one(struct mapping *g, const char *name, struct target *x, uint64_t nr)
{
	const struct view_tensor *first = x->list[0].t;
	unsigned skip = g->rule.unstack != NULL;

	if (count(g)) {
		cannot(g, name, g->rule.why);
		return 0;
	}
	if (first->ndim == skip && (g->rule.nr_cut > 1 || g->rule.take || g->rule.nr_from > 1)) {
		cannot(g, name, "it has no axis that could be cut, taken from or joined");
		return 0;
	}
	x->ndim = first->ndim - skip;
	x->shape = first->shape + skip;
	if (g->rule.dim >= (x->ndim ? x->ndim : 1)) {
		cannot(g, name, "it has no such dim");
		return 0;
	}
	for (unsigned k = 0; k < g->rule.nr_from && x->ndim; k++) {
		const struct view_tensor *t = x->list[k].t;
		uint64_t at = skip ? nr * (t->bytes / t->shape[0]) : 0;
		struct target own = *x;

		own.shape = t->shape + skip;
		if (!make_piece(g, name, &own, &x->list[k], at))
			return 0;
	}
	if (!x->ndim)
		x->list[0].at = nr * x->element;
	if (x->ndim && !join_pieces(g, name, x))
		return 0;
	return make_tensor(g, name, x);
}

/* True if they can be joined, as far as their types and other axes say. */
static bool alike(const struct rule *r, const struct view_tensor *a, const struct view_tensor *b)
{
	unsigned dim = (unsigned)r->dim + (r->unstack != NULL);

	if (a->ndim != b->ndim || strcmp(a->dtype, b->dtype) != 0 || a->ndim <= dim)
		return false;
	for (unsigned d = 0; d < a->ndim; d++)
		if (d != dim && a->shape[d] != b->shape[d])
			return false;
	return true;
}

static int by_name(const void *key, const void *tensor)
{
	return strverscmp(key, ((const struct view_tensor *)tensor)->name);
}

/* Finds what else the rule joins. False: it has said what is wrong. */
static bool find_others(struct mapping *g, const char *name, const struct called *called,
			struct target *x)
{
	char other[NAME_LEN] = "", why[NAME_LEN + 64];

	for (unsigned k = 1; k < g->rule.nr_from; k++) {
		const struct view_tensor *t = NULL;

		if (pattern_fill(g->rule.from[k], called, other, sizeof(other)))
			t = bsearch(other, g->from, g->nr_from, sizeof(*t), by_name);
		snprintf(why, sizeof(why), "there is no '%s' that can be shown", other);
		if (!t)
			return cannot(g, name, why);
		if (t->problem)
			return cannot(g, name, t->problem);
		if (!alike(&g->rule, x->list[0].t, t))
			return cannot(g, name, "what it joins has other types or lengths");
		g->used[t - g->from] = true;
		x->list[k].t = t;
	}
	return true;
}

static int apply_to(struct mapping *g, const struct view_tensor *first, struct called *called)
{
	const struct rule *r = &g->rule;
	struct target x = {.list[0].t = first, .element = type_bits(first->dtype) / 8};
	uint64_t nr = r->unstack && first->ndim ? first->shape[0] : 1;
	char name[NAME_LEN], place[32];
	int err = 0;

	g->used[first - g->from] = true;
	/* What it would be called, or something of the kind. */
	if (r->unstack || !pattern_fill(r->to, called, name, sizeof(name)))
		snprintf(name, sizeof(name), "%s", r->to);
	if (first->problem || (r->unstack && !first->ndim)) {
		cannot(g, name, first->problem ? first->problem : "it has no axis to unstack");
		return 0;
	}
	if (!find_others(g, name, called, &x))
		return 0;
	for (uint64_t i = 0; i < nr && !err; i++) {
		struct called now = *called;

		snprintf(place, sizeof(place), "%" PRIu64, i);
		g->made += r->nr_from * r->nr_cut;
		if (g->made > MADE_MAX)
			return making_refuse(g->m, "the map %s makes too many tensors",
					     g->m->v->spec.map);
		if ((r->unstack && !pattern_call(&now, r->unstack, place)) ||
		    !pattern_fill(r->to, &now, name, sizeof(name)))
			return wrong(g,
				     "a word of to is not in from, or a name is longer than 1023");
		err = make_one(g, name, &x, i);
	}
	return err;
}

/* --- all of it --- */

static int apply_rule(struct mapping *g)
{
	struct called called;
	int err = 0;

	for (size_t i = 0; i < g->nr_from && !err; i++) {
		if (!index_spend(g->m->v->ix, 1))
			return making_refuse(g->m, "the map %s takes too long", g->m->v->spec.map);
		if (pattern_matches(g->rule.from[0], g->from[i].name, &called))
			err = apply_to(g, &g->from[i], &called);
	}
	return err;
}

static bool is_dropped(const json_t *drop, const char *name)
{
	const json_t *one;
	size_t i;

	json_array_foreach (drop, i, one)
		if (json_is_string(one) && !fnmatch(json_string_value(one), name, 0))
			return true;
	return false;
}

/* What is wrong beside the rules; NULL: nothing. */
static const char *problem_of_map(json_t *map)
{
	const json_t *drop = json_object_get(map, "drop"),
		     *numbers = json_object_get(map, "numbers");
	const char *key;
	json_t *value;
	size_t i;

	json_object_foreach (map, key, value)
		if (strcmp(key, "tensors") && strcmp(key, "drop") && strcmp(key, "numbers") &&
		    strcmp(key, "about"))
			return "it has another word than tensors, numbers, drop and about";
	if (numbers && !json_is_object(numbers))
		return "numbers is no object";
	if (drop && !json_is_array(drop))
		return "drop is no list of patterns";
	json_array_foreach (drop, i, value)
		if (!json_is_string(value))
			return "drop is no list of patterns";
	return NULL;
}

static int apply(struct mapping *g)
{
	const json_t *rules = json_object_get(g->map, "tensors");
	const json_t *drop = json_object_get(g->map, "drop");
	const char *problem = problem_of_map(g->map);
	json_t *one;
	size_t i;
	int err = 0;

	if (problem)
		return making_refuse(g->m, "the map %s: %s", g->m->v->spec.map, problem);
	if (!json_is_array(rules) || !json_array_size(rules) || json_array_size(rules) > RULES_MAX)
		return making_refuse(g->m, "the map %s: tensors is no list of 1 to 256 rules",
				     g->m->v->spec.map);
	json_array_foreach (rules, i, one) {
		g->nr_rule = i + 1;
		err = read_rule(g, one);
		if (!err)
			err = apply_rule(g);
		if (err)
			return err;
	}
	for (i = 0; i < g->nr_from; i++)
		if (!g->used[i] && is_dropped(drop, g->from[i].name))
			making_note(g->m, g->from[i].name, "the map drops it");
		else if (!g->used[i] && !g->m->v->spec.nr_only)
			making_tell(g->m, g->from[i].name, "no rule of the map %s has it",
				    g->m->v->spec.map);
	return 0;
}

static void choose_names(struct making *m)
{
	size_t nr = 0;

	for (size_t i = 0; i < m->nr; i++)
		if (view_spec_wants_name(&m->v->spec, m->tensors[i].name))
			m->tensors[nr++] = m->tensors[i];
	m->nr = nr;
}

int view_map(struct making *m)
{
	struct mapping g = {.m = m, .from = m->tensors, .nr_from = m->nr};
	int err = making_json(m, m->v->spec.map, "map", false, &g.map);

	if (!err)
		err = making_json(m, "config", "file", true, &g.config);
	g.numbers = (struct numbers){g.config, json_object_get(g.map, "numbers")};
	g.used = calloc(g.nr_from + 1, sizeof(*g.used));
	m->tensors = NULL;
	m->nr = 0;
	if (!err)
		err = g.used ? apply(&g) : -ENOMEM;
	if (!err && !*m->v->spec.layout)
		choose_names(m);
	if (!err)
		err = making_sort(m, "the map gives it to more than one");
	json_decref(g.map);
	json_decref(g.config);
	free(g.used);
	free(g.from);
	return err;
}
