/* SPDX-License-Identifier: MIT */
/* Commit files: what is written is read again, and anything else is refused, whatever it is. */
#include "tests/unit/unit.h"

#include <jansson.h>
#include <sys/resource.h>
#include <xxhash.h>

#include "engine/format/commit.h"

#define GENERATION "0123456789abcdef0123456789abcdef"
#define HEX	   "ffffffffffffffffffffffffffffffff"

/* --- a file in memory --- */

struct text {
	char *bytes;
	size_t len, refuse_from; /* 0: never */
};

static int put_bytes(void *arg, const void *data, size_t len)
{
	struct text *t = arg;

	if (t->refuse_from && t->len + len > t->refuse_from)
		return -ENOSPC;
	t->bytes = realloc(t->bytes, t->len + len + 1);
	assert_non_null(t->bytes);
	memcpy(t->bytes + t->len, data, len);
	t->len += len;
	t->bytes[t->len] = '\0';
	return 0;
}

static ssize_t get_bytes(void *arg, void *buf, size_t len, uint64_t off)
{
	struct text *t = arg;
	size_t left = off < t->len ? t->len - off : 0;

	if (len > left)
		len = left;
	memcpy(buf, t->bytes + off, len);
	return (ssize_t)len;
}

static const struct commit_header header = {.unit = "run/step-100",
					    .generation = GENERATION,
					    .committed_ns = 1700000000123456789,
					    .sequence = 7,
					    .job = "slurm 1234.0",
					    .ranks = 8,
					    .nodes = 2,
					    .done = "rename .metadata"};

static struct commit_entry file_entry(const char *path, uint64_t size)
{
	return (struct commit_entry){.kind = COMMIT_IS_FILE,
				     .path = path,
				     .size = size,
				     .xxh3 = HEX,
				     .node = "gpu07",
				     .rank = 3};
}

static const struct commit_stats stats = {"gpu07", 4096, 1, 0.25};

static const uint64_t shape[] = {8, INT64_MAX}, offset[] = {4, 1}, length[] = {4, INT64_MAX - 1};
static const struct commit_tensor tensors[] = {
	{.name = "args \xff",
	 .path = "\xff/x",
	 .dtype = "U8",
	 .kind = COMMIT_OBJECT,
	 .from = 3,
	 .bytes = 2,
	 .at = 1},
	{.name = "w",
	 .path = "dir/model.pt",
	 .dtype = "BF16",
	 .kind = COMMIT_TENSOR,
	 .ndim = 2,
	 .shape = shape,
	 .offset = offset,
	 .length = length,
	 .bytes = INT64_MAX},
};

/* One of each, under names that are as odd as they may be. */
static void make_commit(struct text *t)
{
	struct commit_entry entries[] = {
		file_entry("a \"quoted\"\\\n\x01", 0),
		{.kind = COMMIT_IS_DIRECTORY, .path = "dir/empty"},
		file_entry("dir/model.pt", INT64_MAX),
		{.kind = COMMIT_IS_SYMLINK, .path = "latest", .target = "../else/\xff where"},
		file_entry("\xc3\xa4", 1),
		file_entry("\xff/x", 5),
	};
	struct commit_writer *w;
	size_t i;

	memset(t, 0, sizeof(*t));
	assert_int_equal(commit_writer_create(&w, &header, put_bytes, t), 0);
	entries[5].rank = -1;
	for (i = 0; i < 6; i++)
		assert_int_equal(commit_writer_add(w, &entries[i]), 0);
	for (i = 0; i < 2; i++)
		assert_int_equal(commit_writer_add_tensor(w, &tensors[i]), 0);
	assert_int_equal(commit_writer_add(w, &entries[5]), -EINVAL);
	assert_int_equal(commit_writer_add_stats(w, &stats), 0);
	assert_int_equal(commit_writer_add_tensor(w, &tensors[1]), -EINVAL);
	assert_int_equal(commit_writer_end(w), 0);
	assert_int_equal(commit_writer_end(w), -EINVAL);
	assert_int_equal(commit_writer_add(w, &entries[5]), -EINVAL);
	assert_int_equal(commit_writer_add_stats(w, &stats), -EINVAL);
	commit_writer_destroy(w);
}

