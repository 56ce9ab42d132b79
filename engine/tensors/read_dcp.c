/* SPDX-License-Identifier: MIT */
/*
 * What torch.distributed.checkpoint writes: `.metadata`, a pickle, has the shapes of all tensors
 * and of their chunks, and for each chunk a stretch of a `.distcp` file. Such an *item* is a small
 * file of its own, of torch.save or safetensors, around the bytes of the chunk. Megatron's
 * torch_dist has the same form.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/cleanup.h"
#include "engine/tensors/read.h"
#include "engine/tensors/torch.h"

#define METADATA_MAX ((size_t)2 << 30)
#define LOOK_AT_ALL  20000 /* with more items, of those of one size only the first is opened */
#define CHUNKS_SPARE 100000
#define KNOWN_ITEMS  4096
#define LOADED_MAX   ((uint64_t)16 << 30) /* of the headers of all items */

static const char metadata_module[] = "torch.distributed.checkpoint.metadata";

/* The items by name and offset of their chunks: an open hash table. */
struct items {
	pickle_ref *keys, *infos;
	uint64_t *hashes;
	size_t mask, nr;
};

struct dcp {
	struct index *ix;
	struct tree *tree;
	const char *path; /* of .metadata */
	const char *dir;  /* with the slash; also the scope */
	struct pickle *pickle;
	struct items items;
	/* how far into an item the bytes are, by how much larger the item is */
	struct {
		uint64_t more, at;
		const char *dtype;
	} known[KNOWN_ITEMS];
	size_t nr_known, nr_chunks;
	bool item_is_whole; /* the last one is whole, but its tensor has an unknown form */
	/* of the last file that is one of safetensors */
	const struct tree_file *header_of;
	json_t *header;
	uint64_t data;
	char name[4096];
	/* of the tensor at hand */
	const char *dtype;
	uint64_t shape[TYPE_DIMS];
	unsigned ndim;
};

static const uint64_t nowhere[1];

static bool is_a(const struct pickle *p, pickle_ref r, const char *class)
{
	return pickle_is_global(p, pickle_callee(p, r), NULL, class);
}

/* --- the items --- */

static uint64_t hash_chunk(const char *name, size_t len, const uint64_t *offset, unsigned ndim)
{
	return XXH3_64bits_withSeed(offset, ndim * sizeof(*offset), XXH3_64bits(name, len));
}

/* The name and offset that a MetadataIndex says. A tensor in one chunk may have no offset. */
static const char *read_key(const struct pickle *p, pickle_ref key, size_t *len, uint64_t *offset,
			    unsigned *ndim)
{
	pickle_ref at = pickle_attribute(p, key, "offset");

	*ndim = 0;
	if (pickle_kind(p, at) != PICKLE_NONE && !torch_numbers(p, at, offset, ndim))
		return NULL;
	return pickle_text(p, pickle_attribute(p, key, "fqn"), len);
}

static int gather_items(struct dcp *d, pickle_ref data)
{
	const struct pickle *p = d->pickle;
	struct items *its = &d->items;
	size_t nr = pickle_nr_pairs(p, data), room = 64;

	while (room < 2 * nr)
		room *= 2;
	its->keys = calloc(room, sizeof(*its->keys));
	its->infos = calloc(room, sizeof(*its->infos));
	its->hashes = calloc(room, sizeof(*its->hashes));
	if (!its->keys || !its->infos || !its->hashes)
		return -ENOMEM;
	its->mask = room - 1;
	its->nr = nr;
	for (size_t i = 0; i < nr; i++) {
		pickle_ref key = pickle_key(p, data, i);
		uint64_t offset[TYPE_DIMS], hash;
		unsigned ndim;
		size_t len, at;
		const char *name = read_key(p, key, &len, offset, &ndim);

		if (!name)
			continue;
		hash = hash_chunk(name, len, offset, ndim);
		at = hash & its->mask;
		while (its->keys[at] && its->hashes[at] != hash) /* of equal ones the last counts */
			at = (at + 1) & its->mask;
		its->keys[at] = key;
		its->hashes[at] = hash;
		its->infos[at] = pickle_value(p, data, i);
	}
	return 0;
}

