/* SPDX-License-Identifier: MIT */
/*
 * Files as torch.distributed.checkpoint writes them: "__0_0.distcp" and so on, and ".metadata". A
 * tensor in them is a file of torch.save for itself, which is a zip archive. Each tensor is whole.
 *
 * The digest of its bytes in the zip archive is 0: it is not known before they are read. torch does
 * not check it (torch.serialization.set_crc32_options).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/tensors/types.h"
#include "engine/views/making.h"
#include "engine/views/pickle_out.h"

#define METADATA "torch.distributed.checkpoint.metadata"
#define STORAGE	 "torch.distributed.checkpoint.filesystem"
#define LARGE	 UINT32_MAX /* a number of a zip archive that has its place in an extension */

/* A file while it is made. */
struct shard {
	struct view_file *f;
	char name[32];
	char *text; /* what comes before the next tensor */
	size_t len;
	FILE *out;
	uint64_t done; /* bytes before the text */
};

struct item {
	const struct view_tensor *t;
	unsigned file;
	uint64_t at, bytes; /* of the archive in the file */
};

/* --- zip --- */

static void put(FILE *out, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		fputc((int)(value >> 8 * i & 255), out);
}

static uint32_t crc32_of(const char *data, size_t len)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < len; i++) {
		crc ^= (unsigned char)data[i];
		for (unsigned bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
	}
	return ~crc;
}

/* A member of the archive. */
struct member {
	const char *name;
	uint64_t size, at;
	uint32_t crc;
};

static bool is_large(const struct member *m)
{
	return m->size >= LARGE;
}

/* What both headers of a member have in common. */
static void put_common(FILE *out, const struct member *m, unsigned extra)
{
	put(out, is_large(m) ? 45 : 20, 2); /* the version that is needed */
	put(out, 0, 2);
	put(out, 0, 2); /* stored */
	put(out, 0, 4); /* no time */
	put(out, m->crc, 4);
	put(out, is_large(m) ? LARGE : m->size, 4);
	put(out, is_large(m) ? LARGE : m->size, 4);
	put(out, strlen(m->name), 2);
	put(out, extra, 2);
}

static void put_extra(FILE *out, const struct member *m)
{
	if (!is_large(m))
		return;
	put(out, 1, 2);
	put(out, 16, 2);
	put(out, m->size, 8);
	put(out, m->size, 8);
}

static void put_local(FILE *out, struct member *m, uint64_t at)
{
	m->at = at;
	put(out, 0x04034b50, 4);
	put_common(out, m, is_large(m) ? 20 : 0);
	fputs(m->name, out);
	put_extra(out, m);
}

static void put_central(FILE *out, const struct member *m)
{
	put(out, 0x02014b50, 4);
	put(out, 45, 2);
	put_common(out, m, is_large(m) ? 20 : 0);
	put(out, 0, 6); /* no comment, of the first disk, no attributes */
	put(out, 0, 4);
	put(out, m->at, 4); /* small: what is large comes last */
	fputs(m->name, out);
	put_extra(out, m);
}

/* The end of the archive, whose directory of @nr members is [at, at + size). */
static void put_end(FILE *out, unsigned nr, uint64_t at, uint64_t size)
{
	if (at >= LARGE) {
		put(out, 0x06064b50, 4);
		put(out, 44, 8);
		put(out, 45, 2);
		put(out, 45, 2);
		put(out, 0, 8);
		put(out, nr, 8);
		put(out, nr, 8);
		put(out, size, 8);
		put(out, at, 8);
		put(out, 0x07064b50, 4);
		put(out, 0, 4);
		put(out, at + size, 8);
		put(out, 1, 4);
	}
	put(out, 0x06054b50, 4);
	put(out, 0, 4);
	put(out, nr, 2);
	put(out, nr, 2);
	put(out, size, 4);
	put(out, at >= LARGE ? LARGE : at, 4);
	put(out, 0, 2);
}

/* --- a tensor --- */

static void put_strides(FILE *out, const struct view_tensor *t)
{
	uint64_t steps[TYPE_DIMS], step = 1;

	for (unsigned d = t->ndim; d-- > 0;) {
		steps[d] = step;
		step *= t->shape[d] ? t->shape[d] : 1;
	}
	put_tuple(out, steps, t->ndim);
}

