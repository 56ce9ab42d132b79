/* SPDX-License-Identifier: MIT */
/* Validity checks of commit files, which the writer and the reader share. */
#include "engine/format/commit.h"

#include <jansson.h>
#include <limits.h>
#include <string.h>

/* Checks one component: the first @len bytes of @name. */
static const char *name_problem(const char *name, size_t len)
{
	if (!len)
		return "a path with an empty name in it";
	if ((len == 1 && name[0] == '.') || (len == 2 && name[0] == '.' && name[1] == '.'))
		return "a path with '.' or '..' in it";
	if (len > NAME_MAX)
		return "a path with a name that is too long";
	if (name_is_reserved(name))
		return "a path with a name that ckptfs keeps for itself";
	return NULL;
}

const char *commit_path_problem(const char *path)
{
	const char *problem = NULL;

	if (!*path)
		return "an empty path";
	if (strlen(path) >= COMMIT_PATH_MAX)
		return "a path that is too long";
	while (!problem) {
		size_t len = strcspn(path, "/");

		problem = name_problem(path, len);
		if (!path[len])
			break;
		path += len + 1;
	}
	return problem;
}

static bool is_utf8(const char *text)
{
	json_t *string = json_string(text);

	json_decref(string);
	return string;
}

static const char *file_problem(const struct commit_entry *e)
{
	if (e->size > INT64_MAX)
		return "a size that is out of range";
	if (!commit_is_hex(e->xxh3))
		return "a file without a digest";
	if (!e->node || !*e->node || strlen(e->node) >= COMMIT_NODE_MAX || !is_utf8(e->node))
		return "a file without a node";
	return e->rank < -1 ? "a rank that is out of range" : NULL;
}

const char *commit_entry_problem(const struct commit_entry *e, const char *previous)
{
	const char *problem = commit_path_problem(e->path);

	if (problem)
		return problem;
	if (strcmp(e->path, previous) <= 0)
		return "a path that is not behind the one before it";
	if (e->kind == COMMIT_IS_FILE)
		return file_problem(e);
	if (e->kind == COMMIT_IS_SYMLINK &&
	    (!e->target || !*e->target || strlen(e->target) >= PATH_MAX))
		return "a symbolic link without a target";
	return NULL;
}

/* True if the shard lies inside its tensor. */
static bool is_shard(const struct commit_tensor *t)
{
	unsigned i;

	for (i = 0; i < t->ndim; i++)
		if (t->shape[i] > INT64_MAX || t->length[i] > t->shape[i] ||
		    t->offset[i] > t->shape[i] - t->length[i])
			return false;
	return true;
}

const char *commit_tensor_problem(const struct commit_tensor *t)
{
	const char *problem = commit_path_problem(t->path);

	if (problem)
		return problem;
	if (!*t->name || strlen(t->name) >= COMMIT_TEXT_MAX + 1)
		return "a tensor without a name, or with one that is too long";
	if (strlen(t->dtype) >= COMMIT_DTYPE_MAX || !is_utf8(t->dtype))
		return "a tensor with a dtype that is too long, or no text";
	if (t->ndim > COMMIT_DIMS || !is_shard(t))
		return "a shard that does not lie in its tensor";
	if (t->at > INT64_MAX || t->bytes > INT64_MAX - t->at || t->from > INT64_MAX ||
	    t->bytes > INT64_MAX - t->from)
		return "a tensor with a place that is out of range";
	if (t->xxh3 && !commit_is_hex(t->xxh3))
		return "a tensor whose digest is none";
	return NULL;
}

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

int commit_tensor_compare(const struct commit_tensor *a, const struct commit_tensor *b)
{
	int order = strcmp(a->name, b->name);
	unsigned i;

	for (i = 0; !order && i < a->ndim && i < b->ndim; i++)
		order = compare_numbers(a->offset[i], b->offset[i]);
	if (!order)
		order = strcmp(a->path, b->path);
	return order ? order : compare_numbers(a->at, b->at);
}

const char *commit_header_problem(const struct commit_header *h)
{
	const char *problem = commit_path_problem(h->unit);

	if (problem)
		return problem;
	if (!commit_is_hex(h->generation))
		return "no generation";
	if (h->committed_ns > INT64_MAX || h->sequence > INT64_MAX)
		return "a time or sequence that is out of range";
	return h->ranks > INT_MAX || h->nodes > INT_MAX ? "a world that is out of range" : NULL;
}