static pickle_ref find_item(const struct dcp *d, const char *name, size_t len,
			    const uint64_t *offset, unsigned ndim)
{
	const struct items *its = &d->items;
	uint64_t hash = hash_chunk(name, len, offset, ndim);
	size_t at = hash & its->mask;

	for (; its->keys[at]; at = (at + 1) & its->mask) {
		uint64_t there[TYPE_DIMS];
		unsigned n;
		size_t there_len;
		const char *there_name;

		if (its->hashes[at] != hash)
			continue;
		there_name = read_key(d->pickle, its->keys[at], &there_len, there, &n);

		if (there_len == len && n == ndim && !memcmp(there_name, name, len) &&
		    !memcmp(there, offset, ndim * sizeof(*offset)))
			return its->infos[at];
	}
	return 0;
}

struct item {
	bool transformed;	/* compressed, or the like */
	struct tree_file *file; /* NULL: it is missing */
	const char *path;	/* relative to the checkpoint */
	uint64_t at, bytes;
};

/* Reads a _StorageInfo. 0; 1: *@why says why not; or -ENOMEM. */
static int read_item(struct dcp *d, pickle_ref info, struct item *it, const char **why)
{
	const struct pickle *p = d->pickle;
	pickle_ref transforms = pickle_attribute(p, info, "transform_descriptors");
	int64_t at, bytes;
	size_t len;
	const char *rel = pickle_text(p, pickle_attribute(p, info, "relative_path"), &len);
	char path[8192];

	*why = "its place in a file has a form that ckptfs does not know";
	if (!rel || len + strlen(d->dir) >= sizeof(path) || memchr(rel, '\0', len) ||
	    !pickle_int(p, pickle_attribute(p, info, "offset"), &at) || at < 0 ||
	    !pickle_int(p, pickle_attribute(p, info, "length"), &bytes) || bytes < 0)
		return 1;
	snprintf(path, sizeof(path), "%s%.*s", d->dir, (int)len, rel);
	it->file = tree_find(d->tree, path);
	it->path = it->file ? it->file->path : index_text(d->ix, path, strlen(path));
	it->at = (uint64_t)at;
	it->bytes = (uint64_t)bytes;
	it->transformed = pickle_nr(p, transforms);
	return it->path ? 0 : -ENOMEM;
}

/* --- where in an item the bytes are --- */

/* Finds the only tensor of a torch.save file: the root of its pickle, or the value of its dict. */
static int locate_in_torch(struct dcp *d, const struct item *it, const char **dtype, uint64_t *at,
			   uint64_t bytes, const char **why)
{
	__cleanup_free struct torch_file *tf = calloc(1, sizeof(*tf));
	struct torch_tensor tt;
	int err = tf ? torch_open(tf, d->tree, it->file, it->at, it->bytes, why) : -ENOMEM;

	if (err)
		return err;
	err = torch_tensor(tf, pickle_root(tf->pickle), &tt, why);
	d->item_is_whole = read_is_format(err);
	torch_close(tf);
	if (err == 1 || (!err && tt.bytes != bytes)) {
		*why = "its item has not the bytes that .metadata says";
		return -EBADMSG;
	}
	if (err)
		return err;
	*dtype = tt.dtype;
	*at = tt.at - it->at;
	return 0;
}

static int locate_in_safetensors(struct dcp *d, const struct item *it, uint64_t *at, uint64_t bytes,
				 const char **why)
{
	struct tree_part p;
	json_t *header = NULL;
	uint64_t data;
	int err;

	tree_part(&p, d->tree, it->file, it->at, it->bytes);
	err = read_safetensors_header(&p, &header, &data, why);
	json_decref(header);
	if (!err && data + bytes != it->bytes) {
		*why = "its item has not the bytes that .metadata says";
		err = -EBADMSG;
	}
	*at = data;
	return err;
}