/* What torch.save pickles of a tensor. */
static void put_pickle(FILE *out, const struct view_tensor *t)
{
	const char *storage = type_storage_name(t->dtype);
	unsigned element = type_bits(t->dtype) / 8;

	fputs(PICKLE_BEGIN, out);
	put_global(out, "torch._utils", storage ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
	fputs(PICKLE_MARK PICKLE_MARK, out);
	put_text(out, "storage");
	put_global(out, storage ? "torch" : "torch.storage", storage ? storage : "UntypedStorage");
	put_text(out, "0");
	put_text(out, "cpu");
	put_int(out, storage ? t->bytes / element : t->bytes);
	fputs(PICKLE_TUPLE PICKLE_PERSID, out);
	put_int(out, 0);
	put_tuple(out, t->shape, t->ndim);
	put_strides(out, t);
	fputs(PICKLE_FALSE, out);
	put_global(out, "collections", "OrderedDict");
	fputs(PICKLE_MARK PICKLE_TUPLE PICKLE_CALL, out);
	if (!storage)
		put_global(out, "torch", type_torch_name(t->dtype));
	fputs(PICKLE_TUPLE PICKLE_CALL PICKLE_END, out);
}

/* Ends the text before a tensor or the end of the file, and begins another. */
static int end_text(struct making *m, struct shard *s)
{
	struct view_segment *g = &s->f->segments[s->f->nr];
	char *copy;

	if (!s->out || fclose(s->out))
		return -ENOMEM;
	copy = making_alloc(m, s->len + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, s->text, s->len);
	*g = (struct view_segment){.at = s->done, .bytes = s->len, .text = copy};
	s->f->nr += s->len > 0;
	s->done += s->len;
	s->f->size = s->done;
	free(s->text);
	s->text = NULL;
	s->out = open_memstream(&s->text, &s->len);
	return s->out ? 0 : -ENOMEM;
}

/* The bytes that the file has so far. */
static uint64_t so_far(struct shard *s)
{
	fflush(s->out);
	return s->done + s->len;
}

static void put_small(struct shard *s, struct member *m, const char *data, uint64_t begin)
{
	m->crc = crc32_of(data, m->size);
	put_local(s->out, m, so_far(s) - begin);
	fwrite(data, 1, m->size, s->out);
}

/* The archive of one tensor. */
static int put_item(struct making *m, struct shard *s, struct item *item)
{
	struct member members[] = {{.name = "archive/data.pkl"},
				   {.name = "archive/byteorder", .size = 6},
				   {.name = "archive/version", .size = 2},
				   {.name = "archive/data/0", .size = item->t->bytes}};
	uint64_t begin = so_far(s), directory;
	char *pickle = NULL;
	size_t len;
	FILE *out = open_memstream(&pickle, &len);
	int err = 0;

	if (!out)
		return -ENOMEM;
	put_pickle(out, item->t);
	if (fclose(out))
		return -ENOMEM;
	members[0].size = len;
	put_small(s, &members[0], pickle, begin);
	free(pickle);
	put_small(s, &members[1], "little", begin);
	put_small(s, &members[2], "3\n", begin);
	put_local(s->out, &members[3], so_far(s) - begin);
	if (item->t->bytes) {
		err = end_text(m, s);
		if (err)
			return err;
		file_add(s->f, item->t);
		s->done = s->f->size;
	}
	directory = so_far(s) - begin;
	for (unsigned i = 0; i < 4; i++)
		put_central(s->out, &members[i]);
	put_end(s->out, 4, directory, so_far(s) - begin - directory);
	item->at = begin;
	item->bytes = so_far(s) - begin;
	return 0;
}

/* --- .metadata --- */

static void begin_object(FILE *out, const char *module, const char *name)
{
	put_global(out, module, name);
	fputs(PICKLE_NEW PICKLE_DICT PICKLE_MARK, out);
}

static void end_object(FILE *out)
{
	fputs(PICKLE_SETITEMS PICKLE_BUILD, out);
}

static void put_properties(FILE *out, const struct view_tensor *t)
{
	put_global(out, METADATA, "TensorProperties");
	fputs(PICKLE_NEW PICKLE_MARK, out);
	put_global(out, "torch", type_torch_name(t->dtype));
	put_global(out, "torch.serialization", "_get_layout");
	fputs(PICKLE_MARK, out);
	put_text(out, "torch.strided");
	fputs(PICKLE_TUPLE PICKLE_CALL PICKLE_FALSE, out);
	put_global(out, METADATA, "_MEM_FORMAT_ENCODING");
	fputs(PICKLE_MARK, out);
	put_int(out, 0);
	fputs(PICKLE_TUPLE PICKLE_CALL PICKLE_FALSE PICKLE_TUPLE PICKLE_BUILD, out);
}

/* What is known of a tensor: its type, and one chunk that is all of it. */
static void put_tensor_metadata(FILE *out, const struct view_tensor *t)
{
	static const uint64_t zeros[TYPE_DIMS];

	put_text(out, t->name);
	begin_object(out, METADATA, "TensorStorageMetadata");
	put_text(out, "properties");
	put_properties(out, t);
	put_text(out, "size");
	put_size(out, t->shape, t->ndim);
	put_text(out, "chunks");
	fputs(PICKLE_MARK, out);
	begin_object(out, METADATA, "ChunkStorageMetadata");
	put_text(out, "offsets");
	put_size(out, zeros, t->ndim);
	put_text(out, "sizes");
	put_size(out, t->shape, t->ndim);
	end_object(out);
	fputs(PICKLE_LIST, out);
	end_object(out);
}

static void put_storage(FILE *out, const struct item *item, const char *file)
{
	static const uint64_t zeros[TYPE_DIMS];

	begin_object(out, METADATA, "MetadataIndex");
	put_text(out, "fqn");
	put_text(out, item->t->name);
	put_text(out, "offset");
	put_size(out, zeros, item->t->ndim);
	put_text(out, "index");
	put_int(out, 0);
	end_object(out);
	begin_object(out, STORAGE, "_StorageInfo");
	put_text(out, "relative_path");
	put_text(out, file);
	put_text(out, "offset");
	put_int(out, item->at);
	put_text(out, "length");
	put_int(out, item->bytes);
	end_object(out);
}

static int add_metadata(struct making *m, const struct item *items, size_t nr,
			const struct shard *shards)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	int err;

	if (!out)
		return -ENOMEM;
	fputs(PICKLE_BEGIN, out);
	begin_object(out, METADATA, "Metadata");
	put_text(out, "state_dict_metadata");
	fputs(PICKLE_DICT PICKLE_MARK, out);
	for (size_t i = 0; i < nr; i++)
		put_tensor_metadata(out, items[i].t);
	fputs(PICKLE_SETITEMS, out);
	put_text(out, "planner_data");
	fputs(PICKLE_DICT PICKLE_MARK, out);
	for (size_t i = 0; i < nr; i++) {
		put_text(out, items[i].t->name);
		fputs(PICKLE_MARK, out);
		put_text(out, items[i].t->name);
		fputs(PICKLE_TUPLE, out);
	}
	fputs(PICKLE_SETITEMS, out);
	put_text(out, "storage_data");
	fputs(PICKLE_DICT PICKLE_MARK, out);
	for (size_t i = 0; i < nr; i++)
		put_storage(out, &items[i], shards[items[i].file].name);
	fputs(PICKLE_SETITEMS, out);
	end_object(out);
	fputs(PICKLE_END, out);
	if (fclose(out))
		return -ENOMEM;
	err = file_begin(m, &m->v->files[m->v->nr_files++], ".metadata", text, len, 0);
	free(text);
	return err;
}

