/* SPDX-License-Identifier: MIT */
/* What readers share: names of files, scopes of tensors, and errors of one file. */
#include <errno.h>

#include "engine/base/cleanup.h"
#include "engine/tensors/read.h"

bool read_has_torch_name(const char *path)
{
	static const char *const suffixes[] = {".pt", ".pth", ".bin", ".ckpt"};

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
		if (path_ends(path, suffixes[i]))
			return true;
	return false;
}

bool read_is_format(int err)
{
	return err == -EBADMSG || err == -EFBIG;
}

static bool is_named(const struct tree_file *f)
{
	return read_has_torch_name(f->path) || path_ends(f->path, ".safetensors");
}

const char *read_scope(const struct tree *t, const struct tree_file *f)
{
	return t->nr_named > is_named(f) ? f->path : "";
}

void read_count_named(struct tree *t)
{
	t->nr_named = 0;
	for (size_t i = 0; i < t->nr; i++)
		t->nr_named += is_named(&t->list[i]);
}
