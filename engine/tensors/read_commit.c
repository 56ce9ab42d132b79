/* SPDX-License-Identifier: MIT */
/*
 * The tensors that the commit file of ckptfs lists: those that were saved by handle. A file that
 * has a form of its own is described by the reader of that form. Then both must agree.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/format/commit.h"
#include "engine/tensors/read.h"
#include "engine/tensors/types.h"

struct reading {
	struct index *ix;
	struct tree *tree;
	json_t *wholes; /* name -> the file that has it whole, or false: several have */
	int err;	/* of the index, not of the commit file */
};

static ssize_t read_fd(void *fd, void *buf, size_t len, uint64_t off)
{
	ssize_t n = pread(*(int *)fd, buf, len, (off_t)off);

	return n < 0 ? -errno : n;
}

/* A range of a box that is all of the tensor is a part of it. */
static bool is_whole(const struct commit_tensor *t)
{
	const char *dtype = type_of_safetensors(t->dtype, strlen(t->dtype));
	uint64_t nr, bytes;

	return !memcmp(t->length, t->shape, t->ndim * sizeof(*t->shape)) && dtype &&
	       shape_volume(t->shape, t->ndim, &nr) && type_bytes(dtype, nr, &bytes) &&
	       t->bytes == bytes;
}

static bool is_listed(const struct commit_tensor *t)
{
	return t->kind == COMMIT_TENSOR && t->shape; /* else an object, or a storage: bytes alone */
}

/* Several files may each have a whole tensor of that name: then it is not the same one. */
static int note_whole(void *arg, const struct commit_tensor *t)
{
	struct reading *r = arg;
	json_t *path;

	if (!is_listed(t) || !is_whole(t))
		return 0;
	path = json_object_get(r->wholes, t->name);
	if (path && (json_is_false(path) || !strcmp(json_string_value(path), t->path)))
		return 0;
	/* A path or a name that is no UTF-8 is not noted. */
	json_object_set_new(r->wholes, t->name, path ? json_false() : json_string(t->path));
	return 0;
}

/* The digest of the tensor, if @t is all of it and lies where the file has it. */
static int take_digest(struct reading *r, struct index_tensor *there, const struct commit_tensor *t)
{
	const struct index_piece *p = there->pieces;

	if (!t->xxh3 || there->digest || there->nr_pieces != 1 || strcmp(p->path, t->path) ||
	    p->at != t->at || p->bytes != t->bytes || p->bytes != index_bytes(there))
		return 0;
	there->digest = index_text(r->ix, t->xxh3, strlen(t->xxh3));
	return there->digest ? 0 : -ENOMEM;
}

/*
 * The file @f of @t is described by another reader: compares what both say of a tensor. Its name is
 * unique in all files, in the directory, or in the file.
 */
static int compare(struct reading *r, const struct commit_tensor *t, const struct tree_file *f)
{
	struct index_tensor *there = index_find(r->ix, read_scope(r->tree, f), t->name);

	if (!there)
		there = index_find(r->ix, f->path, t->name);
	if (!there) {
		char dir[COMMIT_PATH_MAX];

		snprintf(dir, sizeof(dir), "%.*s", (int)(path_name(f->path) - f->path), f->path);
		there = index_find(r->ix, dir, t->name);
	}
	if (!there)
		there = index_find(r->ix, "", t->name);
	if (!there || there->inferred ||
	    (!strcmp(there->dtype, t->dtype) && there->ndim == t->ndim &&
	     !memcmp(there->shape, t->shape, t->ndim * sizeof(*t->shape))))
		return there ? take_digest(r, there, t) : 0;
	return index_add_missing(r->ix, t->path, t->name,
				 "the file and the commit file disagree on its type or shape");
}

