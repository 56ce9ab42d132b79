/* SPDX-License-Identifier: MIT */
/* Which tensors of the index a view begins from. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/tensors/types.h"
#include "engine/views/making.h"

/* Why @t cannot be shown; NULL: it can. */
static const char *problem_of(const struct view *v, const struct index_tensor *t)
{
	if (t->hole)
		return t->hole;
	if (t->opaque)
		return "some of its bytes are in a form that ckptfs does not read";
	if (t->inferred && !v->spec.inferred)
		return "no file says its shape, so a part may be missing: shape=inferred shows it";
	if (type_bits(t->dtype) % 8)
		return "its elements are no whole bytes";
	if (!strcmp(t->dtype, "C32") || !strcmp(t->dtype, "C128"))
		return "safetensors has no such type of elements";
	for (unsigned i = 0; i < t->ndim; i++)
		if (t->shape[i] > INT64_MAX)
			return "its shape is too large to be true";
	return NULL;
}

/*
 * A map changes names, and a layout counts layers of all: then only= chooses from what they have
 * made.
 */
static bool wants(const struct view *v, const struct index_tensor *t, const char *name)
{
	return view_spec_wants(&v->spec, t) &&
	       (*v->spec.map || *v->spec.layout || view_spec_wants_name(&v->spec, name));
}

/* True if the tensor that has the bytes of @t, too, is shown. A map may leave that out. */
static bool shows_root(const struct view *v, const struct index_tensor *t)
{
	const struct index_tensor *root = t->alias ? index_find(v->ix, t->scope, t->alias) : NULL;
	const char *name = root ? view_spec_name(&v->spec, root) : "";

	return root && !*v->spec.map && wants(v, root, name) &&
	       view_spec_wants_name(&v->spec, name) && !problem_of(v, root) &&
	       !making_name_problem(name);
}

static void choose_one(struct making *m, const struct index_tensor *t)
{
	const char *name = view_spec_name(&m->v->spec, t), *problem = problem_of(m->v, t);

	if (!wants(m->v, t, name))
		return;
	problem = problem ? problem : making_name_problem(name);
	if (shows_root(m->v, t))
		making_note(m, name, "it has the bytes of %s, which is shown", t->alias);
	else
		m->tensors[m->nr++] = (struct view_tensor){.name = name,
							   .dtype = t->dtype,
							   .ndim = t->ndim,
							   .shape = t->shape,
							   .bytes = problem ? 0 : index_bytes(t),
							   .problem = problem,
							   .t = t};
}

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

static int gather_paths(struct making *m)
{
	struct view *v = m->v;
	size_t nr = 0, kept = 0;

	for (size_t i = 0; i < m->nr; i++)
		nr += m->tensors[i].problem ? 0 : m->tensors[i].t->nr_pieces;
	v->paths = calloc(nr + 1, sizeof(*v->paths));
	if (!v->paths)
		return -ENOMEM;
	nr = 0;
	for (size_t i = 0; i < m->nr; i++)
		for (const struct index_piece *p = m->tensors[i].t->pieces;
		     p && !m->tensors[i].problem; p = p->next)
			v->paths[nr++] = p->path;
	if (nr)
		qsort(v->paths, nr, sizeof(*v->paths), by_text);
	for (size_t i = 0; i < nr; i++)
		if (!kept || strcmp(v->paths[kept - 1], v->paths[i]))
			v->paths[kept++] = v->paths[i];
	v->nr_paths = kept;
	return 0;
}

/* Where the bytes of all are. */
static int find_bytes(struct making *m)
{
	int err = gather_paths(m);

	for (size_t i = 0; i < m->nr && !err; i++) {
		struct view_tensor *t = &m->tensors[i];
		struct array *stored = NULL;

		if (t->bytes && !t->problem)
			err = array_stored(&stored, &m->v->arrays, t->t, path_nr, m->v);
		t->array = stored;
	}
	return err;
}

int view_choose(struct making *m)
{
	const struct index *ix = m->v->ix;

	m->tensors = calloc(ix->nr + 1, sizeof(*m->tensors));
	if (!m->tensors)
		return -ENOMEM;
	for (size_t i = 0; i < ix->nr; i++)
		choose_one(m, ix->tensors[i]);
	for (const struct index_opaque *o = ix->opaque; o; o = o->next)
		if (o->missing && !*o->name) /* a file, and not an object in one */
			making_tell(m, o->path, "%s", o->reason);
		else
			making_note(m, o->path, "%s%s%s", o->name, *o->name ? ": " : "", o->reason);
	return making_sort(m, "choose one by scope=") ? -ENOMEM : find_bytes(m);
}
