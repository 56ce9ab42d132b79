/* SPDX-License-Identifier: MIT */
/*
 * libckptfs: headers of safetensors files, those that are right and those that are wrong in any
 * way.
 */
#include "tests/unit/unit.h"

#include "client/header.h"
#include "client/index.h"

static struct ckptfs_index *ix;

/* @text as the header in front of @data bytes. */
static const char *parse(const char *text, size_t len, uint64_t data)
{
	char *copy = malloc(len ? len
				: 1); /* exactly, so that a sanitizer sees what is read behind it */
	const char *why = NULL;
	int err;

	assert_non_null(copy);
	memcpy(copy, text, len);
	err = ckpt_index_parse(copy, len, data, &ix, &why);
	assert_int_equal(err, why ? -EILSEQ : 0);
	assert_true(!why == !!ix);
	return why;
}

static void is_right(const char *text, uint64_t data)
{
	const char *why = parse(text, strlen(text), data);

	if (why)
		fail_msg("%s: %s", text, why);
}

static void is_wrong(const char *text, uint64_t data, const char *part)
{
	const char *why = parse(text, strlen(text), data);

	if (!why)
		fail_msg("taken: %s", text);
	assert_contains(why, part);
}

static void what_is_in_it_is_found(void **state)
{
	const struct ckptfs_entry *e, *all;

	(void)state;
	is_right("{\"b\" : {\"dtype\":\"F32\",\"shape\":[2, 3],\"data_offsets\":[8,32]},"
		 "\"__metadata__\":{\"format\":\"pt\",\"k\\n\":\"v\\\"\\u00e9\\ud83d\\ude00\"},\n"
		 "\"a\":{\"shape\":[],\"data_offsets\":[0,8],\"dtype\":\"I64\",\"more\":[1.5e3,{"
		 "\"x\":null}]},"
		 "\"none\":{\"dtype\":\"BF16\",\"shape\":[0,7],\"data_offsets\":[8,8]}}   ",
		 32);
	assert_int_equal(ckptfs_index_entries(ix, &all), 3);
	assert_string_equal(all[0].name, "a");
	assert_string_equal(all[1].name, "none");
	assert_string_equal(all[2].name, "b");
	e = ckptfs_index_find(ix, "b");
	assert_ptr_equal(e, &all[2]);
	assert_string_equal(e->dtype, "F32");
	assert_int_equal(e->ndim, 2);
	assert_int_equal(e->shape[0], 2);
	assert_int_equal(e->shape[1], 3);
	assert_int_equal(e->bytes, 24);
	assert_int_equal(e->file_off - all[0].file_off, 8);
	assert_null(e->shard_offset);
	assert_int_equal(all[0].ndim, 0);
	assert_null(ckptfs_index_find(ix, "c"));
	assert_string_equal(ckptfs_index_metadata(ix, "format"), "pt");
	assert_string_equal(ckptfs_index_metadata(ix, "k\n"), "v\"\xc3\xa9\xf0\x9f\x98\x80");
	assert_null(ckptfs_index_metadata(ix, "c"));
	ckptfs_index_close(ix);
	is_right("{}", 0);
	assert_int_equal(ckptfs_index_entries(ix, &all), 0);
	assert_null(ckptfs_index_find(ix, "c"));
	ckptfs_index_close(ix);
	is_right("{\"__metadata__\":{}}", 0);
	ckptfs_index_close(ix);
	ckptfs_index_close(NULL);
}

static void parts_of_larger_ones_say_so(void **state)
{
	const struct ckptfs_entry *e;

	(void)state;
	is_right("{\"__metadata__\":{\"DCP_SHARDING_INFO\":\"{\\\"a\\\":{\\\"saved_offsets\\\":[4,"
		 "0],"
		 "\\\"global_shape\\\":[6,3]},\\\"b\\\":{\\\"saved_offsets\\\":[7]},\\\"c\\\":{}}"
		 "\"},"
		 "\"a\":{\"dtype\":\"U8\",\"shape\":[2,3],\"data_offsets\":[0,6]},"
		 "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[6,7]}}",
		 7);
	e = ckptfs_index_find(ix, "a");
	assert_int_equal(e->shard_offset[0], 4);
	assert_int_equal(e->shard_offset[1], 0);
	assert_int_equal(e->global_shape[0], 6);
	e = ckptfs_index_find(ix, "b");
	assert_int_equal(e->shard_offset[0], 7);
	assert_null(e->global_shape);
	ckptfs_index_close(ix);
}

