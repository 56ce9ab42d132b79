/* SPDX-License-Identifier: MIT */
/*
 * Reads headers of safetensors files as strictly as safetensors itself does, since they come from
 * anywhere: what an index has is within the file, does not overlap, and has the size that type and
 * shape say. No lock: an index does not change once it is open.
 */
#include "client/index.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/dtype.h"
#include "client/header.h"
#include "client/io.h"
#include "client/json.h"
#include "client/session.h"

#define DIMENSIONS_MAX 32
#define NUMBERS_BLOCK  4096

static const char no_object[] = "its header is no JSON object of tensors";
static const char no_utf8[] = "its header is not UTF-8";
static const char no_tensor[] =
	"its header has a tensor without dtype, shape and data_offsets, or with one of them twice";
static const char no_metadata[] = "its __metadata__ is no object of strings, or there twice";
static const char no_dtype[] = "its header has a tensor of a type that safetensors does not know";
static const char no_size[] =
	"its header has a tensor whose data_offsets are not as many bytes as its shape";
static const char no_cover[] =
	"its tensors overlap, leave a part of the file out, or end behind it: was it cut off?";
static const char no_unique[] = "its header has two tensors of one name";
static const char no_shards[] = "its DCP_SHARDING_INFO is damaged";
static const char no_memory[] = "there is no memory for its header";

struct numbers {
	struct numbers *next;
	size_t used;
	uint64_t n[NUMBERS_BLOCK];
};

struct pair {
	const char *key, *value;
};

struct ckptfs_index {
	int fd;
	char *text; /* of the header; the strings below point into it */
	struct ckptfs_entry *entries;
	size_t nr, room;
	struct ckptfs_entry **by_name;
	struct pair *pairs;
	size_t nr_pairs, room_pairs;
	struct numbers *numbers;
};

/* --- parts of the index --- */

/* Makes room for one more in an array; NULL: no memory. */
static void *grown(void *array, size_t nr, size_t *room, size_t size)
{
	void *more;

	if (nr < *room)
		return array;
	more = reallocarray(array, *room ? *room * 2 : 64, size);
	if (more)
		*room = *room ? *room * 2 : 64;
	return more;
}

/* A copy that lives as long as the index. */
static const uint64_t *keep(struct ckptfs_index *ix, const uint64_t *n, unsigned nr)
{
	struct numbers *b = ix->numbers;

	if (!b || b->used + nr > NUMBERS_BLOCK) {
		b = malloc(sizeof(*b));
		if (!b)
			return NULL;
		b->used = 0;
		b->next = ix->numbers;
		ix->numbers = b;
	}
	b->used += nr;
	return memcpy(b->n + b->used - nr, n, nr * sizeof(*n));
}

static const char *read_numbers(struct ckptfs_index *ix, struct ckpt_json *j, const uint64_t **n,
				uint32_t *nr)
{
	uint64_t got[DIMENSIONS_MAX];
	bool first = true;

	*nr = 0;
	if (!ckpt_json_take(j, '['))
		return no_tensor;
	while (ckpt_json_more(j, ']', &first))
		if (*nr == DIMENSIONS_MAX || !ckpt_json_number(j, &got[(*nr)++]))
			return no_tensor;
	if (j->bad)
		return no_tensor;
	*n = keep(ix, got, *nr);
	return *n ? NULL : no_memory;
}

/* --- the header --- */

struct seen {
	const uint64_t *offsets;
	uint32_t nr_offsets;
};

static const char *read_field(struct ckptfs_index *ix, struct ckpt_json *j, const char *name,
			      struct ckptfs_entry *e, struct seen *seen)
{
	if (!strcmp(name, "dtype")) {
		if (e->dtype)
			return no_tensor;
		e->dtype = ckpt_json_string(j);
		return e->dtype ? NULL : no_tensor;
	}
	if (!strcmp(name, "shape"))
		return e->shape ? no_tensor : read_numbers(ix, j, &e->shape, &e->ndim);
	if (!strcmp(name, "data_offsets"))
		return seen->offsets ? no_tensor
				     : read_numbers(ix, j, &seen->offsets, &seen->nr_offsets);
	return ckpt_json_skip(j) ? NULL : no_object;
}

