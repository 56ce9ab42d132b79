/* SPDX-License-Identifier: MIT */
/* Reads a commit file (commit.h) piece by piece, and believes nothing that it has not checked. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/format/commit_lines.h"

/* The required members, a bit each. */
enum {
	HAS_UNIT = 1,
	HAS_GENERATION = 2,
	HAS_TIME = 4,
	HAS_SEQUENCE = 8,
	HAS_JOB = 16,
	HAS_WORLD = 32,
	HAS_DONE = 64,
	HAS_HEADER = 127,
	HAS_FILES = 128,
	HAS_STATS = 256,
	HAS_ALL = 511,
	HAS_TENSORS = 512, /* optional */
};

/* --- values --- */

static bool get_u64(const json_t *value, uint64_t *out)
{
	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return false;
	*out = (uint64_t)json_integer_value(value);
	return true;
}

static bool get_count(const json_t *value, unsigned *out)
{
	uint64_t n;

	if (!get_u64(value, &n) || n > INT_MAX)
		return false;
	*out = (unsigned)n;
	return true;
}

static bool get_text(const json_t *value, char *buf, size_t size)
{
	if (!json_is_string(value) || json_string_length(value) >= size)
		return false;
	memcpy(buf, json_string_value(value), json_string_length(value) + 1);
	return true;
}

/* --- members --- */

/* Members of the header. */
static const struct {
	const char *key;
	unsigned bit;
} members[] = {
	{"unit", HAS_UNIT},	    {"unit_hex", HAS_UNIT},	{"generation", HAS_GENERATION},
	{"committed_ns", HAS_TIME}, {"sequence", HAS_SEQUENCE}, {"job", HAS_JOB},
	{"world", HAS_WORLD},	    {"done", HAS_DONE},
};

static bool is_key(const char *key, const char *name)
{
	return !strcmp(key, name);
}

/* Returns 0 if the header has no such member. */
static unsigned bit_of(const char *key)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(members); i++)
		if (is_key(key, members[i].key))
			return members[i].bit;
	return 0;
}

/* True for members that have one fixed place and are read there. */
static bool is_placed(const char *key)
{
	return is_key(key, "files") || is_key(key, "tensors") || is_key(key, "stats") ||
	       is_key(key, "ckptfs") || is_key(key, "digest");
}

static bool get_member(struct commit_header *h, const char *key, const json_t *v)
{
	switch (bit_of(key)) {
	case HAS_UNIT:
		if (is_key(key, "unit"))
			return get_text(v, h->unit, sizeof(h->unit));
		return json_unhex(v, h->unit, sizeof(h->unit));
	case HAS_GENERATION:
		return get_text(v, h->generation, sizeof(h->generation));
	case HAS_TIME:
		return get_u64(v, &h->committed_ns);
	case HAS_SEQUENCE:
		return get_u64(v, &h->sequence);
	case HAS_JOB:
		return get_text(v, h->job, sizeof(h->job));
	case HAS_DONE:
		return get_text(v, h->done, sizeof(h->done));
	case HAS_WORLD:
		return get_count(json_object_get(v, "ranks"), &h->ranks) &&
		       get_count(json_object_get(v, "nodes"), &h->nodes);
	default:
		return true;
	}
}

static int take_member(struct reader *r, const json_t *member)
{
	const char *key = json_object_iter_key(json_object_iter((json_t *)member));
	unsigned bit = bit_of(key);

	if (is_placed(key))
		return commit_damaged(r, "a member in the wrong place");
	if (bit & r->has || (bit && r->has & HAS_FILES))
		return commit_damaged(r, "a member twice, or behind the files");
	if (!get_member(r->header, key, json_object_get(member, key)))
		return commit_damaged(r, "a value that its key cannot have");
	r->has |= bit;
	return 0;
}

/* --- the entries --- */