/* Gives @t the digest that it should have. */
static void sign(struct text *t)
{
	static const char start[] = "\n\"digest\": \"";
	char *at = NULL, *next = t->bytes, hex[COMMIT_HEX];
	XXH128_hash_t hash;

	while ((next = strstr(next, start))) /* the last one */
		at = next += strlen(start);
	assert_non_null(at);
	memset(at, '0', 32);
	hash = XXH3_128bits(t->bytes, t->len);
	snprintf(hex, sizeof(hex), "%016llx%016llx", (unsigned long long)hash.high64,
		 (unsigned long long)hash.low64);
	memcpy(at, hex, 32);
}

static void put_text(struct text *t, const char *text)
{
	put_bytes(t, text, strlen(text));
}

static int count(void *arg, const struct commit_entry *entry)
{
	assert_null(commit_path_problem(entry->path));
	++*(unsigned *)arg;
	return 0;
}

static int read_text(struct text *t, struct error *e)
{
	struct source src = {get_bytes, t};
	struct commit_header h;
	unsigned nr = 0;

	e->text[0] = '\0';
	return commit_read(&src, "unit/commit", &h, count, &nr, e);
}

/* --- what is written is read --- */

static int check_entry(void *arg, const struct commit_entry *got)
{
	static const char *const paths[] = {"a \"quoted\"\\\n\x01",
					    "dir/empty",
					    "dir/model.pt",
					    "latest",
					    "\xc3\xa4",
					    "\xff/x"};
	static const uint64_t sizes[] = {0, 0, INT64_MAX, 0, 1, 5};
	unsigned i = (*(unsigned *)arg)++;

	assert_true(i < 6);
	assert_string_equal(got->path, paths[i]);
	assert_int_equal(got->kind, i == 1   ? COMMIT_IS_DIRECTORY
				    : i == 3 ? COMMIT_IS_SYMLINK
					     : COMMIT_IS_FILE);
	if (i == 3)
		assert_string_equal(got->target, "../else/\xff where");
	if (got->kind != COMMIT_IS_FILE)
		return 0;
	assert_int_equal(got->size, sizes[i]);
	assert_string_equal(got->xxh3, HEX);
	assert_string_equal(got->node, "gpu07");
	assert_int_equal(got->rank, i == 5 ? -1 : 3);
	return 0;
}

static int check_tensor(void *arg, const struct commit_tensor *got)
{
	unsigned i = (*(unsigned *)arg)++, k;

	assert_true(i < 2);
	assert_string_equal(got->name, tensors[i].name);
	assert_string_equal(got->path, tensors[i].path);
	assert_string_equal(got->dtype, tensors[i].dtype);
	assert_int_equal(got->kind, tensors[i].kind);
	assert_int_equal(got->from, tensors[i].from);
	assert_int_equal(got->bytes, tensors[i].bytes);
	assert_int_equal(got->at, tensors[i].at);
	assert_int_equal(got->ndim, tensors[i].ndim);
	for (k = 0; k < got->ndim; k++) {
		assert_int_equal(got->shape[k], shape[k]);
		assert_int_equal(got->offset[k], offset[k]);
		assert_int_equal(got->length[k], length[k]);
	}
	return 0;
}