/*
 * With serialization_format=SAFETENSORS the whole file is one of safetensors, and the place in
 * .metadata says nothing of where in it. Sets *@at to that, as seen from the item; leaves it if the
 * file has another form.
 */
static int locate_in_file(struct dcp *d, const struct item *it, uint64_t *at, uint64_t bytes)
{
	uint64_t begin, end;
	const json_t *span;
	const char *why;
	struct tree_part p;
	int err = 0;

	if (d->header_of != it->file) {
		json_decref(d->header);
		d->header = NULL;
		d->header_of = it->file;
		tree_part(&p, d->tree, it->file, 0, it->file->size);
		err = read_safetensors_header(&p, &d->header, &d->data, &why);
	}
	if (err || !d->header)
		return read_is_format(err) ? 0 : err;
	span = json_object_get(json_object_get(d->header, d->name), "data_offsets");
	begin = (uint64_t)json_integer_value(json_array_get(span, 0));
	end = (uint64_t)json_integer_value(json_array_get(span, 1));
	if (begin <= end && end - begin == bytes && end <= it->file->size - d->data)
		*at = d->data + begin - it->at;
	return 0;
}

static int look_into(struct dcp *d, const struct item *it, const char **dtype, uint64_t *at,
		     uint64_t bytes, const char **why)
{
	char head[4] = "";
	struct tree_part p;
	int err;

	tree_part(&p, d->tree, it->file, it->at, it->bytes);
	err = tree_read(&p, head, sizeof(head), 0);
	*why = "it is cut off";
	if (err)
		return err;
	if (!memcmp(head, "PK\3\4", 4))
		return locate_in_torch(d, it, dtype, at, bytes, why);
	return locate_in_safetensors(d, it, at, bytes, why);
}

/* Sets *@at to how far into the item its @bytes are. */
static int locate(struct dcp *d, const struct item *it, uint64_t *at, uint64_t bytes,
		  const char **why)
{
	uint64_t more = it->bytes - bytes;
	const char *dtype = d->dtype;
	int err;

	*at = 0;
	d->item_is_whole = false;
	if (d->tree->loaded > LOADED_MAX) {
		*why = "too much would have to be read to find its bytes";
		return -EBADMSG;
	}
	if (!more) /* bare bytes, as ByteCheckpoint writes them, or all of the file has a form */
		return locate_in_file(d, it, at, bytes);
	for (size_t i = 0; d->items.nr > LOOK_AT_ALL && i < d->nr_known; i++)
		if (d->known[i].more == more && d->known[i].dtype == d->dtype) {
			*at = d->known[i].at;
			return 0;
		}
	err = look_into(d, it, &dtype, at, bytes, why);
	if (!err && dtype != d->dtype) {
		*why = "its item has another type of elements than .metadata says";
		err = -EBADMSG;
	}
	if (!err && d->nr_known < KNOWN_ITEMS) {
		d->known[d->nr_known].more = more;
		d->known[d->nr_known].at = *at;
		d->known[d->nr_known++].dtype = d->dtype;
	}
	return err;
}

/* --- tensors --- */

static int refuse(struct dcp *d, const char *why)
{
	return index_add_opaque(d->ix, d->path, d->name, "%s", why);
}

/* The bytes are there, but compressed or the like: said once for each tensor. */
static int note_transformed(struct dcp *d, struct index_tensor *t)
{
	if (t->opaque)
		return 0;
	t->opaque = true;
	return refuse(d, "its bytes are compressed or otherwise transformed");
}

