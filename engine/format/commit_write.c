/* SPDX-License-Identifier: MIT */
/* Writes a commit file (commit.h) piece by piece; the digest of what it wrote ends the file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/format/commit.h"

#define BUFFER_BYTES ((size_t)64 << 10)

enum section { IN_ENTRIES, IN_TENSORS, IN_STATS, ENDED };

struct commit_writer {
	int (*write)(void *arg, const void *data, size_t len);
	void *arg;
	XXH3_state_t *state; /* of all bytes so far */
	int err;	     /* the first error: from then on nothing is written */
	enum section section;
	bool any;      /* the section has an element */
	size_t filled; /* bytes in the buffer */
	char buffer[BUFFER_BYTES];
	char previous[COMMIT_PATH_MAX];
};

static void flush(struct commit_writer *w)
{
	if (!w->err && w->filled)
		w->err = w->write(w->arg, w->buffer, w->filled);
	w->filled = 0;
}

/* Writes bytes that do not enter the digest. */
static void put_raw(struct commit_writer *w, const char *data, size_t len)
{
	while (len) {
		size_t room = BUFFER_BYTES - w->filled, part = len < room ? len : room;

		memcpy(w->buffer + w->filled, data, part);
		w->filled += part;
		data += part;
		len -= part;
		if (w->filled == BUFFER_BYTES)
			flush(w);
	}
}

static void put(struct commit_writer *w, const char *data, size_t len)
{
	XXH3_128bits_update(w->state, data, len);
	put_raw(w, data, len);
}

static void put_text(struct commit_writer *w, const char *text)
{
	put(w, text, strlen(text));
}

static int put_part(const char *data, size_t len, void *w)
{
	put(w, data, len);
	return 0;
}

/* Takes over @value; NULL: the caller had no memory for it. */
static void put_json(struct commit_writer *w, json_t *value)
{
	if (!w->err && (!value || json_dump_callback(value, put_part, w,
						     JSON_ENCODE_ANY | JSON_REAL_PRECISION(9))))
		w->err = -ENOMEM;
	json_decref(value);
}

static void put_member(struct commit_writer *w, const char *key, json_t *value)
{
	put_text(w, "\"");
	put_text(w, key);
	put_text(w, "\": ");
	put_json(w, value);
	put_text(w, ",\n");
}

/* The next element ends the line of the one before, because only then a comma is due. */
static void begin_element(struct commit_writer *w)
{
	put_text(w, w->any ? ",\n" : "\n");
	w->any = true;
}

static json_t *json_of_entry(const struct commit_entry *e)
{
	json_t *o = json_object();
	int err = json_set_path(o, "path", "path_hex", e->path);

	if (e->kind == COMMIT_IS_FILE) {
		err |= json_object_set_new(o, "size", json_integer((json_int_t)e->size));
		err |= json_object_set_new(o, "xxh3", json_string(e->xxh3));
		err |= json_object_set_new(o, "node", json_string(e->node));
		err |= json_object_set_new(o, "rank", json_integer(e->rank));
	} else if (e->kind == COMMIT_IS_SYMLINK) {
		err |= json_set_path(o, "target", "target_hex", e->target);
	} else {
		err |= json_object_set_new(o, "directory", json_true());
	}
	if (!err)
		return o;
	json_decref(o);
	return NULL;
}

static void put_header(struct commit_writer *w, const struct commit_header *h)
{
	bool hex;
	json_t *unit = json_path(h->unit, &hex);

	put_text(w, "{\n");
	put_member(w, "ckptfs", json_integer(COMMIT_VERSION));
	put_member(w, hex ? "unit_hex" : "unit", unit);
	put_member(w, "generation", json_string(h->generation));
	put_member(w, "committed_ns", json_integer((json_int_t)h->committed_ns));
	put_member(w, "sequence", json_integer((json_int_t)h->sequence));
	put_member(w, "job", json_text(h->job));
	put_member(w, "world",
		   json_pack("{s:I, s:I}", "ranks", (json_int_t)h->ranks, "nodes",
			     (json_int_t)h->nodes));
	put_member(w, "done", json_text(h->done));
	put_text(w, "\"files\": [");
}

int commit_writer_create(struct commit_writer **out, const struct commit_header *header,
			 int (*write)(void *arg, const void *data, size_t len), void *arg)
{
	struct commit_writer *w;

	*out = NULL;
	if (commit_header_problem(header))
		return -EINVAL;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->write = write;
	w->arg = arg;
	w->state = XXH3_createState();
	if (!w->state) {
		free(w);
		return -ENOMEM;
	}
	XXH3_128bits_reset(w->state);
	put_header(w, header);
	*out = w;
	return 0;
}