static const char *read_tensor(struct ckptfs_index *ix, struct ckpt_json *j, const char *name)
{
	struct ckptfs_entry e = {.name = name}, *entries;
	struct seen seen = {0};
	bool first = true;
	unsigned bits;

	if (!ckpt_json_take(j, '{'))
		return no_object;
	while (ckpt_json_more(j, '}', &first)) {
		const char *field = ckpt_json_name(j), *why;

		why = field ? read_field(ix, j, field, &e, &seen) : no_object;
		if (why)
			return why;
	}
	if (j->bad || !e.dtype || !e.shape || seen.nr_offsets != 2)
		return no_tensor;
	bits = ckpt_dtype_bits(e.dtype);
	if (!bits)
		return no_dtype;
	e.file_off = seen.offsets[0]; /* counted in the data until all are read */
	if (ckpt_dtype_bytes(bits, e.shape, e.ndim, &e.bytes) ||
	    seen.offsets[1] < seen.offsets[0] || seen.offsets[1] - seen.offsets[0] != e.bytes)
		return no_size;
	entries = grown(ix->entries, ix->nr, &ix->room, sizeof(*entries));
	if (!entries)
		return no_memory;
	ix->entries = entries;
	ix->entries[ix->nr++] = e;
	return NULL;
}

static const char *read_metadata(struct ckptfs_index *ix, struct ckpt_json *j)
{
	bool first = true;

	if (ix->pairs || !ckpt_json_take(j, '{'))
		return no_metadata;
	do { /* sets pairs even if there is none */
		struct pair *pairs =
			grown(ix->pairs, ix->nr_pairs, &ix->room_pairs, sizeof(*pairs));

		if (!pairs)
			return no_memory;
		ix->pairs = pairs;
		if (!ckpt_json_more(j, '}', &first))
			break;
		ix->pairs[ix->nr_pairs].key = ckpt_json_name(j);
		ix->pairs[ix->nr_pairs].value = ckpt_json_string(j);
	} while (ix->pairs[ix->nr_pairs++].value);
	return j->bad ? no_metadata : NULL;
}

static const char *read_header(struct ckptfs_index *ix, struct ckpt_json *j)
{
	bool first = true;

	if (*j->at != '{')
		return no_object;
	ckpt_json_take(j, '{');
	while (ckpt_json_more(j, '}', &first)) {
		const char *name = ckpt_json_name(j), *why;

		if (!name)
			return no_object;
		why = strcmp(name, CKPT_HEADER_METADATA) ? read_tensor(ix, j, name)
							 : read_metadata(ix, j);
		if (why)
			return why;
	}
	return ckpt_json_over(j) ? NULL : no_object;
}

/* --- checks of all tensors together --- */

static int by_offset(const void *a, const void *b)
{
	const struct ckptfs_entry *x = a, *y = b;

	if (x->file_off != y->file_off)
		return x->file_off < y->file_off ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
	return strcmp((*(struct ckptfs_entry *const *)a)->name,
		      (*(struct ckptfs_entry *const *)b)->name);
}

static const char *place_all(struct ckptfs_index *ix, uint64_t data_off, uint64_t data_len)
{
	uint64_t at = 0;

	if (ix->nr)
		qsort(ix->entries, ix->nr, sizeof(*ix->entries), by_offset);
	for (size_t i = 0; i < ix->nr; i++) {
		struct ckptfs_entry *e = &ix->entries[i];

		if (e->file_off != at || e->bytes > data_len - at)
			return no_cover;
		at += e->bytes;
		e->file_off += data_off;
	}
	return at == data_len ? NULL : no_cover;
}