/* Adds the chunk at @box, whose bytes are those of @it. */
static int add_chunk(struct dcp *d, struct index_tensor *t, const struct item *it,
		     const uint64_t *box)
{
	struct index_piece piece = {.path = it->path, .box = box};
	const char *why = "";
	uint64_t nr, at = 0;
	int err = 0;

	if (!shape_volume(box + d->ndim, d->ndim, &nr) || !type_bytes(d->dtype, nr, &piece.bytes))
		return refuse(d, "a chunk is too large to be true");
	if (!it->file)
		piece.unreachable = "is missing";
	else if (it->at > it->file->size || it->bytes > it->file->size - it->at)
		piece.unreachable = "is cut off";
	else if (it->transformed)
		return note_transformed(d, t);
	else if (piece.bytes > it->bytes)
		return refuse(d, "a chunk has fewer bytes than elements");
	else
		err = locate(d, it, &at, piece.bytes, &why);
	if (read_is_format(err)) {
		t->opaque |= d->item_is_whole;
		return index_add_opaque(d->ix, it->path, d->name, "%s", why);
	}
	piece.at = it->at + at;
	return err ? err : index_add_piece(d->ix, t, &piece);
}

static int read_chunk(struct dcp *d, struct index_tensor *t, pickle_ref chunk, const char *name,
		      size_t len)
{
	const struct pickle *p = d->pickle;
	uint64_t box[2 * TYPE_DIMS];
	unsigned nr, nr2;
	pickle_ref info;
	struct item it;
	const char *why;
	int err;

	if (!torch_numbers(p, pickle_attribute(p, chunk, "offsets"), box, &nr) || nr != d->ndim ||
	    !torch_numbers(p, pickle_attribute(p, chunk, "sizes"), box + nr, &nr2) || nr2 != nr)
		return refuse(d, "a chunk has another form than its tensor");
	info = find_item(d, name, len, box, nr);
	if (!info && !memcmp(box + nr, d->shape, nr * sizeof(*box)))
		info = find_item(d, name, len, nowhere, 0);
	if (!info) {
		uint64_t volume;

		if (shape_volume(box + nr, nr, &volume) && !volume)
			return 0; /* nobody writes an empty chunk */
		return refuse(d, "a chunk has no place in any file");
	}
	err = read_item(d, info, &it, &why);
	if (err)
		return err == 1 ? refuse(d, why) : err;
	return add_chunk(d, t, &it, box);
}

/* The type is the first of the properties, which are a tuple in their state. */
static const char *dtype_of(const struct pickle *p, pickle_ref properties)
{
	pickle_ref state = pickle_state(p, properties);
	pickle_ref type = pickle_item(p, state, 0);

	return torch_dtype(p, type ? type : pickle_attribute(p, properties, "dtype"));
}

/* The third of them. */
static bool requires_grad(const struct pickle *p, pickle_ref properties)
{
	pickle_ref is = pickle_item(p, pickle_state(p, properties), 2);
	int64_t value;

	return pickle_int(p, is ? is : pickle_attribute(p, properties, "requires_grad"), &value) &&
	       value;
}

static int read_tensor(struct dcp *d, const char *name, size_t len, pickle_ref md)
{
	const struct pickle *p = d->pickle;
	pickle_ref chunks = pickle_attribute(p, md, "chunks");
	struct index_tensor *t;
	int err;

	d->dtype = dtype_of(p, pickle_attribute(p, md, "properties"));
	if (!d->dtype)
		return refuse(d, "its elements have a type that ckptfs does not know");
	if (!torch_numbers(p, pickle_attribute(p, md, "size"), d->shape, &d->ndim))
		return refuse(d, "its shape has a form that ckptfs does not know");
	err = index_add(d->ix, d->dir, d->name, d->dtype, d->ndim, d->shape, &t);
	if (err)
		return err == -EEXIST ? refuse(d, "two tensors have this name") : err;
	t->requires_grad = requires_grad(p, pickle_attribute(p, md, "properties"));
	d->nr_chunks += pickle_nr(p, chunks);
	if (d->nr_chunks > d->items.nr + CHUNKS_SPARE) /* each has an item, but for empty ones */
		return -EBADMSG;
	for (size_t i = 0; i < pickle_nr(p, chunks) && !err; i++)
		err = read_chunk(d, t, pickle_item(p, chunks, i), name, len);
	return err;
}