static void what_is_written_is_read(void **state)
{
	struct commit_header h;
	unsigned nr = 0;
	struct text t;
	struct source src = {get_bytes, &t};
	struct error e;

	(void)state;
	make_commit(&t);
	assert_int_equal(commit_read(&src, "x", &h, check_entry, &nr, &e), 0);
	assert_int_equal(nr, 6);
	assert_string_equal(h.unit, header.unit);
	assert_string_equal(h.generation, GENERATION);
	assert_int_equal(h.committed_ns, header.committed_ns);
	assert_int_equal(h.sequence, 7);
	assert_string_equal(h.job, header.job);
	assert_int_equal(h.ranks, 8);
	assert_int_equal(h.nodes, 2);
	assert_string_equal(h.done, header.done);
	assert_int_equal(commit_read(&src, "x", NULL, NULL, NULL, &e), 0);
	nr = 0;
	assert_int_equal(commit_read_tensors(&src, "x", check_tensor, &nr, &e), 0);
	assert_int_equal(nr, 2);
	assert_true(commit_tensor_compare(&tensors[0], &tensors[1]) < 0);
	free(t.bytes);
}

static void the_digest_is_of_the_zeroed_file(void **state)
{
	struct text t, again;

	(void)state;
	make_commit(&t);
	make_commit(&again);
	sign(&again);
	assert_string_equal(t.bytes, again.bytes);
	free(t.bytes);
	free(again.bytes);
}

