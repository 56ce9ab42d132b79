/* SPDX-License-Identifier: MIT */
#include "engine/tensors/read.h"

#include <errno.h>
#include <string.h>

#include "engine/base/cleanup.h"

/* What may hold tensors, but in a form that ckptfs does not read. */
static const struct {
	const char *suffix, *reason;
} closed[] = {
	{".h5", "HDF5 keeps its own directory of chunks: read it by h5py"},
	{".hdf5", "HDF5 keeps its own directory of chunks: read it by h5py"},
	{".keras", "Keras keeps its weights as HDF5 inside a zip file: read it by Keras"},
	{"manifest.ocdbt", "OCDBT keeps its own database, often compressed: read it by Orbax"},
	{".npz", "numpy's zip form is not described yet: read it by numpy"},
	{".distcp", "the .metadata that describes it is missing or cannot be read"},
};

bool read_is_format(int err)
{
	return err == -EBADMSG || err == -EFBIG;
}

static bool has_torch_name(const char *path)
{
	static const char *const suffixes[] = {".pt", ".pth", ".bin", ".ckpt", ".safetensors"};

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
		if (path_ends(path, suffixes[i]))
			return true;
	return false;
}

const char *read_scope(const struct tree *t, const struct tree_file *f)
{
	for (size_t i = 0; i < t->nr; i++)
		if (&t->list[i] != f && has_torch_name(t->list[i].path))
			return f->path;
	return "";
}

static int note_closed(struct index *ix, struct tree *t)
{
	int err = 0;

	for (size_t i = 0; i < t->nr && !err; i++)
		for (size_t k = 0; k < ARRAY_SIZE(closed) && !t->list[i].taken && !err; k++)
			if (path_ends(t->list[i].path, closed[k].suffix)) {
				t->list[i].taken = true;
				err = index_add_opaque(ix, t->list[i].path, "", "%s",
						       closed[k].reason);
			}
	return err;
}

int index_read(struct index *ix, struct tree *t)
{
	int err = read_dcp(ix, t);

	if (!err)
		err = read_safetensors(ix, t);
	if (!err)
		err = read_zero(ix, t);
	if (!err)
		err = read_torch(ix, t);
	if (!err)
		err = note_closed(ix, t);
	return err ? err : index_finish(ix);
}
