/* SPDX-License-Identifier: MIT */
/* What may stand in a commit file: asked of what is written and of what is read. */
#include "engine/format/commit.h"

#include <jansson.h>
#include <limits.h>
#include <string.h>

/* Names that ckptfs keeps for itself beside and in units. */
#define RESERVED_PREFIX ".ckptfs-"

bool commit_is_hex(const char *text)
{
	return strlen(text) == COMMIT_HEX - 1 && strspn(text, "0123456789abcdef") == COMMIT_HEX - 1;
}

/* Of one component, from @name on, @len bytes of it. */
static const char *name_problem(const char *name, size_t len)
{
	if (!len)
		return "a path with an empty name in it";
	if ((len == 1 && name[0] == '.') || (len == 2 && name[0] == '.' && name[1] == '.'))
		return "a path with '.' or '..' in it";
	if (len > NAME_MAX)
		return "a path with a name that is too long";
	if (!strncmp(name, RESERVED_PREFIX, strlen(RESERVED_PREFIX)))
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