int commit_writer_add(struct commit_writer *w, const struct commit_entry *entry)
{
	if (w->section != IN_ENTRIES || commit_entry_problem(entry, w->previous))
		return -EINVAL;
	begin_element(w);
	put_json(w, json_of_entry(entry));
	snprintf(w->previous, sizeof(w->previous), "%s", entry->path);
	return w->err;
}

static void enter(struct commit_writer *w, enum section section, const char *head)
{
	if (w->section >= section)
		return;
	put_text(w, "\n],\n");
	put_text(w, head);
	w->section = section;
	w->any = false;
}

static void enter_stats(struct commit_writer *w)
{
	enter(w, IN_STATS, "\"stats\": {");
}

static json_t *json_of_numbers(const uint64_t *n, unsigned nr)
{
	json_t *list = json_array();
	unsigned i;

	for (i = 0; i < nr; i++)
		json_array_append_new(list, json_integer((json_int_t)n[i]));
	return list;
}

json_t *commit_tensor_to_json(const struct commit_tensor *t)
{
	static const char *const kinds[] = {"storage", "tensor", "object"};
	json_t *o = json_object();
	int err = json_set_path(o, "name", "name_hex", t->name);

	if (t->kind != COMMIT_TENSOR)
		err |= json_object_set_new(o, "kind", json_string(kinds[t->kind]));
	err |= json_object_set_new(o, "dtype", json_string(t->dtype));
	if (t->ndim) {
		err |= json_object_set_new(o, "shape", json_of_numbers(t->shape, t->ndim));
		err |= json_object_set_new(o, "offset", json_of_numbers(t->offset, t->ndim));
		err |= json_object_set_new(o, "length", json_of_numbers(t->length, t->ndim));
	}
	if (t->path)
		err |= json_set_path(o, "path", "path_hex", t->path);
	err |= json_object_set_new(o, "at", json_integer((json_int_t)t->at));
	err |= json_object_set_new(o, "bytes", json_integer((json_int_t)t->bytes));
	if (t->from)
		err |= json_object_set_new(o, "from", json_integer((json_int_t)t->from));
	if (t->xxh3)
		err |= json_object_set_new(o, "xxh3", json_string(t->xxh3));
	if (!err)
		return o;
	json_decref(o);
	return NULL;
}

int commit_writer_add_tensor(struct commit_writer *w, const struct commit_tensor *t)
{
	if (w->section > IN_TENSORS || commit_tensor_problem(t))
		return -EINVAL;
	enter(w, IN_TENSORS, "\"tensors\": [");
	begin_element(w);
	put_json(w, commit_tensor_to_json(t));
	return w->err;
}

int commit_writer_add_stats(struct commit_writer *w, const struct commit_stats *s)
{
	json_t *node = json_string(s->node);

	if (!node || w->section == ENDED || s->bytes > INT64_MAX || s->files > INT64_MAX ||
	    !(s->seconds >= 0 && s->seconds <= 1e18)) {
		json_decref(node);
		return -EINVAL;
	}
	enter_stats(w);
	begin_element(w);
	put_json(w, node);
	put_text(w, ": ");
	put_json(w, json_pack("{s:I, s:I, s:f}", "bytes", (json_int_t)s->bytes, "files",
			      (json_int_t)s->files, "seconds", s->seconds));
	return w->err;
}

int commit_writer_end(struct commit_writer *w)
{
	static const char zeros[] = "00000000000000000000000000000000", tail[] = "\"\n}\n";
	char hex[COMMIT_HEX];
	XXH128_hash_t hash;

	if (w->section == ENDED)
		return -EINVAL;
	enter_stats(w);
	w->section = ENDED;
	put_text(w, "\n},\n\"digest\": \"");
	XXH3_128bits_update(w->state, zeros, strlen(zeros));
	XXH3_128bits_update(w->state, tail, strlen(tail));
	hash = XXH3_128bits_digest(w->state);
	snprintf(hex, sizeof(hex), "%016llx%016llx", (unsigned long long)hash.high64,
		 (unsigned long long)hash.low64);
	put_raw(w, hex, strlen(hex));
	put_raw(w, tail, strlen(tail));
	flush(w);
	return w->err;
}

void commit_writer_destroy(struct commit_writer *w)
{
	if (!w)
		return;
	XXH3_freeState(w->state);
	free(w);
}