static const char *name_all(struct ckptfs_index *ix)
{
	if (!ix->nr)
		return NULL;
	ix->by_name = calloc(ix->nr, sizeof(struct ckptfs_entry *));
	if (!ix->by_name)
		return no_memory;
	for (size_t i = 0; i < ix->nr; i++)
		ix->by_name[i] = &ix->entries[i];
	qsort(ix->by_name, ix->nr, sizeof(struct ckptfs_entry *), by_name);
	for (size_t i = 1; i < ix->nr; i++)
		if (!strcmp(ix->by_name[i - 1]->name, ix->by_name[i]->name))
			return no_unique;
	return NULL;
}

static struct ckptfs_entry *find(const struct ckptfs_index *ix, const char *name)
{
	struct ckptfs_entry wanted = {.name = name}, *key = &wanted, **found;

	if (!ix->nr)
		return NULL;
	found = bsearch(&key, ix->by_name, ix->nr, sizeof(struct ckptfs_entry *), by_name);
	return found ? *found : NULL;
}

/* --- parts of larger tensors --- */

static const char *read_shard(struct ckptfs_index *ix, struct ckpt_json *j, struct ckptfs_entry *e)
{
	uint32_t nr_offset = e->ndim, nr_global = e->ndim;
	bool first = true;
	uint64_t end;

	if (!ckpt_json_take(j, '{'))
		return no_shards;
	while (ckpt_json_more(j, '}', &first)) {
		const char *field = ckpt_json_name(j), *why = NULL;

		if (!field)
			return no_shards;
		if (!strcmp(field, "saved_offsets"))
			why = read_numbers(ix, j, &e->shard_offset, &nr_offset);
		else if (!strcmp(field, "global_shape"))
			why = read_numbers(ix, j, &e->global_shape, &nr_global);
		else
			ckpt_json_skip(j);
		if (why)
			return why == no_memory ? why : no_shards;
	}
	if (j->bad || !e->shard_offset || nr_offset != e->ndim || nr_global != e->ndim)
		return no_shards;
	for (uint32_t d = 0; d < e->ndim; d++)
		if (__builtin_add_overflow(e->shard_offset[d], e->shape[d], &end) ||
		    (e->global_shape && end > e->global_shape[d]))
			return no_shards;
	return NULL;
}

/* @text is a copy: parsing overwrites it. */
static const char *read_shards(struct ckptfs_index *ix, char *text)
{
	struct ckpt_json j = {.at = text, .end = text + strlen(text)};
	bool first = true;

	if (!ckpt_json_take(&j, '{'))
		return no_shards;
	while (ckpt_json_more(&j, '}', &first)) {
		const char *name = ckpt_json_name(&j), *why = NULL;
		struct ckptfs_entry *e = name ? find(ix, name) : NULL;

		if (!name || (e && e->shard_offset))
			return no_shards;
		if (e)
			why = read_shard(ix, &j, e);
		else
			ckpt_json_skip(&j);
		if (why)
			return why;
	}
	return ckpt_json_over(&j) ? NULL : no_shards;
}

static const char *find_shards(struct ckptfs_index *ix)
{
	const char *text = ckptfs_index_metadata(ix, CKPT_HEADER_SHARDS), *why;
	char *copy;

	if (!text)
		return NULL;
	copy = strdup(text);
	if (!copy)
		return no_memory;
	why = read_shards(ix, copy);
	free(copy);
	return why;
}

/* --- from the file to the index --- */

