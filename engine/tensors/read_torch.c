/* SPDX-License-Identifier: MIT */
/*
 * Files of torch.save that say nothing of one another: each tensor is whole. Its name is the way to
 * it through dicts, lists and attributes, joined by dots.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/tensors/read.h"
#include "engine/tensors/torch.h"

#define DEPTH_MAX 32
#define WAY_MAX	  2048
#define SEEN_MAX  1000000 /* nodes: what is shared is walked through once for each way to it */

struct walk {
	struct index *ix;
	struct torch_file *tf;
	const char *path, *scope;
	char name[WAY_MAX];
	size_t nr_seen; /* containers, objects and tensors */
	bool gave_up;	/* not all of it was looked at */
};

static int add_tensor(struct walk *w, const struct torch_tensor *tt)
{
	struct index_piece piece = {.path = w->path, .at = tt->at, .bytes = tt->bytes};
	struct index_tensor *t;
	int err = index_add(w->ix, w->scope, w->name, tt->dtype, tt->ndim, tt->shape, &t);

	if (err == -EEXIST || (!err && t->pieces))
		return index_add_opaque(w->ix, w->path, w->name,
					"the file has two tensors of this name");
	if (err)
		return err;
	t->requires_grad = tt->requires_grad;
	if (t->part == PART_MODEL) /* optimizer.pt may name nothing so */
		t->part = index_part_of(path_name(w->path));
	return index_add_piece(w->ix, t, &piece);
}

static int walk(struct walk *w, pickle_ref r, size_t len, unsigned depth);

/*
 * The parts that a file has of a tensor that is spread over ranks. It does not say which rank it is
 * of, so these are tensors of their own, and not that of the name.
 */
static int walk_local_parts(struct walk *w, pickle_ref r, size_t len, unsigned depth)
{
	pickle_ref local;
	int err = 0;

	for (size_t i = 0; !err && (local = torch_local_part(w->tf, r, i)); i++) {
		char suffix[40] = TORCH_LOCAL_PART;
		size_t suffix_len;

		if (i)
			snprintf(suffix, sizeof(suffix), " (local part %zu)", i);
		suffix_len = strlen(suffix);
		if (len + suffix_len >= sizeof(w->name)) {
			w->gave_up = true;
			return 0;
		}
		memcpy(w->name + len, suffix, suffix_len);
		err = walk(w, local, len + suffix_len, depth + 1);
	}
	return err;
}

/* Goes on with @r, whose name in its parent is @step. */
static int walk_step(struct walk *w, pickle_ref r, size_t len, const char *step, size_t step_len,
		     unsigned depth)
{
	size_t dot = len ? 1 : 0;

	if (len + dot + step_len >= sizeof(w->name)) {
		w->gave_up = true;
		return 0;
	}
	if (dot)
		w->name[len] = '.';
	memcpy(w->name + len + dot, step, step_len);
	w->name[len + dot + step_len] = '\0';
	return walk(w, r, len + dot + step_len, depth + 1);
}

/* The text of a key: a text, or a number. NULL: another. */
static const char *key_text(const struct pickle *p, pickle_ref key, char *buf, size_t size,
			    size_t *len)
{
	const char *text = pickle_text(p, key, len);
	int64_t n;

	if (text)
		return memchr(text, '\0', *len) ? NULL : text;
	if (!pickle_int(p, key, &n))
		return NULL;
	*len = (size_t)snprintf(buf, size, "%" PRId64, n);
	return buf;
}

static int walk_pairs(struct walk *w, pickle_ref r, size_t len, unsigned depth)
{
	const struct pickle *p = w->tf->pickle;
	int err = 0;

	for (size_t i = 0; i < pickle_nr_pairs(p, r) && !err; i++) {
		char number[24];
		size_t step_len;
		const char *step =
			key_text(p, pickle_key(p, r, i), number, sizeof(number), &step_len);

		if (step)
			err = walk_step(w, pickle_value(p, r, i), len, step, step_len, depth);
	}
	return err;
}