/* Returns NULL, or what is wrong. */
static const char *parse_entry(struct reader *r, const json_t *o, struct commit_entry *entry)
{
	json_int_t rank = json_get_int(o, "rank", INT_MIN);
	bool link = json_object_get(o, "target") || json_object_get(o, "target_hex");
	bool dir = json_object_get(o, "directory"), file = json_object_get(o, "size");

	if (link + dir + file != 1)
		return "an entry that is not one of file, symbolic link and directory";
	if (!json_get_path(o, "path", "path_hex", r->entry_path, sizeof(r->entry_path)))
		return "an entry without a path";
	entry->path = r->entry_path;
	entry->kind = link ? COMMIT_IS_SYMLINK : dir ? COMMIT_IS_DIRECTORY : COMMIT_IS_FILE;
	if (link &&
	    !json_get_path(o, "target", "target_hex", r->entry_target, sizeof(r->entry_target)))
		return "a symbolic link without a target";
	entry->target = link ? r->entry_target : NULL;
	if (dir && !json_is_true(json_object_get(o, "directory")))
		return "a directory that is none";
	if (!file)
		return NULL;
	if (!get_u64(json_object_get(o, "size"), &entry->size))
		return "a size that is out of range";
	if (!get_text(json_object_get(o, "xxh3"), entry->xxh3, sizeof(entry->xxh3)))
		return "a file without a digest";
	entry->node = json_string_value(json_object_get(o, "node"));
	if (rank < -1 || rank > INT_MAX)
		return "a rank that is out of range";
	entry->rank = (int)rank;
	return NULL;
}

static int take_entry(struct reader *r)
{
	json_t *o = json_loadb(r->line + 1, r->len, JSON_REJECT_DUPLICATES, NULL);
	struct commit_entry entry = {0};
	const char *problem = "a line that is no object";
	int err = 0;

	if (json_is_object(o))
		problem = parse_entry(r, o, &entry);
	if (!problem)
		problem = commit_entry_problem(&entry, r->previous);
	if (problem)
		err = commit_damaged(r, problem);
	else
		memcpy(r->previous, entry.path, strlen(entry.path) + 1);
	if (!err && r->entry)
		err = r->entry(r->arg, &entry);
	json_decref(o);
	return err;
}

/* --- the tensors --- */

/* Reads @nr numbers, UINT_MAX: all there are. Returns their number; UINT_MAX: invalid. */
static unsigned get_numbers(const json_t *list, unsigned nr, uint64_t out[COMMIT_DIMS])
{
	size_t size = json_array_size(list), i;

	if (!size || size > COMMIT_DIMS || (nr != UINT_MAX && size != nr))
		return UINT_MAX;
	for (i = 0; i < size; i++)
		if (!get_u64(json_array_get(list, i), &out[i]))
			return UINT_MAX;
	return (unsigned)size;
}

static bool get_kind(const json_t *o, enum commit_tensor_kind *kind)
{
	const char *text = json_get_text(o, "kind", "tensor");

	*kind = is_key(text, "storage")	 ? COMMIT_STORAGE
		: is_key(text, "object") ? COMMIT_OBJECT
					 : COMMIT_TENSOR;
	return *kind != COMMIT_TENSOR || is_key(text, "tensor");
}

const char *commit_tensor_from_json(const json_t *o, struct commit_tensor *t,
				    struct commit_tensor_room *room)
{
	if (!json_get_path(o, "name", "name_hex", room->name, sizeof(room->name)))
		return "a tensor without a name";
	t->name = room->name;
	t->dtype = json_string_value(json_object_get(o, "dtype"));
	if (!t->dtype || !get_kind(o, &t->kind))
		return "a tensor without a dtype, or of no known kind";
	if (json_object_get(o, "shape")) {
		t->ndim = get_numbers(json_object_get(o, "shape"), UINT_MAX, room->shape);
		if (t->ndim == UINT_MAX ||
		    get_numbers(json_object_get(o, "offset"), t->ndim, room->offset) != t->ndim ||
		    get_numbers(json_object_get(o, "length"), t->ndim, room->length) != t->ndim)
			return "a tensor with a shape that cannot be";
		t->shape = room->shape;
		t->offset = room->offset;
		t->length = room->length;
	}
	if (!get_u64(json_object_get(o, "at"), &t->at) ||
	    !get_u64(json_object_get(o, "bytes"), &t->bytes) ||
	    (json_object_get(o, "from") && !get_u64(json_object_get(o, "from"), &t->from)))
		return "a tensor without a place";
	t->xxh3 = json_get_text(o, "xxh3", NULL);
	return commit_tensor_problem(t);
}

static int take_tensor(struct reader *r)
{
	json_t *o = json_loadb(r->line + 1, r->len, JSON_REJECT_DUPLICATES, NULL);
	struct commit_tensor t = {.path = r->entry_path};
	const char *problem = "a line that is no object";
	int err = 0;

	if (json_is_object(o) &&
	    !json_get_path(o, "path", "path_hex", r->entry_path, sizeof(r->entry_path)))
		problem = "a tensor without a path";
	else if (json_is_object(o))
		problem = commit_tensor_from_json(o, &t, &r->tensor_room);
	if (problem)
		err = commit_damaged(r, problem);
	else if (r->tensor)
		err = r->tensor(r->arg, &t);
	json_decref(o);
	return err;
}