int ckpt_index_parse(char *text, size_t len, uint64_t data_len, struct ckptfs_index **index,
		     const char **why)
{
	struct ckptfs_index *ix = calloc(1, sizeof(*ix));
	struct ckpt_json j = {.at = text, .end = text + len};

	*index = NULL;
	*why = no_memory;
	if (!ix) {
		free(text);
		return -ENOMEM;
	}
	ix->fd = -1;
	ix->text = text;
	if (!len)
		*why = no_object;
	else
		*why = ckpt_utf8(text, len) ? read_header(ix, &j) : no_utf8;
	if (!*why)
		*why = place_all(ix, 8 + len, data_len);
	if (!*why)
		*why = name_all(ix);
	if (!*why)
		*why = find_shards(ix);
	if (!*why) {
		*index = ix;
		return 0;
	}
	ckptfs_index_close(ix);
	return *why == no_memory ? -ENOMEM : -EILSEQ;
}

static int damaged(const char *path, int err, const char *why)
{
	return ckpt_error(NULL, err, "%s: is no safetensors file, or damaged: %s", path, why);
}

static int read_text(int fd, const char *path, uint64_t off, void *to, size_t len)
{
	size_t done;
	int err = ckpt_read_all(fd, to, len, off, &done);

	return err ? ckpt_error(NULL, err, "%s: its header cannot be read: %s", path,
				err == -ENODATA ? "the file has become shorter" : strerror(-err))
		   : 0;
}

static int read_file(int fd, const char *path, struct ckptfs_index **ix)
{
	unsigned char length[8];
	uint64_t len = 0, size;
	struct stat st;
	const char *why;
	char *text;
	int err;

	if (fstat(fd, &st))
		return ckpt_error(NULL, -errno, "%s: %s", path, strerror(errno));
	size = (uint64_t)st.st_size;
	if (!S_ISREG(st.st_mode) || size < sizeof(length))
		return damaged(path, -EILSEQ, "it has no header");
	err = read_text(fd, path, 0, length, sizeof(length));
	if (err)
		return err;
	for (int i = 7; i >= 0; i--)
		len = len << 8 | length[i];
	if (!len || !memcmp(length, CKPTFS_UNFINISHED, sizeof(length)))
		return damaged(path, -EILSEQ, "its header was never written");
	if (len > CKPT_HEADER_MAX || len > size - sizeof(length))
		return damaged(path, -EILSEQ, "its header would be longer than it can be");
	text = malloc(len);
	if (!text)
		return damaged(path, -ENOMEM, no_memory);
	err = read_text(fd, path, sizeof(length), text, len);
	if (err) {
		free(text);
		return err;
	}
	err = ckpt_index_parse(text, len, size - sizeof(length) - len, ix, &why);
	return err ? damaged(path, err, why) : 0;
}

int ckptfs_index_open(const char *path, struct ckptfs_index **ix)
{
	int fd, err;

	*ix = NULL;
	ckpt_error(NULL, 0, "%s", "");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return ckpt_error(NULL, -errno, "%s: %s", path, strerror(errno));
	err = read_file(fd, path, ix);
	if (err)
		close(fd);
	else
		(*ix)->fd = fd;
	return err;
}

void ckptfs_index_close(struct ckptfs_index *ix)
{
	if (!ix)
		return;
	if (ix->fd >= 0)
		close(ix->fd);
	while (ix->numbers) {
		struct numbers *next = ix->numbers->next;

		free(ix->numbers);
		ix->numbers = next;
	}
	free(ix->by_name);
	free(ix->entries);
	free(ix->pairs);
	free(ix->text);
	free(ix);
}

int ckptfs_index_fd(const struct ckptfs_index *ix)
{
	return ix->fd;
}

size_t ckptfs_index_entries(const struct ckptfs_index *ix, const struct ckptfs_entry **entries)
{
	*entries = ix->entries;
	return ix->nr;
}

const struct ckptfs_entry *ckptfs_index_find(const struct ckptfs_index *ix, const char *name)
{
	return find(ix, name);
}

const char *ckptfs_index_metadata(const struct ckptfs_index *ix, const char *key)
{
	for (size_t i = 0; i < ix->nr_pairs; i++)
		if (!strcmp(ix->pairs[i].key, key))
			return ix->pairs[i].value;
	return NULL;
}