static int walk_items(struct walk *w, pickle_ref r, size_t len, unsigned depth)
{
	const struct pickle *p = w->tf->pickle;
	int err = 0;

	for (size_t i = 0; i < pickle_nr(p, r) && !err; i++) {
		char number[24];
		int n = snprintf(number, sizeof(number), "%zu", i);

		err = walk_step(w, pickle_item(p, r, i), len, number, (size_t)n, depth);
	}
	return err;
}

/* An object: what it was called with tells nothing of names, so only its parts are looked at. */
static int walk_object(struct walk *w, pickle_ref r, size_t len, unsigned depth)
{
	const struct pickle *p = w->tf->pickle;
	pickle_ref state = pickle_state(p, r);
	int err = walk_pairs(w, r, len, depth);

	if (!err)
		err = walk_items(w, pickle_appended(p, r), len, depth);
	if (!err && pickle_is_dict(p, state))
		err = walk_pairs(w, state, len, depth);
	return err;
}

static int walk(struct walk *w, pickle_ref r, size_t len, unsigned depth)
{
	const struct pickle *p = w->tf->pickle;
	const char *why = "";
	struct torch_tensor tt;
	int err;

	w->name[len] = '\0';
	if (depth > DEPTH_MAX || w->nr_seen > SEEN_MAX) {
		w->gave_up = true;
		return 0;
	}
	switch (pickle_kind(p, r)) {
	case PICKLE_DICT:
		w->nr_seen++;
		return walk_pairs(w, r, len, depth);
	case PICKLE_LIST:
	case PICKLE_TUPLE:
		w->nr_seen++;
		return walk_items(w, r, len, depth);
	case PICKLE_CALL:
	case PICKLE_ID:
		w->nr_seen++;
		if (torch_local_part(w->tf, r, 0))
			return walk_local_parts(w, r, len, depth);
		err = torch_tensor(w->tf, r, &tt, &why);
		if (!err)
			return add_tensor(w, &tt);
		if (read_is_format(err))
			return index_add_opaque(w->ix, w->path, w->name, "%s", why);
		return err == 1 ? walk_object(w, r, len, depth) : err;
	default:
		return 0;
	}
}

static int read_one(struct index *ix, struct tree *t, struct tree_file *f)
{
	__cleanup_free struct torch_file *tf = calloc(1, sizeof(*tf));
	__cleanup_free struct walk *w = calloc(1, sizeof(*w));
	const struct index_opaque *last;
	const char *why = "";
	size_t nr;
	int err = tf && w ? torch_open(tf, t, f, 0, f->size, &why) : -ENOMEM;

	if (err)
		return read_is_format(err) ? index_add_missing(ix, f->path, "", "%s", why) : err;
	*w = (struct walk){.ix = ix, .tf = tf, .path = f->path, .scope = read_scope(t, f)};
	nr = ix->nr;
	last = ix->last_opaque;
	err = walk(w, pickle_root(tf->pickle), 0, 0);
	torch_close(tf);
	if (!err && w->gave_up)
		err = index_add_opaque(ix, f->path, "",
				       "a part of it is too deep or too large to be looked at");
	if (!err && t->single && ix->nr == nr && ix->last_opaque == last)
		err = index_add_opaque(ix, f->path, "", "it holds no tensor");
	return err;
}

static bool is_zip(struct tree *t, const struct tree_file *f)
{
	char head[4] = "";
	struct tree_part p;

	tree_part(&p, t, f, 0, f->size);
	return !tree_read(&p, head, sizeof(head), 0) && !memcmp(head, "PK\3\4", 4);
}

int read_torch(struct index *ix, struct tree *t)
{
	int err = 0;

	for (size_t i = 0; i < t->nr && !err; i++) {
		struct tree_file *f = &t->list[i];

		/* A single file was asked for by name. */
		if (f->taken || !(t->single || read_has_torch_name(f->path)) || !is_zip(t, f))
			continue;
		f->taken = true;
		err = read_one(ix, t, f);
	}
	return err;
}