/* --- all of it --- */

/* Begins the file number @nr, which may get all tensors. */
static int begin_shard(struct making *m, struct shard *s, unsigned nr, size_t nr_tensors)
{
	int err;

	snprintf(s->name, sizeof(s->name), "__%u_0.distcp", nr);
	s->f = &m->v->files[m->v->nr_files++];
	err = file_begin(m, s->f, s->name, "", 0, 2 * nr_tensors + 1);
	s->f->nr = 0;
	s->out = open_memstream(&s->text, &s->len);
	return !err && s->out ? 0 : -ENOMEM;
}

static int end_shard(struct making *m, struct shard *s)
{
	int err = s->out ? end_text(m, s) : 0;

	if (s->out)
		fclose(s->out);
	free(s->text);
	return err;
}

/* Of all tensors, the file that each goes into: files of about the same size, in their order. */
static size_t deal(struct making *m, struct item *items, unsigned nr_files, size_t *counts)
{
	uint64_t total = 0, done = 0;
	size_t nr = 0;

	for (size_t i = 0; i < m->nr; i++)
		total += m->tensors[i].bytes;
	for (size_t i = 0; i < m->nr; i++) {
		const struct view_tensor *t = &m->tensors[i];
		uint64_t file = total ? (uint64_t)((__uint128_t)done * nr_files / total) : 0;

		done += t->bytes;
		if (!type_torch_name(t->dtype)) {
			making_tell(m, t->name, "torch has no such type of elements");
			m->v->nr_tensors--;
			continue;
		}
		file = file < nr_files ? file : nr_files - 1;
		items[nr++] = (struct item){.t = t, .file = (unsigned)file};
		counts[file]++;
	}
	return nr;
}

int view_form_dcp(struct making *m)
{
	unsigned nr_files = m->v->spec.nr_files ? m->v->spec.nr_files : 1;
	__cleanup_free struct shard *shards = calloc(nr_files, sizeof(*shards));
	__cleanup_free struct item *items = calloc(m->nr + 1, sizeof(*items));
	__cleanup_free size_t *counts = calloc(nr_files, sizeof(*counts));
	size_t nr;
	int err = 0, last;

	m->v->files = calloc(nr_files + 1, sizeof(*m->v->files));
	if (!shards || !items || !counts || !m->v->files)
		return -ENOMEM;
	nr = deal(m, items, nr_files, counts);
	for (unsigned i = 0; i < nr_files && !err; i++)
		err = begin_shard(m, &shards[i], i, counts[i]);
	for (size_t i = 0; i < nr && !err; i++)
		err = put_item(m, &shards[items[i].file], &items[i]);
	for (unsigned i = 0; i < nr_files; i++) {
		last = end_shard(m, &shards[i]);
		err = err ? err : last;
	}
	return err ? err : add_metadata(m, items, nr, shards);
}
