/* SPDX-License-Identifier: MIT */
/*
 * safetensors files, and sets of them. A set is what an index file of Hugging Face names, or what
 * DCP's Hugging Face writer has cut: then each file says of its tensors where in the whole they
 * are (DCP_SHARDING_INFO). In a set names are global.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/tensors/read.h"
#include "engine/tensors/types.h"

#define HEADER_MAX ((size_t)100000000) /* safetensors's own limit */

static const char cut_off[] = "it reaches beyond the end of the file, which is cut off";

static int bad(const char **why, const char *text)
{
	*why = text;
	return -EBADMSG;
}

int read_safetensors_header(const struct tree_part *p, json_t **header, uint64_t *data,
			    const char **why)
{
	unsigned char head[8];
	__cleanup_free char *text = NULL;
	uint64_t len = 0;
	int err = tree_read(p, head, sizeof(head), 0);

	if (err)
		return err == -EBADMSG ? bad(why, "it is cut off") : err;
	for (size_t i = sizeof(head); i-- > 0;)
		len = len << 8 | head[i];
	err = tree_load(p, sizeof(head), len, HEADER_MAX, &text);
	if (read_is_format(err))
		return bad(why,
			   "its header is cut off or too long: it is no whole safetensors file");
	if (err)
		return err;
	*header = json_loadb(text, (size_t)len, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(*header)) {
		json_decref(*header);
		*header = NULL;
		return bad(why, "its header is no JSON object without duplicates");
	}
	*data = sizeof(head) + len;
	return 0;
}

/* Reads a list of numbers. False: it is none, or too long. */
static bool read_numbers(const json_t *a, uint64_t *list, unsigned *nr)
{
	size_t i;
	json_t *v;

	if (!json_is_array(a) || json_array_size(a) > TYPE_DIMS)
		return false;
	*nr = (unsigned)json_array_size(a);
	json_array_foreach (a, i, v) {
		if (!json_is_integer(v) || json_integer_value(v) < 0)
			return false;
		list[i] = (uint64_t)json_integer_value(v);
	}
	return true;
}

struct entry {
	const char *dtype;
	unsigned ndim;
	uint64_t length[TYPE_DIMS]; /* of the part that the file has */
	uint64_t at, bytes;	    /* in the data of the file */
};

/* @room: the bytes of data in the file. */
static const char *read_entry(const json_t *o, uint64_t room, struct entry *en)
{
	const json_t *type = json_object_get(o, "dtype");
	uint64_t span[TYPE_DIMS], volume, bytes;
	unsigned nr;

	en->dtype = json_is_string(type)
			    ? type_of_safetensors(json_string_value(type), json_string_length(type))
			    : NULL;
	if (!en->dtype)
		return "its elements have a type that ckptfs does not know";
	if (!read_numbers(json_object_get(o, "shape"), en->length, &en->ndim) ||
	    !read_numbers(json_object_get(o, "data_offsets"), span, &nr) || nr != 2)
		return "its entry in the header is damaged";
	if (!shape_volume(en->length, en->ndim, &volume) ||
	    !type_bytes(en->dtype, volume, &bytes) || span[0] > span[1] ||
	    span[1] - span[0] != bytes)
		return "its size does not fit its shape";
	if (span[1] > room)
		return cut_off;
	en->at = span[0];
	en->bytes = bytes;
	return NULL;
}

struct set {
	struct index *ix;
	struct tree_file *file;
	const char *scope;
	json_t *sharding; /* name -> {saved_offsets, ...}; NULL: none */
	uint64_t data;
};

/* Sets @box, and @shape if the file says it. False: the sharding of @name makes no sense. */
static bool place_in_whole(const struct set *s, const char *name, const struct entry *en,
			   uint64_t *box, uint64_t *shape, bool *has_shape)
{
	const json_t *info = json_object_get(s->sharding, name), *whole;
	unsigned nr;

	memset(box, 0, en->ndim * sizeof(*box));
	memcpy(box + en->ndim, en->length, en->ndim * sizeof(*box));
	memcpy(shape, en->length, en->ndim * sizeof(*box));
	*has_shape = !info;
	if (!info)
		return true;
	if (!read_numbers(json_object_get(info, "saved_offsets"), box, &nr) || nr != en->ndim)
		return false;
	memcpy(box + en->ndim, en->length, en->ndim * sizeof(*box));
	whole = json_object_get(info, "global_shape");
	*has_shape = whole;
	if (whole && (!read_numbers(whole, shape, &nr) || nr != en->ndim))
		return false;
	for (unsigned i = 0; i < en->ndim; i++)
		if (box[i] > UINT64_MAX - en->length[i])
			return false;
	return true;
}

static int add_entry(struct set *s, const char *name, const struct entry *en)
{
	uint64_t box[2 * TYPE_DIMS], shape[TYPE_DIMS];
	struct index_piece piece = {
		.path = s->file->path, .at = s->data + en->at, .bytes = en->bytes, .box = box};
	struct index_tensor *t;
	bool has_shape;
	int err;

	if (!place_in_whole(s, name, en, box, shape, &has_shape))
		return index_add_opaque(s->ix, s->file->path, name,
					"its place in the whole tensor makes no sense");
	err = index_add(s->ix, s->scope, name, en->dtype, en->ndim, has_shape ? shape : NULL, &t);
	if (err == -EEXIST || (!err && has_shape && !s->sharding && t->pieces))
		return index_add_opaque(s->ix, s->file->path, name,
					"another file of the set has a tensor of this name");
	return err ? err : index_add_piece(s->ix, t, &piece);
}