#define TENSOR(fields) "{\"a\":{" fields "}}"
#define SHARD(info) \
	"{\"__metadata__\":{\"DCP_SHARDING_INFO\":\"" info "\"}," \
	"\"a\":{\"dtype\":\"U8\",\"shape\":[2,3],\"data_offsets\":[0,6]}}"

static const struct {
	const char *text;
	uint64_t data;
	const char *why;
} wrong[] = {
	{"", 0, "no JSON object"},
	{" {}", 0, "no JSON object"},
	{"[]", 0, "no JSON object"},
	{"{", 0, "no JSON object"},
	{"{}x", 0, "no JSON object"},
	{"{,}", 0, "no JSON object"},
	{"{\"a\"}", 0, "no JSON object"},
	{"{\"a\":1}", 0, "no JSON object"},
	{"{\"a\\u0000\":{}}", 0, "no JSON object"},
	{"{\"\\ud800\":{}}", 0, "no JSON object"},
	{"{\"\\udc00\":{}}", 0, "no JSON object"},
	{"{\"\\x\":{}}", 0, "no JSON object"},
	{"{\"a\n\":{}}", 0, "no JSON object"},
	{"{\"\xff\":{}}", 0, "UTF-8"},
	{"{\"\xed\xa0\x80\":{}}", 0, "UTF-8"},
	{"{\"\xc0\x80\":{}}", 0, "UTF-8"},
	{"{} \xf4\x90\x80\x80", 0, "UTF-8"},
	{TENSOR(""), 0, "without dtype"},
	{TENSOR("\"dtype\":\"U8\",\"shape\":[1]"), 1, "without dtype"},
	{TENSOR("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"shape\":[1]"), 1, "twice"},
	{TENSOR("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],"), 1, "without dtype"},
	{TENSOR("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]"), 1, "without dtype"},
	{TENSOR("\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]"), 1, "without dtype"},
	{TENSOR("\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]"), 1, "without dtype"},
	{TENSOR("\"dtype\":\"U8\",\"shape\":[01],\"data_offsets\":[0,1]"), 1, "without dtype"},
	{TENSOR("\"dtype\":\"U8\",\"shape\":[18446744073709551617],\"data_offsets\":[0,1]"), 1,
	 "without dtype"},
	{TENSOR("\"dtype\":\"U8\",\"shape\":[[[1]]],\"data_offsets\":[0,1]"), 1, "without dtype"},
	{TENSOR("\"dtype\":\"C128\",\"shape\":[1],\"data_offsets\":[0,16]"), 16, "does not know"},
	{TENSOR("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,3]"), 3, "as many bytes"},
	{TENSOR("\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]"), 1, "as many bytes"},
	{TENSOR("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]"), 1, "as many bytes"},
	{TENSOR("\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,"
		"0]"),
	 0, "as many bytes"},
	{TENSOR("\"dtype\":\"U64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]"), 0,
	 "as many bytes"},
	{TENSOR("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]"), 2, "leave a part"},
	{TENSOR("\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]"), 1, "leave a part"},
	{TENSOR("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]"), 2, "leave a part"},
	{"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
	 "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
	 3, "overlap"},
	{"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
	 "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
	 4, "overlap"},
	{"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
	 "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
	 2, "leave a part"},
	{"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
	 "\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
	 4, "one name"},
	{"{\"__metadata__\":{\"a\":1}}", 0, "no object of strings"},
	{"{\"__metadata__\":[]}", 0, "no object of strings"},
	{"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "twice"},
	{SHARD("x"), 6, "DCP_SHARDING_INFO"},
	{SHARD("{\\\"a\\\":{}}"), 6, "DCP_SHARDING_INFO"},
	{SHARD("{\\\"a\\\":{\\\"saved_offsets\\\":[1]}}"), 6, "DCP_SHARDING_INFO"},
	{SHARD("{\\\"a\\\":{\\\"saved_offsets\\\":[1,1],\\\"global_shape\\\":[2,4]}}"), 6,
	 "DCP_SHARDING_INFO"},
	{SHARD("{\\\"a\\\":{\\\"saved_offsets\\\":[18446744073709551615,0]}}"), 6,
	 "DCP_SHARDING_INFO"},
	{SHARD("{\\\"a\\\":{\\\"saved_offsets\\\":[0,0]},\\\"a\\\":{\\\"saved_offsets\\\":["
	       "0,0]}}"),
	 6, "DCP_SHARDING_INFO"},
};

static void what_is_wrong_is_told(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		is_wrong(wrong[i].text, wrong[i].data, wrong[i].why);
}

/* However much of its end is missing, and with whatever nests in it. */
static void no_part_is_taken(void **state)
{
	static const char whole[] =
		"{\"__metadata__\":{\"format\":\"\\u00e9\",\"DCP_SHARDING_INFO\":\"{\\\"a\\\":"
		"{\\\"saved_offsets\\\":[0,0],\\\"x\\\":[true,-0.5e+3,\\\"\\\"]}}\"},"
		"\"a\":{\"dtype\":\"U8\",\"shape\":[2,3],\"data_offsets\":[0,6]}}";
	char deep[300] = "{\"a\":{\"x\":";

	(void)state;
	for (size_t len = 0; len + 1 < sizeof(whole); len++)
		assert_non_null(parse(whole, len, 6));
	is_right(whole, 6);
	ckptfs_index_close(ix);
	memset(deep + strlen(deep), '[', 200);
	is_wrong(deep, 0, "no JSON object");
}

static void files_are_opened(void **state)
{
	static const struct {
		const char *data;
		size_t len;
		const char *why;
	} wrong[] = {
		{"", 0, "no header"},
		{"\2\0\0\0\0\0\0", 7, "no header"},
		{"\0\0\0\0\0\0\0\0abc", 11, "never written"},
		{"\3\0\0\0\0\0\0\0{}", 10, "longer than it can be"},
		{"\377\377\377\377\377\377\377\377{}", 10, "longer than it can be"},
		{"\2\0\0\0\0\0\0\0{}x", 11, "leave a part"},
	};
	char path[PATH_MAX], name[PATH_MAX + 20];
	int fds = count_fds();

	(void)state;
	scratch_dir(path);
	snprintf(name, sizeof(name), "%s/x.safetensors", path);
	assert_int_equal(ckptfs_index_open(name, &ix), -ENOENT);
	assert_contains(ckptfs_error(NULL), name);
	assert_int_equal(ckptfs_index_open(path, &ix), -EILSEQ);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

		assert_int_equal(write(fd, wrong[i].data, wrong[i].len), wrong[i].len);
		close(fd);
		assert_int_equal(ckptfs_index_open(name, &ix), -EILSEQ);
		assert_null(ix);
		assert_contains(ckptfs_error(NULL), name);
		assert_contains(ckptfs_error(NULL), wrong[i].why);
	}
	assert_int_equal(truncate(name, 10), 0);
	assert_int_equal(ckptfs_index_open(name, &ix), 0);
	assert_true(ckptfs_index_fd(ix) >= 0);
	ckptfs_index_close(ix);
	assert_int_equal(count_fds(), fds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_in_it_is_found),
		cmocka_unit_test(parts_of_larger_ones_say_so),
		cmocka_unit_test(what_is_wrong_is_told),
		cmocka_unit_test(no_part_is_taken),
		cmocka_unit_test(files_are_opened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