/* An object is no tensor, but its bytes should be there. */
static int read_object(struct dcp *d, const char *name, size_t len)
{
	pickle_ref info = find_item(d, name, len, nowhere, 0);
	struct item it;
	const char *why;
	int err = info ? read_item(d, info, &it, &why) : 1;

	if (err)
		return err == 1 ? index_add_missing(d->ix, d->path, d->name,
						    "the object has no place in any file")
				: err;
	if (!it.file)
		return index_add_missing(d->ix, it.path, d->name, "the file is missing");
	if (it.at > it.file->size || it.bytes > it.file->size - it.at)
		return index_add_missing(d->ix, it.path, d->name, "the file is cut off");
	return 0;
}

static int read_all(struct dcp *d, pickle_ref tensors)
{
	const struct pickle *p = d->pickle;
	int err = 0;

	for (size_t i = 0; i < pickle_nr_pairs(p, tensors) && !err; i++) {
		pickle_ref md = pickle_value(p, tensors, i);
		size_t len;
		const char *name = pickle_text(p, pickle_key(p, tensors, i), &len);

		if (!name || len >= sizeof(d->name) || memchr(name, '\0', len))
			continue;
		memcpy(d->name, name, len);
		d->name[len] = '\0';
		err = is_a(p, md, "TensorStorageMetadata") ? read_tensor(d, name, len, md)
							   : read_object(d, name, len);
	}
	return err;
}

/* The files of the checkpoint are described, whatever comes of it. */
static void take_files(struct dcp *d)
{
	size_t len = strlen(d->dir);

	for (size_t i = 0; i < d->tree->nr; i++) {
		struct tree_file *f = &d->tree->list[i];

		if (!strncmp(f->path, d->dir, len) && !strchr(f->path + len, '/') &&
		    path_ends(f->path, ".distcp"))
			f->taken = true;
	}
}

static int read_metadata(struct dcp *d)
{
	pickle_ref root = pickle_root(d->pickle);
	int err;

	if (!pickle_is_global(d->pickle, pickle_callee(d->pickle, root), metadata_module,
			      "Metadata"))
		return index_add_opaque(d->ix, d->path, "",
					"its pickle holds no Metadata of "
					"torch.distributed.checkpoint");
	take_files(d);
	err = gather_items(d, pickle_attribute(d->pickle, root, "storage_data"));
	if (!err)
		err = read_all(d, pickle_attribute(d->pickle, root, "state_dict_metadata"));
	if (read_is_format(err))
		err = index_add_missing(d->ix, d->path, "",
					"it has many more chunks than places in files");
	free(d->items.keys);
	free(d->items.infos);
	free(d->items.hashes);
	json_decref(d->header);
	return err;
}

static int read_one(struct index *ix, struct tree *t, struct tree_file *f)
{
	__cleanup_free struct dcp *d = calloc(1, sizeof(*d));
	__cleanup_free char *data = NULL;
	const char *why = "it is cut off";
	struct tree_part p;
	int err;

	if (!d)
		return -ENOMEM;
	*d = (struct dcp){.ix = ix, .tree = t, .path = f->path};
	d->dir = index_text(ix, f->path, (size_t)(path_name(f->path) - f->path));
	tree_part(&p, t, f, 0, f->size);
	err = d->dir ? tree_load(&p, 0, f->size, METADATA_MAX, &data) : -ENOMEM;
	if (err == -EFBIG)
		why = "it is larger than 2 GiB";
	if (!err)
		err = pickle_read(data, (size_t)f->size, &d->pickle, NULL, &why);
	if (err)
		return read_is_format(err) ? index_add_opaque(ix, f->path, "", "%s", why) : err;
	err = read_metadata(d);
	pickle_free(d->pickle);
	return err;
}

int read_dcp(struct index *ix, struct tree *t)
{
	int err = 0;

	for (size_t i = 0; i < t->nr && !err; i++) {
		struct tree_file *f = &t->list[i];

		if (strcmp(path_name(f->path), ".metadata"))
			continue;
		f->taken = true;
		err = read_one(ix, t, f);
	}
	return err;
}