/* The sharding that the DCP writer notes as JSON inside of JSON; NULL: none. */
static json_t *sharding_of(const json_t *header)
{
	const json_t *text =
		json_object_get(json_object_get(header, "__metadata__"), "DCP_SHARDING_INFO");

	return json_is_string(text) ? json_loadb(json_string_value(text), json_string_length(text),
						 JSON_REJECT_DUPLICATES, NULL)
				    : NULL;
}

static int read_header(struct set *s, json_t *header, uint64_t room)
{
	const char *name;
	json_t *o;
	int err = 0;

	json_object_foreach (header, name, o) {
		struct entry en;
		const char *why;

		if (err || !strcmp(name, "__metadata__"))
			continue;
		why = read_entry(o, room, &en);
		err = why == cut_off ? index_add_missing(s->ix, s->file->path, name, "%s", why)
		      : why	     ? index_add_opaque(s->ix, s->file->path, name, "%s", why)
				     : add_entry(s, name, &en);
	}
	return err;
}

/* The directory part of @path, with the slash. */
static int directory_of(struct index *ix, const char *path, const char **out)
{
	*out = index_text(ix, path, (size_t)(path_name(path) - path));
	return *out ? 0 : -ENOMEM;
}

/*
 * True if its name is that of a set, or a file in its directory @dir lists it. @sets: the
 * directories in which there is such a file.
 */
static bool is_of_set(const struct tree_file *f, const char *dir, const json_t *sets)
{
	return strstr(path_name(f->path), "-of-0") || json_object_get(sets, dir);
}

static int read_one(struct index *ix, struct tree *t, struct tree_file *f, const json_t *sets)
{
	struct set s = {.ix = ix, .file = f};
	const char *why = "", *dir;
	json_t *header = NULL;
	struct tree_part p;
	int err;

	tree_part(&p, t, f, 0, f->size);
	err = read_safetensors_header(&p, &header, &s.data, &why);
	if (err)
		return read_is_format(err) ? index_add_missing(ix, f->path, "", "%s", why) : err;
	s.sharding = sharding_of(header);
	err = directory_of(ix, f->path, &dir);
	if (!err)
		s.scope = s.sharding || is_of_set(f, dir, sets) ? dir : read_scope(t, f);
	if (!err)
		err = read_header(&s, header, f->size - s.data);
	json_decref(s.sharding);
	json_decref(header);
	return err;
}

/* Notes the files that the index file @f of a set names and that are not there, each once. */
static int note_missing(struct index *ix, struct tree *t, const struct tree_file *f)
{
	__cleanup_free char *text = NULL;
	json_t *json = NULL, *file, *seen = json_object();
	const char *tensor;
	struct tree_part p;
	char path[8192];
	int err;

	tree_part(&p, t, f, 0, f->size);
	err = seen ? tree_load(&p, 0, f->size, HEADER_MAX, &text) : -ENOMEM;
	if (!err)
		json = json_loadb(text, (size_t)f->size, 0, NULL);
	json_object_foreach (json_object_get(json, "weight_map"), tensor, file) {
		const char *name = json_string_value(file);

		if (err || !name || json_object_get(seen, name))
			continue;
		json_object_set_new(seen, name, json_true());
		snprintf(path, sizeof(path), "%.*s%s", (int)(path_name(f->path) - f->path), f->path,
			 name);
		if (!tree_find(t, path))
			err = index_add_missing(ix, path, "", "the file is missing");
	}
	json_decref(seen);
	json_decref(json);
	return read_is_format(err) ? 0 : err;
}

/* Notes what index files name and is not there; and in @sets, where there are such files. */
static int read_index_files(struct index *ix, struct tree *t, json_t *sets)
{
	int err = 0;

	for (size_t i = 0; i < t->nr && !err; i++) {
		const char *path = t->list[i].path, *dir;
		bool lists = path_ends(path, ".safetensors.index.json");

		if (!lists && !path_ends(path, ".bin.index.json"))
			continue;
		err = directory_of(ix, path, &dir);
		if (!err && lists) /* a directory that is no UTF-8 has no set */
			json_object_set_new(sets, dir, json_true());
		if (!err)
			err = note_missing(ix, t, &t->list[i]);
	}
	return err;
}

int read_safetensors(struct index *ix, struct tree *t)
{
	json_t *sets = json_object();
	int err = sets ? read_index_files(ix, t, sets) : -ENOMEM;

	for (size_t i = 0; i < t->nr && !err; i++) {
		struct tree_file *f = &t->list[i];

		if (f->taken || !path_ends(f->path, ".safetensors"))
			continue;
		f->taken = true;
		err = read_one(ix, t, f, sets);
	}
	json_decref(sets);
	return err;
}