static int take_stats(struct reader *r)
{
	json_t *o = commit_parse_member(r, '\0');
	const json_t *stats = json_object_iter_value(json_object_iter(o));
	uint64_t n;
	bool ok = get_u64(json_object_get(stats, "bytes"), &n) &&
		  get_u64(json_object_get(stats, "files"), &n) &&
		  json_is_number(json_object_get(stats, "seconds"));

	json_decref(o);
	return ok ? 0 : commit_damaged(r, "no numbers of a node");
}

/* Skips an element of an unknown section. */
static int skip_element(struct reader *r, char closing)
{
	json_t *o = closing == '}' ? commit_parse_member(r, '\0')
				   : json_loadb(r->line + 1, r->len,
						JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);

	json_decref(o);
	return o ? 0 : commit_damaged(r, "a line that is no JSON");
}

/* --- sections --- */

/* The bit of a known section, 0 for another one; -EBADMSG: the section is misplaced. */
static int begin_section(struct reader *r, char closing)
{
	json_t *o = commit_parse_member(r, closing);
	const char *key = o ? json_object_iter_key(json_object_iter(o)) : NULL;
	bool misplaced = false;
	int bit = 0;

	if (!key)
		return commit_damaged(r, "a line that is no JSON");
	if (is_key(key, "files") && closing == ']')
		bit = HAS_FILES;
	else if (is_key(key, "tensors") && closing == ']')
		bit = HAS_TENSORS;
	else if (is_key(key, "stats") && closing == '}')
		bit = HAS_STATS;
	else
		misplaced = is_placed(key) || bit_of(key);
	json_decref(o);
	if (misplaced || r->has & (unsigned)bit)
		return commit_damaged(r, "a member in the wrong place");
	if (bit == HAS_FILES && (r->has & HAS_HEADER) != HAS_HEADER)
		return commit_damaged(r, "the files without all that belongs before them");
	if (bit == HAS_TENSORS && !(r->has & HAS_FILES))
		return commit_damaged(r, "tensors before the files that they are in");
	return bit;
}

static int read_elements(struct reader *r, int bit, char closing)
{
	bool any = false, comma = false;

	for (;;) {
		int err = commit_next_line(r);
		bool end, last_comma = comma;

		if (err)
			return err;
		comma = commit_take_comma(r);
		end = r->len == 1 && r->line[1] == closing;
		if (any && end == last_comma)
			return commit_damaged(r, end ? "a comma too many" : "a comma too few");
		if (end)
			return comma ? 0 : commit_damaged(r, "a comma too few");
		any = true;
		if (bit == HAS_FILES)
			err = take_entry(r);
		else if (bit == HAS_TENSORS)
			err = take_tensor(r);
		else if (bit == HAS_STATS)
			err = take_stats(r);
		else
			err = skip_element(r, closing);
		if (err)
			return err;
	}
}

static int read_section(struct reader *r, int bit, char closing)
{
	int err;

	r->in_section = true;
	err = read_elements(r, bit, closing);
	r->in_section = false;
	r->has |= (unsigned)bit;
	return err;
}

/* --- the file --- */

static int read_version(struct reader *r)
{
	json_t *o;
	json_int_t version = 0;
	int err = commit_next_line(r);

	if (!err && !commit_line_is(r, "{"))
		return commit_damaged(r, "not the beginning of a commit file");
	if (!err)
		err = commit_next_line(r);
	if (err)
		return err;
	if (!commit_take_comma(r))
		return commit_damaged(r, "a comma too few");
	o = commit_parse_member(r, '\0');
	version = json_get_int(o, "ckptfs", 0);
	json_decref(o);
	if (version < 1)
		return commit_damaged(r, "no format number in key 'ckptfs'");
	if (version > COMMIT_VERSION)
		return FAIL(r->e, EPROTO, COMMIT_NEWER, r->path, (long long)version,
			    COMMIT_VERSION);
	return 0;
}