/* To other programs it is one JSON object with its keys in order. */
static void it_is_json(void **state)
{
	static const char *const keys[] = {"ckptfs",   "unit",	  "generation", "committed_ns",
					   "sequence", "job",	  "world",	"done",
					   "files",    "tensors", "stats",	"digest"};
	const char *key;
	json_t *root, *value, *files;
	struct text t;
	size_t i = 0;

	(void)state;
	make_commit(&t);
	root = json_loadb(t.bytes, t.len, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(root);
	json_object_foreach (root, key, value)
		assert_string_equal(key, keys[i++]);
	assert_int_equal(i, 12);
	files = json_object_get(root, "files");
	assert_int_equal(json_array_size(files), 6);
	assert_string_equal(
		json_string_value(json_object_get(json_array_get(files, 5), "path_hex")), "ff2f78");
	json_decref(root);
	free(t.bytes);
}

static void python_reads_it(void **state)
{
	static const char program[] =
		"python3 -c 'import json, sys; x = json.load(sys.stdin); "
		"assert list(x)[8:] == [\"files\", \"tensors\", \"stats\", \"digest\"], list(x); "
		"assert x[\"tensors\"][1][\"offset\"] == [4, 1] and \"from\" not in "
		"x[\"tensors\"][1]; "
		"assert x[\"files\"][2][\"size\"] == 2**63 - 1; "
		"assert bytes.fromhex(x[\"files\"][5][\"path_hex\"]) == b\"\\xff/x\"; "
		"assert x[\"stats\"] == {\"gpu07\": {\"bytes\": 4096, \"files\": 1, "
		"\"seconds\": 0.25}}'";
	struct text t;
	FILE *pipe;

	(void)state;
	make_commit(&t);
	pipe = popen(program, "w");
	assert_non_null(pipe);
	assert_int_equal(fwrite(t.bytes, 1, t.len, pipe), t.len);
	assert_int_equal(pclose(pipe), 0);
	free(t.bytes);
}

static void a_unit_may_have_no_files(void **state)
{
	struct commit_header h = header, got;
	struct commit_writer *w;
	struct text t = {0};
	struct source src = {get_bytes, &t};
	struct error e;

	(void)state;
	strcpy(h.unit, "\xfe");
	strcpy(h.job, "a \xfe job");
	assert_int_equal(commit_writer_create(&w, &h, put_bytes, &t), 0);
	assert_int_equal(commit_writer_end(w), 0);
	commit_writer_destroy(w);
	assert_int_equal(commit_read(&src, "x", &got, NULL, NULL, &e), 0);
	assert_string_equal(got.unit, "\xfe");
	assert_string_equal(got.job, "a \xEF\xBF\xBD job");
	free(t.bytes);
}

/* --- the writer --- */

static void what_does_not_belong_is_not_written(void **state)
{
	static const char *const paths[] = {"",
					    "/a",
					    "a//b",
					    "a/",
					    ".",
					    "..",
					    "a/./b",
					    "a/..",
					    "../a",
					    "a\0b",
					    "b/.ckptfs-commit.json",
					    ".ckptfs-trash-1/x",
					    "a"};
	struct commit_entry entry = file_entry("b", 0);
	struct commit_header h = header;
	struct commit_writer *w;
	char long_name[NAME_MAX + 2];
	struct text t = {0};
	size_t i;

	(void)state;
	strcpy(h.generation, "0123");
	assert_int_equal(commit_writer_create(&w, &h, put_bytes, &t), -EINVAL);
	assert_null(w);
	h = header;
	strcpy(h.unit, "/run");
	assert_int_equal(commit_writer_create(&w, &h, put_bytes, &t), -EINVAL);
	h = header;
	h.sequence = UINT64_MAX;
	assert_int_equal(commit_writer_create(&w, &h, put_bytes, &t), -EINVAL);
	commit_writer_destroy(w);
	assert_int_equal(commit_writer_create(&w, &header, put_bytes, &t), 0);
	assert_int_equal(commit_writer_add(w, &entry), 0);
	assert_int_equal(commit_writer_add(w, &entry), -EINVAL); /* twice */
	for (i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		entry.path = paths[i];
		assert_int_equal(commit_writer_add(w, &entry), -EINVAL);
	}
	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	entry = file_entry(long_name, 0);
	assert_int_equal(commit_writer_add(w, &entry), -EINVAL);
	entry = file_entry("c", UINT64_MAX);
	assert_int_equal(commit_writer_add(w, &entry), -EINVAL);
	entry = file_entry("c", 1);
	entry.xxh3[31] = 'F';
	assert_int_equal(commit_writer_add(w, &entry), -EINVAL);
	entry = file_entry("c", 1);
	entry.node = "\xff";
	assert_int_equal(commit_writer_add(w, &entry), -EINVAL);
	entry = file_entry("c", 1);
	entry.rank = -2;
	assert_int_equal(commit_writer_add(w, &entry), -EINVAL);
	entry = (struct commit_entry){.kind = COMMIT_IS_SYMLINK, .path = "c", .target = ""};
	assert_int_equal(commit_writer_add(w, &entry), -EINVAL);
	assert_int_equal(commit_writer_end(w), 0);
	commit_writer_destroy(w);
	assert_null(strstr(t.bytes, "\"c\""));
	free(t.bytes);
}

static void the_first_error_of_writing_sticks(void **state)
{
	struct text t = {.refuse_from = 100000};
	struct commit_writer *w;
	char path[16];
	int err = 0, i;

	(void)state;
	assert_int_equal(commit_writer_create(&w, &header, put_bytes, &t), 0);
	for (i = 0; !err && i < 10000; i++) {
		struct commit_entry entry = file_entry(path, 1);

		snprintf(path, sizeof(path), "%08d", i);
		err = commit_writer_add(w, &entry);
	}
	assert_int_equal(err, -ENOSPC);
	t.refuse_from = 0;
	assert_int_equal(commit_writer_end(w), -ENOSPC);
	commit_writer_destroy(w);
	free(t.bytes);
}

/* --- the reader --- */

/* With the first @old of the good file as @new, and signed again. */
static void expect_refused(const char *old, const char *new, int err, const char *problem)
{
	struct text t, changed = {0};
	struct error e;
	char *at;
	int got;

	make_commit(&t);
	at = strstr(t.bytes, old);
	if (!at)
		fail_msg("'%s' is not in: %s", old, t.bytes);
	put_bytes(&changed, t.bytes, (size_t)(at - t.bytes));
	put_text(&changed, new);
	put_text(&changed, at + strlen(old));
	sign(&changed);
	got = read_text(&changed, &e);
	if (got != err || !strstr(e.text, problem))
		fail_msg("'%s' for '%s': %d, %s", new, old, got, e.text);
	free(t.bytes);
	free(changed.bytes);
}

static const struct {
	const char *old, *new, *problem;
} bad[] = {
	{"{\n", "[\n", "not the beginning"},
	{"\"ckptfs\": 1", "\"ckptfs\": \"1\"", "no format number"},
	{"\"ckptfs\": 1", "\"ckptfs\": 0", "no format number"},
	{"\"ckptfs\": 1,\n", "", "no format number"},
	{"\"ckptfs\": 1,\n", "\"ckptfs\": 1\n", "a comma too few"},
	{"\"unit\": \"run/", "\"unit\": \"/run/", "an empty name"},
	{"\"unit\": \"run/", "\"unit\": \"../", "'.' or '..'"},
	{"\"unit\": \"run/step-100\"", "\"unit\": 5", "its key cannot have"},
	{"\"unit\": \"run/step-100\"", "\"unit_hex\": \"0\"", "its key cannot have"},
	{"\"unit\": \"run/step-100\"", "\"unit_hex\": \"6100\"", "its key cannot have"},
	{"\"unit\": \"run/step-100\"", "\"unit_hex\": \"6A\"", "its key cannot have"},
	{"\"unit\": \"run/step-100\"", "\"generation\": \"" GENERATION "\"", "twice"},
	{"\"" GENERATION "\"", "\"0123\"", "no generation"},
	{"\"sequence\": 7", "\"sequence\": -7", "its key cannot have"},
	{"\"sequence\": 7", "\"sequence\": 7.5", "its key cannot have"},
	{"\"sequence\": 7", "\"sequence\": 99999999999999999999", "no JSON"},
	{"\"sequence\": 7,", "\"sequence\": 7", "a comma too few"},
	{"\"sequence\": 7,\n", "", "without all that belongs"},
	{"\"ranks\": 8", "\"ranks\": 4294967296", "its key cannot have"},
	{"\"job\": ", "\"job\": 1, \"j\": ", "no JSON"},
	{"\"job\": ", "garbage ", "no JSON"},
	{"\"job\": ", "\"digest\": ", "in the wrong place"},
	{"\"files\": [", "\"files\": {", "in the wrong place"},
	{"\"files\": [", "\"x\": [], \"files\": [", "no JSON"},
	{"\"path\": \"dir/model.pt\"", "\"path\": \"dir//model.pt\"", "an empty name"},
	{"\"path\": \"dir/model.pt\"", "\"path\": \"dir/../m.pt\"", "'.' or '..'"},
	{"\"path\": \"dir/model.pt\"", "\"path\": \"./model.pt\"", "'.' or '..'"},
	{"\"path\": \"dir/model.pt\"", "\"path\": \"\"", "an empty path"},
	{"\"path\": \"dir/model.pt\"", "\"path\": \"/model.pt\"", "an empty name"},
	{"\"path\": \"dir/model.pt\"", "\"path\": \"a\\u0000\"", "no object"},
	{"\"path\": \"dir/model.pt\"", "\"path\": \"dir/.ckptfs-x\"", "keeps for itself"},
	{"\"path\": \"dir/model.pt\"", "\"path\": \"dir/empty\"", "not behind the one"},
	{"\"path\": \"dir/model.pt\"", "\"path\": \"dir\"", "not behind the one"},
	{"\"path\": \"dir/model.pt\"", "\"path\": 1", "without a path"},
	{"\"path\": \"dir/model.pt\"", "\"no\": 1", "without a path"},
	{"\"path\": \"dir/model.pt\"", "\"path\": \"e\", \"path_hex\": \"65\"", "without a path"},
	{"\"size\": 0", "\"size\": -1", "out of range"},
	{"\"size\": 0", "\"size\": \"1\"", "out of range"},
	{"\"size\": 0, ", "", "not one of"},
	{"\"size\": 0", "\"size\": 0, \"target\": \"x\"", "not one of"},
	{"\"xxh3\": \"f", "\"xxh3\": \"", "without a digest"},
	{"\"xxh3\": \"f", "\"xxh3\": \"g", "without a digest"},
	{"\"node\": \"gpu07\"", "\"node\": \"\"", "without a node"},
	{"\"node\": \"gpu07\"", "\"node\": []", "without a node"},
	{"\"rank\": 3", "\"rank\": -2", "out of range"},
	{"\"rank\": 3", "\"rank\": 2147483648", "out of range"},
	{", \"rank\": 3", "", "out of range"},
	{"\"directory\": true", "\"directory\": false", "a directory that is none"},
	{"\"target_hex\": \"2e", "\"target_hex\": \"00", "without a target"},
	{"\"rank\": 3},\n", "\"rank\": 3}\n", "a comma too few"},
	{"\"rank\": -1}\n", "\"rank\": -1},\n", "a comma too many"},
	{"{\"path\": ", "5,\n{\"path\": ", "no object"},
	{"{\"path\": ", "{\"path\": \"0\"}, {\"path\": ", "no object"},
	{"],\n", "]\n", "a comma too few"},
	{"\"stats\": {", "\"stats\": [", "in the wrong place"},
	{"\"stats\": {", "\"sequence\": 9,\n\"stats\": {", "twice, or behind"},
	{"\"stats\": {\n", "\"stats\": {\n},\n\"stats\": {\n", "in the wrong place"},
	{"\"seconds\": 0.25", "\"seconds\": \"x\"", "no numbers of a node"},
	{"\"stats\": {", "\"other\": {", "not all that belongs"},
	{"\"tensors\": [", "\"tensors\": {", "in the wrong place"},
	{"\"tensors\": [", "\"tensors\": [\n],\n\"tensors\": [", "in the wrong place"},
	{"\"files\": [", "\"tensors\": [\n],\n\"files\": [", "before the files"},
	{"{\"name\": \"w\"", "{\"name\": \"\"", "without a name"},
	{"{\"name\": \"w\", ", "{", "without a name"},
	{"{\"name\": \"w\", ", "5, {", "no object"},
	{"\"dtype\": \"BF16\", ", "", "without a dtype"},
	{"\"dtype\": \"BF16\"", "\"dtype\": \"BF16567890123456\"", "too long"},
	{"\"kind\": \"object\"", "\"kind\": \"thing\"", "of no known kind"},
	{"\"shape\": [8, ", "\"shape\": [8, 8, ", "that cannot be"},
	{"\"shape\": [8, ", "\"shape\": [-8, ", "that cannot be"},
	{"\"shape\": [8, ", "\"shape\": [1, 1, 1, 1, 1, 1, 1, 8, ", "that cannot be"},
	{"\"shape\": [8, ", "\"shape\": [7, ", "does not lie in its tensor"},
	{"\"offset\": [4, 1]", "\"offset\": [4, 2]", "does not lie in its tensor"},
	{"\"offset\": [4, 1], ", "", "that cannot be"},
	{"\"path\": \"dir/model.pt\", \"at\": 0", "\"path\": \"../x\", \"at\": 0", "'.' or '..'"},
	{"\"path\": \"dir/model.pt\", \"at\": 0", "\"at\": 0", "without a path"},
	{"\"at\": 0", "\"at\": 1", "out of range"},
	{"\"at\": 0, ", "", "without a place"},
	{"\"from\": 3", "\"from\": -3", "without a place"},
	{"\"from\": 3", "\"from\": 9223372036854775807", "out of range"},
	{"\"\n}\n", "\",\n}\n", "in the wrong place"},
	{"\"\n}\n", "\"\n", "it is cut off"},
	{"\"\n}\n", "\"\n}", "it is cut off"},
	{"\"\n}\n", "\"\n}\n\n", "more behind its end"},
	{"\"\n}\n", "\"\n\n}\n", "more behind the digest"},
};

static void damage_is_told(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		expect_refused(bad[i].old, bad[i].new, -EBADMSG, bad[i].problem);
	expect_refused("\"ckptfs\": 1", "\"ckptfs\": 2", -EPROTO,
		       "format 2, this ckptfs knows up to 1");
}

static void what_is_not_known_is_passed_over(void **state)
{
	struct text t, more = {0};
	struct error e;
	char *at;

	(void)state;
	make_commit(&t);
	at = strstr(t.bytes, "\"stats\"");
	put_bytes(&more, t.bytes, (size_t)(at - t.bytes));
	put_text(&more, "\"new\": [1, {}],\n");
	put_text(&more, "\"others\": {\n\"digest\": \"" HEX "\",\n\"b\": []\n},\n");
	put_text(&more, "\"list\": [\n1,\n{}\n],\n\"none\": {\n},\n");
	put_text(&more, at);
	sign(&more);
	assert_int_equal(read_text(&more, &e), 0);
	at = strstr(more.bytes, "\"b\": []"); /* which the digest covers, too */
	at[1] = 'c';
	assert_int_equal(read_text(&more, &e), -EBADMSG);
	at[1] = 'b';
	at = strstr(more.bytes, HEX "\",\n\"b\"");
	at[0] = '0';
	assert_int_equal(read_text(&more, &e), -EBADMSG);
	free(t.bytes);
	free(more.bytes);
}

/* No byte of it can change without being noticed, and no part of it be missing. */
static void every_byte_counts(void **state)
{
	struct text t;
	struct error e;
	size_t i, len;

	(void)state;
	make_commit(&t);
	for (i = 0; i < t.len; i++) {
		t.bytes[i] ^= 1;
		if (read_text(&t, &e) >= 0)
			fail_msg("byte %zu is not noticed", i);
		t.bytes[i] ^= 1;
	}
	len = t.len;
	for (t.len = 0; t.len < len; t.len++)
		assert_int_equal(read_text(&t, &e), -EBADMSG);
	assert_int_equal(read_text(&t, &e), 0);
	free(t.bytes);
}

static void long_lines_are_refused(void **state)
{
	struct text t = {0};
	struct error e;
	size_t i;

	(void)state;
	put_text(&t, "{\n\"ckptfs\": 1,\n\"x\": \"");
	for (i = 0; i < COMMIT_LINE_MAX; i += 16)
		put_bytes(&t, "0123456789abcdef", 16);
	put_text(&t, "\",\n");
	assert_int_equal(read_text(&t, &e), -EBADMSG);
	assert_contains(e.text, "(line 3: a line that is too long)");
	free(t.bytes);
}

/* The longest path that may be, with every byte escaped. */
static void long_paths_are_taken(void **state)
{
	static char path[COMMIT_PATH_MAX], target[PATH_MAX];
	struct commit_entry link = {.kind = COMMIT_IS_SYMLINK, .path = path, .target = target};
	struct commit_writer *w;
	struct text t = {0};
	struct error e;
	size_t i;

	(void)state;
	memset(target, 1, sizeof(target) - 1);
	for (i = 0; i < sizeof(path) - 1; i++)
		path[i] = i % 200 == 100 ? '/' : 1;
	assert_int_equal(commit_writer_create(&w, &header, put_bytes, &t), 0);
	assert_int_equal(commit_writer_add(w, &link), 0);
	assert_int_equal(commit_writer_end(w), 0);
	commit_writer_destroy(w);
	assert_int_equal(read_text(&t, &e), 0);
	free(t.bytes);
}

static ssize_t refuse(void *arg, void *buf, size_t len, uint64_t off)
{
	(void)arg, (void)buf, (void)len, (void)off;
	return -EIO;
}

static int stop(void *arg, const struct commit_entry *entry)
{
	(void)arg, (void)entry;
	return -ECANCELED;
}

static void errors_of_others_are_passed_on(void **state)
{
	struct source bad = {refuse, NULL};
	struct text t;
	struct source src = {get_bytes, &t};
	struct commit_header h;
	struct error e;

	(void)state;
	make_commit(&t);
	assert_int_equal(commit_read(&bad, "here", &h, NULL, NULL, &e), -EIO);
	assert_contains(e.text, "cannot read the commit file here: Input/output error");
	assert_int_equal(commit_read_header(&bad, "here", &h, &e), -EIO);
	assert_int_equal(commit_read(&src, "here", &h, stop, NULL, &e), -ECANCELED);
	free(t.bytes);
}

static void the_header_alone_is_read(void **state)
{
	struct text t;
	struct source src = {get_bytes, &t};
	struct commit_header h;
	struct error e;

	(void)state;
	make_commit(&t);
	strcpy(strstr(t.bytes, "\"files\""), "\"files\": [\ngarbage");
	t.len = strlen(t.bytes);
	assert_int_equal(commit_read_header(&src, "x", &h, &e), 0);
	assert_int_equal(h.sequence, 7);
	assert_string_equal(h.unit, header.unit);
	strcpy(strstr(t.bytes, "\"files\""), "\"files\": [");
	t.len = strlen(t.bytes);
	assert_int_equal(commit_read_header(&src, "x", &h, &e), -EBADMSG);
	free(t.bytes);
}

/* --- many files --- */

#define MANY 100000

/* A file of MANY entries that is never in memory at once: @fd. */
static int put_to_fd(void *arg, const void *data, size_t len)
{
	return write(*(int *)arg, data, len) == (ssize_t)len ? 0 : -EIO;
}

static ssize_t get_from_fd(void *arg, void *buf, size_t len, uint64_t off)
{
	return pread(*(int *)arg, buf, len, (off_t)off);
}

static long peak_kib(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

static void many_files_take_no_memory(void **state)
{
	int dir = scratch_fd(), fd = openat(dir, "many", O_RDWR | O_CREAT, 0644), i;
	struct source src = {get_from_fd, &fd};
	long before = peak_kib();
	struct commit_writer *w;
	unsigned nr = 0;
	struct error e;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(commit_writer_create(&w, &header, put_to_fd, &fd), 0);
	for (i = 0; i < MANY; i++) {
		char path[160];
		struct commit_entry entry = file_entry(path, (uint64_t)i);

		snprintf(path, sizeof(path), "%0100d", i);
		assert_int_equal(commit_writer_add(w, &entry), 0);
	}
	assert_int_equal(commit_writer_end(w), 0);
	commit_writer_destroy(w);
	assert_int_equal(commit_read(&src, "x", NULL, count, &nr, &e), 0);
	assert_int_equal(nr, MANY);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* these keep what is freed */
	assert_true(peak_kib() - before < 4096);
#else
	(void)before;
#endif
	close(fd);
	close(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(the_digest_is_of_the_zeroed_file),
		cmocka_unit_test(it_is_json),
		cmocka_unit_test(python_reads_it),
		cmocka_unit_test(a_unit_may_have_no_files),
		cmocka_unit_test(what_does_not_belong_is_not_written),
		cmocka_unit_test(the_first_error_of_writing_sticks),
		cmocka_unit_test(damage_is_told),
		cmocka_unit_test(what_is_not_known_is_passed_over),
		cmocka_unit_test(every_byte_counts),
		cmocka_unit_test(long_lines_are_refused),
		cmocka_unit_test(long_paths_are_taken),
		cmocka_unit_test(errors_of_others_are_passed_on),
		cmocka_unit_test(the_header_alone_is_read),
		cmocka_unit_test(many_files_take_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