/* A box of the tensor, or a part of one, is at a place in the file. */
static int add(struct reading *r, const struct commit_tensor *t, const struct tree_file *f)
{
	const char *dtype = type_of_safetensors(t->dtype, strlen(t->dtype));
	uint64_t box[2 * COMMIT_DIMS];
	struct index_piece piece = {
		.path = t->path, .at = t->at, .bytes = t->bytes, .from = t->from, .box = box};
	bool own = is_whole(t) && json_is_false(json_object_get(r->wholes, t->name));
	struct index_tensor *tensor;
	int err;

	if (!dtype)
		return index_add_opaque(r->ix, t->path, t->name,
					"its elements have a type that ckptfs does not know");
	memcpy(box, t->offset, t->ndim * sizeof(*box));
	memcpy(box + t->ndim, t->length, t->ndim * sizeof(*box));
	if (!f)
		piece.unreachable = "is missing";
	else if (t->at > f->size || t->bytes > f->size - t->at)
		piece.unreachable = "is cut off";
	err = index_add(r->ix, own ? t->path : "", t->name, dtype, t->ndim, t->shape, &tensor);
	if (err == -EEXIST)
		return index_add_opaque(r->ix, t->path, t->name,
					"another part of it has another type or shape");
	if (!err)
		err = index_add_piece(r->ix, tensor, &piece);
	return err || piece.unreachable ? err : take_digest(r, tensor, t);
}

static int take(void *arg, const struct commit_tensor *t)
{
	struct reading *r = arg;
	struct tree_file *f = tree_find(r->tree, t->path);

	if (!is_listed(t))
		return 0;
	r->err = f && f->taken ? compare(r, t, f) : add(r, t, f);
	return r->err;
}

/* The files that only the commit file describes are taken now, after all of its lines. */
static void take_files(struct index *ix, struct tree *t, size_t nr_before)
{
	for (size_t i = nr_before; i < ix->nr; i++)
		for (const struct index_piece *p = ix->tensors[i]->pieces; p; p = p->next) {
			struct tree_file *f = tree_find(t, p->path);

			if (f)
				f->taken = true;
		}
}

int read_commit(struct index *ix, struct tree *t)
{
	__cleanup_fd int fd = openat(t->dir, COMMIT_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct source src = {.read = read_fd, .arg = &fd};
	struct reading r = {.ix = ix, .tree = t};
	size_t nr = ix->nr;
	struct error e = {0};
	int err;

	if (fd < 0 || t->single)
		return 0;
	r.wholes = json_object();
	err = r.wholes ? commit_read_tensors(&src, COMMIT_FILE, note_whole, &r, &e) : -ENOMEM;
	if (!err)
		err = commit_read_tensors(&src, COMMIT_FILE, take, &r, &e);
	json_decref(r.wholes);
	take_files(ix, t, nr);
	if (r.err)
		return r.err;
	return err == -ENOMEM ? err : err ? index_add_opaque(ix, COMMIT_FILE, "", "%s", e.text) : 0;
}

/* What a commit file says of the files of all ranks. */
struct ranks {
	struct tree *tree;
	bool *seen; /* for each rank of the job: one of the files is its */
	unsigned nr;
};

static int find_entry(void *ranks, const struct commit_entry *entry)
{
	struct ranks *r = ranks;
	const struct tree_file *f = tree_find(r->tree, entry->path);

	if (entry->rank >= 0 && (unsigned)entry->rank < r->nr)
		r->seen[entry->rank] = true;
	return entry->kind == COMMIT_IS_FILE && (!f || f->size != entry->size) ? -ENOENT : 0;
}

/*
 * True if a commit file of a job of several ranks lists files of each of them, and the tree has all
 * of its files, of their sizes.
 */
static bool has_all_ranks(struct tree *t)
{
	__cleanup_fd int fd = openat(t->dir, COMMIT_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct source src = {.read = read_fd, .arg = &fd};
	struct ranks r = {.tree = t};
	struct commit_header *header = malloc(sizeof(*header));
	struct error e = {0};
	bool all = fd >= 0 && !t->single && header &&
		   !commit_read(&src, COMMIT_FILE, header, NULL, NULL, &e) && header->ranks > 1;

	if (all) {
		r.nr = header->ranks;
		r.seen = calloc(r.nr, sizeof(*r.seen));
		all = r.seen && !commit_read(&src, COMMIT_FILE, NULL, find_entry, &r, &e);
	}
	for (unsigned i = 0; i < r.nr && all; i++)
		all = r.seen[i];
	free(r.seen);
	free(header);
	return all;
}

void read_commit_shapes(struct index *ix, struct tree *t)
{
	bool sure = false;

	for (size_t i = 0; i < ix->nr && !sure; i++)
		if (ix->tensors[i]->inferred && !(sure = has_all_ranks(t)))
			return;
	for (size_t i = 0; i < ix->nr; i++)
		ix->tensors[i]->inferred &= !sure;
}