/* Reads a member, or the head of a section (*@bit, *@closing). *@closing is '\0' for a member. */
static int read_member(struct reader *r, int *bit, char *closing)
{
	char last = r->len ? r->line[r->len] : '\0';
	json_t *o;
	int err;

	*closing = last == '[' ? ']' : last == '{' ? '}' : '\0';
	if (*closing) {
		*bit = begin_section(r, *closing);
		return *bit < 0 ? *bit : 0;
	}
	if (!commit_take_comma(r))
		return commit_damaged(r, "a comma too few");
	o = commit_parse_member(r, '\0');
	err = o ? take_member(r, o) : commit_damaged(r, "a line that is no JSON");
	json_decref(o);
	return err;
}

/* Reads up to the line that opens the entries. */
static int read_header(struct reader *r)
{
	int err = read_version(r), bit = 0;
	char closing;

	while (!err && bit != HAS_FILES) {
		err = commit_next_line(r);
		if (!err)
			err = read_member(r, &bit, &closing);
		if (!err && closing && bit != HAS_FILES)
			err = read_section(r, bit, closing);
	}
	if (!err) {
		const char *problem = commit_header_problem(r->header);

		if (problem)
			err = commit_damaged(r, problem);
	}
	return err;
}

/* True if the line is the digest's. */
static bool take_digest(struct reader *r)
{
	size_t start = strlen(DIGEST_START);
	const char *line = r->line + 1;

	if (r->len != start + DIGITS + 1 || memcmp(line, DIGEST_START, start) ||
	    line[start + DIGITS] != '"')
		return false;
	memcpy(r->digest, line + start, DIGITS);
	r->digest[DIGITS] = '\0';
	return commit_is_hex(r->digest);
}

static int read_end(struct reader *r)
{
	char hex[COMMIT_HEX];
	XXH128_hash_t hash;
	int err = commit_next_line(r), more;

	if (err)
		return err;
	if (!commit_line_is(r, "}"))
		return commit_damaged(r, "more behind the digest");
	more = commit_fill(r);
	if (more)
		return more < 0 ? more : commit_damaged(r, "more behind its end");
	if ((r->has & HAS_ALL) != HAS_ALL)
		return commit_damaged(r, "not all that belongs into it");
	hash = XXH3_128bits_digest(r->state);
	snprintf(hex, sizeof(hex), "%016llx%016llx", (unsigned long long)hash.high64,
		 (unsigned long long)hash.low64);
	return strcmp(hex, r->digest) ? commit_damaged(r, "its digest is another") : 0;
}

static int read_all(struct reader *r)
{
	int err = read_header(r), bit;
	char closing;

	if (!err)
		err = read_section(r, HAS_FILES, ']');
	while (!err) {
		err = commit_next_line(r);
		if (!err && take_digest(r))
			return read_end(r);
		if (!err)
			err = read_member(r, &bit, &closing);
		if (!err && closing)
			err = read_section(r, bit, closing);
	}
	return err;
}

static struct reader *reader_create(const struct source *src, const char *path,
				    struct commit_header *header, struct error *e)
{
	struct reader *r = calloc(1, sizeof(*r));

	if (r)
		r->state = XXH3_createState();
	if (!r || !r->state) {
		FAIL(e, ENOMEM, COMMIT_UNREADABLE, path, strerror(ENOMEM));
		free(r);
		return NULL;
	}
	XXH3_128bits_reset(r->state);
	r->src = src;
	r->path = path;
	r->header = header ? header : &r->unwanted;
	r->e = e;
	memset(r->header, 0, sizeof(*r->header));
	return r;
}

static void reader_destroy(struct reader *r)
{
	XXH3_freeState(r->state);
	free(r);
}

int commit_read(const struct source *src, const char *path, struct commit_header *header,
		int (*entry)(void *arg, const struct commit_entry *entry), void *arg,
		struct error *e)
{
	struct reader *r = reader_create(src, path, header, e);
	int err;

	if (!r)
		return -ENOMEM;
	r->entry = entry;
	r->arg = arg;
	err = read_all(r);
	reader_destroy(r);
	return err;
}

int commit_read_tensors(const struct source *src, const char *path,
			int (*tensor)(void *arg, const struct commit_tensor *t), void *arg,
			struct error *e)
{
	struct reader *r = reader_create(src, path, NULL, e);
	int err;

	if (!r)
		return -ENOMEM;
	r->tensor = tensor;
	r->arg = arg;
	err = read_all(r);
	reader_destroy(r);
	return err;
}

int commit_read_header(const struct source *src, const char *path, struct commit_header *header,
		       struct error *e)
{
	struct reader *r = reader_create(src, path, header, e);
	int err;

	if (!r)
		return -ENOMEM;
	err = read_header(r);
	reader_destroy(r);
	return err;
}
