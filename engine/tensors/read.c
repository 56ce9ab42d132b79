/* SPDX-License-Identifier: MIT */
#include "engine/tensors/read.h"

#include "engine/base/cleanup.h"
#include "engine/tensors/stored.h"

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

static const char cut_off[] = "it is cut off";

/* Why no reader has described @f; NULL: nobody expects tensors in it. */
static const char *why_not(struct tree *t, const struct tree_file *f)
{
	unsigned char head[2] = {0};
	struct tree_part p;

	for (size_t k = 0; k < ARRAY_SIZE(closed); k++)
		if (path_ends(f->path, closed[k].suffix))
			return closed[k].reason;
	if (!t->single && !read_has_torch_name(f->path))
		return NULL;
	tree_part(&p, t, f, 0, f->size);
	if (tree_read(&p, head, sizeof(head), 0))
		return cut_off;
	if (head[0] == 0x80 && head[1] <= 5)
		return "it is a bare pickle, as torch.save wrote before 1.6: save it again with a "
		       "newer torch";
	return "it is no zip file of torch.save";
}

static int note_closed(struct index *ix, struct tree *t)
{
	int err = 0;

	for (size_t i = 0; i < t->nr && !err; i++) {
		const char *why = t->list[i].taken ? NULL : why_not(t, &t->list[i]);

		if (why == cut_off)
			err = index_add_missing(ix, t->list[i].path, "", "%s", why);
		else if (why)
			err = index_add_opaque(ix, t->list[i].path, "", "%s", why);
	}
	return err;
}

int index_read(struct index *ix, struct tree *t)
{
	int err;

	read_count_named(t);
	err = read_dcp(ix, t);
	if (!err)
		err = read_safetensors(ix, t);
	if (!err)
		err = read_zero(ix, t);
	if (!err)
		err = read_torch(ix, t);
	if (!err)
		err = read_checkpointing(ix, t);
	if (!err)
		err = read_commit(ix, t);
	if (!err)
		err = note_closed(ix, t);
	if (!err)
		err = index_finish(ix);
	if (!err)
		read_commit_shapes(ix, t);
	return err;
}

int index_of(struct index **out, struct tree *t, bool anew)
{
	int err = index_create(out);

	if (!err && !anew && !index_load(*out, t))
		return 0;
	if (!err && !anew) { /* half of it may have been taken */
		index_destroy(*out);
		err = index_create(out);
	}
	if (!err)
		err = index_read(*out, t);
	if (err) {
		index_destroy(*out);
		*out = NULL;
	}
	return err;
}
