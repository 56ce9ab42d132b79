/* SPDX-License-Identifier: MIT */
/*
 * libckptfs: files of tensors and objects, written in any order. What they hold is decoded here by
 * hand, from the bytes of the file; that others read them is tested in tests/client.
 */
#include "tests/unit/client_daemon.h"
#include "tests/unit/unit.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define NAME "x.safetensors"

static char path[300];
static struct ckptfs_file *f;
static struct ckptfs_index *ix;
static char content[1 << 20];
static size_t content_len;

static const char *name_file(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", daemon_.top, name);
	return path;
}

/* One dimension of bytes. */
static struct ckptfs_tensor_info row_of(uint64_t id, const char *name, uint64_t bytes)
{
	return (struct ckptfs_tensor_info){.id = id, .name = name, .bytes = bytes};
}

static void create(struct ckptfs_session *s, const struct ckptfs_tensor_info *t, size_t n)
{
	int err = ckptfs_file_create(s, name_file(NAME), t, n, 0, &f);

	if (err)
		fail_msg("%s", ckptfs_error(s));
}

static int write_part(uint64_t id, const void *addr, uint64_t off, uint64_t len)
{
	struct ckptfs_write_op op = {
		.id = id, .addr = addr, .src_off = off, .len = len, .file_off = 99};

	return ckptfs_file_write(f, &op, 1);
}

/* The content of the file, and its header as a text. */
static const char *read_file(void)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = read(fd, content, sizeof(content) - 1);
	uint64_t header = 0;

	assert_true(len >= 8);
	close(fd);
	content_len = (size_t)len;
	memcpy(&header, content, 8);
	if (!memcmp(content, CKPTFS_UNFINISHED, 8))
		return "";
	assert_true(header <= content_len - 8);
	assert_int_equal((8 + header) % 4096, 0);
	assert_memory_equal(content + 8 + header - 3, "   ", 3);
	content[8 + header - 1] = '\0';
	return content + 8;
}

/* Where the tensor of this name lies. */
static uint64_t place_of(const char *name)
{
	const struct ckptfs_entry *e;
	uint64_t off;

	assert_int_equal(ckptfs_index_open(path, &ix), 0);
	e = ckptfs_index_find(ix, name);
	assert_non_null(e);
	off = e->file_off;
	ckptfs_index_close(ix);
	return off;
}

static void assert_at(uint64_t off, const void *bytes, size_t len)
{
	assert_true(off + len <= content_len);
	assert_memory_equal(content + off, bytes, len);
}

/* --- a whole one --- */

static void tensors_and_objects_are_all_there(void **state)
{
	static const float matrix[2][3] = {{1, 2, 3}, {4, 5, 6}};
	static const char object[] = "an object", odd[] = "\"\\\n\x01\xc3\xa9";
	struct ckptfs_tensor_info t[] = {
		row_of(7, "seven", 7),
		{.id = 2,
		 .name = "matrix",
		 .dtype = "F32",
		 .ndim = 2,
		 .bytes = 24,
		 .global_shape = {2, 3},
		 .shard_shape = {2, 3}},
		{.id = 3, .name = "scalar", .dtype = "F64", .bytes = 8},
		row_of(4, "page", 8192),
		row_of(5, "none", 0),
		row_of(6, odd, 2),
		{.id = 8, .name = "shorts", .dtype = "BF16", .bytes = 6},
	};
	unsigned char *bytes = random_bytes(8192);
	const char *header;

	(void)state;
	create(NULL, t, 7);
	/* Objects before tensors, a tensor in two parts whose second is the first. */
	assert_int_equal(ckptfs_file_object(f, "object", object, 9), 0);
	assert_int_equal(write_part(4, bytes, 5000, 3192), 0);
	assert_int_equal(write_part(2, matrix, 0, 24), 0);
	assert_int_equal(write_part(3, bytes, 0, 8), 0);
	assert_int_equal(write_part(6, "ab", 0, 2), 0);
	assert_int_equal(write_part(7, "sevenen", 0, 7), 0);
	assert_int_equal(write_part(8, "shorts", 0, 6), 0);
	assert_int_equal(ckptfs_file_metadata(f, "step", "12"), 0);
	assert_int_equal(ckptfs_file_object(f, "nothing", NULL, 0), 0);
	assert_int_equal(write_part(4, bytes, 0, 5000), 0);
	assert_int_equal(write_part(5, NULL, 0, 0), 0);
	assert_string_equal(read_file(), "");
	assert_int_equal(ckptfs_file_close(f), 0);
	header = read_file();
	assert_contains(header, "{\"__metadata__\":{\"format\":\"pt\",\"step\":\"12\"},");
	assert_contains(
		header,
		"\"matrix\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8192,8216]}");
	assert_contains(header,
			"\"page\":{\"dtype\":\"U8\",\"shape\":[8192],\"data_offsets\":[0,8192]}");
	assert_contains(header,
			"\"scalar\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[8216,8224]}");
	assert_contains(header, "\"shorts\":{\"dtype\":\"BF16\",\"shape\":[3],");
	assert_contains(header,
			"\"\\\"\\\\\\u000a\\u0001\xc3\xa9\":{\"dtype\":\"U8\",\"shape\":[2],");
	assert_contains(header, "\"object\":{\"dtype\":\"U8\",\"shape\":[9],");
	assert_contains(header, "\"nothing\":{\"dtype\":\"U8\",\"shape\":[0],");
	assert_null(strstr(header, "DCP"));
	assert_at(place_of("page"), bytes, 8192);
	assert_int_equal(place_of("page") % 4096, 0);
	assert_at(place_of("matrix"), matrix, 24);
	assert_at(place_of("scalar"), bytes, 8);
	assert_at(place_of(odd), "ab", 2);
	assert_at(place_of("seven"), "sevenen", 7);
	assert_at(place_of("object"), object, 9);
	assert_int_equal(place_of("object") + 9, content_len);
	free(bytes);
}

/* Whatever the sizes are, every tensor begins where its elements want to. */
static void places_are_aligned(void **state)
{
	static const char *const dtypes[] = {"U8", "BF16", "F32", "F64"};
	struct ckptfs_tensor_info t[300];
	char names[300][16];
	uint64_t seed = 7;

	(void)state;
	for (int i = 0; i < 300; i++) {
		uint64_t element = 1u << (i % 4);

		snprintf(names[i], sizeof(names[i]), "t%d", i);
		t[i] = row_of(i + 1, names[i], element * (next_random(&seed) % 40));
		if (i % 10 == 0)
			t[i].bytes = 4096 * (next_random(&seed) % 3);
		t[i].dtype = dtypes[i % 4];
	}
	create(NULL, t, 300);
	for (int i = 0; i < 300; i++)
		assert_int_equal(write_part(i + 1, content, 0, t[i].bytes), 0);
	assert_int_equal(ckptfs_file_close(f), 0);
	assert_int_equal(ckptfs_index_open(path, &ix), 0);
	for (int i = 0; i < 300; i++) {
		const struct ckptfs_entry *e = ckptfs_index_find(ix, names[i]);

		assert_int_equal(e->bytes, t[i].bytes);
		assert_int_equal(e->file_off % (1u << (i % 4)), 0);
		if (t[i].bytes % 4096 == 0)
			assert_int_equal(e->file_off % 4096, 0);
	}
	ckptfs_index_close(ix);
}

static void parts_say_of_what_they_are_parts(void **state)
{
	struct ckptfs_tensor_info t[] = {
		{.id = 1,
		 .name = "a\"",
		 .dtype = "U8",
		 .ndim = 2,
		 .bytes = 6,
		 .global_shape = {4, 3},
		 .shard_offset = {2, 0},
		 .shard_shape = {2, 3}},
		row_of(2, "whole", 1),
	};
	const struct ckptfs_entry *e;

	(void)state;
	create(NULL, t, 2);
	assert_int_equal(write_part(1, "abcdef", 0, 6), 0);
	assert_int_equal(write_part(2, "x", 0, 1), 0);
	assert_int_equal(ckptfs_file_object(f, "o", "yz", 2), 0);
	assert_int_equal(ckptfs_file_close(f), 0);
	assert_contains(
		read_file(),
		"\"DCP_VERSION\":\"1.0\",\"DCP_SHARDING_INFO\":\"{"
		"\\\"a\\\\\\\"\\\":{\\\"saved_offsets\\\":[2,0],\\\"global_shape\\\":[4,3]},"
		"\\\"whole\\\":{\\\"saved_offsets\\\":[],\\\"global_shape\\\":[]},"
		"\\\"o\\\":{\\\"saved_offsets\\\":[0],\\\"global_shape\\\":[2]}}\"");
	assert_int_equal(ckptfs_index_open(path, &ix), 0);
	e = ckptfs_index_find(ix, "a\"");
	assert_int_equal(e->shard_offset[0], 2);
	assert_int_equal(e->global_shape[0], 4);
	ckptfs_index_close(ix);
}

/* --- what is not whole --- */

static void without_its_end_it_is_no_file(void **state)
{
	struct ckptfs_tensor_info t = row_of(1, "t", 5000);
	int fds = count_fds();

	(void)state;
	create(NULL, &t, 1);
	assert_int_equal(write_part(1, content, 0, 4000), 0);
	assert_int_equal(write_part(1, content, 4001, 999), 0);
	assert_int_equal(ckptfs_file_object(f, "o", "o", 1), 0);
	assert_int_equal(ckptfs_file_close(f), -ENODATA);
	assert_contains(ckptfs_error(NULL), "byte 4000 of 5000");
	assert_contains(ckptfs_error(NULL), path);
	assert_int_equal(ckptfs_index_open(path, &ix), -EILSEQ);
	create(NULL, &t, 1);
	assert_int_equal(ckptfs_file_close(f), -ENODATA);
	create(NULL, &t, 1);
	assert_int_equal(write_part(1, content, 0, 5000), 0);
	ckptfs_file_abandon(f);
	assert_int_equal(ckptfs_index_open(path, &ix), -EILSEQ);
	assert_contains(ckptfs_error(NULL), "never written");
	ckptfs_file_abandon(NULL);
	assert_int_equal(count_fds(), fds);
}

static void an_object_that_could_not_be_written_fails_the_end(void **state)
{
	(void)state;
	assert_int_equal(ckptfs_file_create(NULL, "/dev/full", NULL, 0, 0, &f), 0);
	assert_int_equal(ckptfs_file_object(f, "o", "o", 1), -ENOSPC);
	assert_contains(ckptfs_error(NULL), "/dev/full: o:");
	assert_int_equal(ckptfs_file_close(f), -ENOSPC);
	assert_int_equal(ckptfs_file_create(NULL, "/dev/full", NULL, 0, 0, &f), 0);
	assert_int_equal(ckptfs_file_close(f), -ENOSPC);
	assert_contains(ckptfs_error(NULL), "header");
}

/* The header could be: it must not hide what is missing. */
static void an_object_that_is_cut_off_fails_the_end(void **state)
{
	struct rlimit no_more, before;

	(void)state;
	create(NULL, NULL, 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	no_more = before;
	no_more.rlim_cur = CKPTFS_FILE_SPARE + 10000;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &no_more), 0);
	assert_int_equal(ckptfs_file_object(f, "o", content, 20000), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(ckptfs_file_object(f, "p", content, 1), 0);
	assert_int_equal(ckptfs_file_close(f), -EFBIG);
	assert_int_equal(ckptfs_index_open(path, &ix), -EILSEQ);
	assert_contains(ckptfs_error(NULL), "never written");
}

static void a_child_has_no_part_in_it(void **state)
{
	struct stat st;
	int status;

	(void)state;
	create(NULL, NULL, 0);
	if (fork() == 0)
		_exit(ckptfs_file_object(f, "o", "x", 1) == -ECHILD &&
				      ckptfs_file_close(f) == -ECHILD
			      ? 0
			      : 1);
	wait(&status);
	assert_int_equal(status, 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 8);
	assert_int_equal(ckptfs_file_close(f), 0);
	assert_int_equal(ckptfs_index_open(path, &ix), 0);
	assert_null(ckptfs_index_find(ix, "o"));
	ckptfs_index_close(ix);
}

static void nothing_is_written_twice(void **state)
{
	struct ckptfs_tensor_info t = row_of(1, "t", 100);
	struct ckptfs_write_op ops[] = {{.id = 1, .addr = content, .src_off = 50, .len = 10},
					{.id = 1, .addr = content, .src_off = 59, .len = 10}};

	(void)state;
	create(NULL, &t, 1);
	assert_int_equal(write_part(1, content, 10, 10), 0);
	assert_int_equal(write_part(1, content, 5, 6), -EEXIST);
	assert_contains(ckptfs_error(NULL), "t: bytes 5 to 11 were written before");
	assert_int_equal(write_part(1, content, 19, 1), -EEXIST);
	assert_int_equal(write_part(1, content, 0, 100), -EEXIST);
	assert_int_equal(write_part(1, content, 20, 1), 0);
	/* Of a call that is refused nothing counts. */
	assert_int_equal(ckptfs_file_write(f, ops, 2), -EEXIST);
	assert_int_equal(write_part(1, NULL, 50, 10), -EFAULT);
	assert_int_equal(write_part(1, content, 21, 79), 0);
	assert_int_equal(write_part(1, content, 0, 10), 0);
	assert_int_equal(ckptfs_file_object(f, "o", "o", 1), 0);
	assert_int_equal(ckptfs_file_object(f, "o", "o", 1), -EEXIST);
	assert_int_equal(ckptfs_file_object(f, "t", "o", 1), -EEXIST);
	assert_int_equal(ckptfs_file_metadata(f, "k", "v"), 0);
	assert_int_equal(ckptfs_file_metadata(f, "k", "v"), -EEXIST);
	assert_int_equal(ckptfs_file_metadata(f, "format", "np"), 0);
	assert_int_equal(ckptfs_file_metadata(f, "format", "np"), -EEXIST);
	assert_int_equal(ckptfs_file_close(f), 0);
	assert_contains(read_file(), "{\"format\":\"np\",\"k\":\"v\"}");
}

/* --- the header's room --- */

static void what_the_header_has_no_room_for_is_refused_at_once(void **state)
{
	struct ckptfs_tensor_info t[] = {
		{.id = 1,
		 .name = "a",
		 .dtype = "U8",
		 .ndim = 1,
		 .bytes = 1,
		 .global_shape = {4},
		 .shard_offset = {2},
		 .shard_shape = {1}},
	};
	char long_text[5000], name[16];
	int nr = 0, err;

	(void)state;
	memset(long_text, '"', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	assert_int_equal(ckptfs_file_create(NULL, name_file(NAME), t, 1, 1, &f), 0);
	assert_int_equal(write_part(1, "x", 0, 1), 0);
	assert_int_equal(ckptfs_file_metadata(f, "format", long_text), -ENOSPC);
	assert_int_equal(ckptfs_file_metadata(f, "k", long_text), -ENOSPC);
	assert_contains(ckptfs_error(NULL), "larger spare");
	assert_int_equal(ckptfs_file_object(f, long_text, "x", 1), -ENOSPC);
	do {
		snprintf(name, sizeof(name), "o%d", nr);
		err = ckptfs_file_object(f, name, name, strlen(name));
	} while (!err && ++nr);
	assert_int_equal(err, -ENOSPC);
	assert_true(nr > 10);
	assert_int_equal(ckptfs_file_close(f), 0);
	assert_int_equal(ckptfs_index_open(path, &ix), 0);
	assert_string_equal(ckptfs_index_metadata(ix, "format"), "pt");
	assert_null(ckptfs_index_find(ix, name));
	snprintf(name, sizeof(name), "o%d", nr - 1);
	assert_non_null(ckptfs_index_find(ix, name));
	ckptfs_index_close(ix);
}

static void what_cannot_be_is_refused(void **state)
{
	struct ckptfs_tensor_info right = {.id = 1,
					   .name = "n",
					   .dtype = "F32",
					   .ndim = 1,
					   .bytes = 8,
					   .global_shape = {3},
					   .shard_offset = {1},
					   .shard_shape = {2}};
	struct ckptfs_tensor_info t[2];

	(void)state;
	name_file(NAME);
#define WRONG(err, ...) \
	t[0] = t[1] = right; \
	t[1].id = 2; \
	t[1].name = "m"; \
	__VA_ARGS__; \
	assert_int_equal(ckptfs_file_create(NULL, path, t, 2, 0, &f), err); \
	assert_true(!f == !!err); \
	ckptfs_file_abandon(f); \
	assert_true(!err || strstr(ckptfs_error(NULL), path))
	WRONG(0, (void)0);
	assert_int_equal(unlink(path), 0);
	WRONG(-EINVAL, t[1].id = 1);
	WRONG(-EEXIST, t[1].name = "n");
	WRONG(-EINVAL, t[1].name = NULL);
	WRONG(-EINVAL, t[1].name = "\xff");
	WRONG(-EINVAL, t[1].name = "__metadata__");
	WRONG(-EINVAL, t[1].dtype = "C128");
	WRONG(-EINVAL, t[1].ndim = 9);
	WRONG(-EINVAL, t[1].bytes = 9);
	WRONG(-EINVAL, t[1].ndim = 0, t[1].bytes = 9);
	WRONG(-EINVAL, t[1].shard_offset[0] = 2);
	WRONG(-EINVAL, t[1].shard_offset[0] = UINT64_MAX);
	WRONG(-EINVAL, t[1].shard_shape[0] = 1);
	WRONG(-EINVAL, t[1].ndim = 0, t[1].bytes = 1ull << 62);
	WRONG(-EOPNOTSUPP, t[1].memory = CKPTFS_CUDA);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(ckptfs_file_create(NULL, path, NULL, 0, 100000000, &f), -EFBIG);
	assert_int_equal(ckptfs_file_create(NULL, path, NULL, 0, UINT64_MAX, &f), -EFBIG);
	assert_int_equal(ckptfs_file_create(NULL, "/dev/null/x", NULL, 0, 0, &f), -ENOTDIR);
}

static void no_file_is_larger_than_files_can_be(void **state)
{
	static const char *const names[] = {"a", "b", "c", "d"};
	struct ckptfs_tensor_info t[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		t[i] = row_of(i + 1, names[i], (1ull << 61) - 1);
	assert_int_equal(ckptfs_file_create(NULL, name_file(NAME), t, 4, 0, &f), -EFBIG);
	create(NULL, t, 3);
	assert_int_equal(ckptfs_file_object(f, "o", "x", 1ull << 62), -EFBIG);
	assert_int_equal(ckptfs_file_object(f, "o", "x", UINT64_MAX), -EFBIG);
	ckptfs_file_abandon(f);
}

static void calls_that_cannot_be_are_refused(void **state)
{
	struct ckptfs_tensor_info t = row_of(1, "t", 100);
	struct ckptfs_write_op op = {.id = 1, .addr = content, .len = 100};

	(void)state;
	create(NULL, &t, 1);
	assert_int_equal(write_part(2, content, 0, 1), -EBADF);
	assert_int_equal(write_part(1, content, 1, 100), -EINVAL);
	assert_int_equal(write_part(1, content, UINT64_MAX, 2), -EINVAL);
	op.rows = 3, op.row_bytes = op.pitch = 33;
	assert_int_equal(ckptfs_file_write(f, &op, 1), -EINVAL);
	op.rows = 4, op.row_bytes = 25, op.pitch = 24;
	assert_int_equal(ckptfs_file_write(f, &op, 1), -EINVAL);
	op.pitch = 26;
	for (unsigned i = 0; i < 104; i++)
		content[i] = (char)i;
	assert_int_equal(ckptfs_file_write(f, &op, 1), 0);
	assert_int_equal(ckptfs_file_object(f, "__metadata__", "", 0), -EINVAL);
	assert_int_equal(ckptfs_file_object(f, "\xff", "", 0), -EINVAL);
	assert_int_equal(ckptfs_file_object(f, NULL, "", 0), -EINVAL);
	assert_int_equal(ckptfs_file_object(f, "o", NULL, 1), -EFAULT);
	assert_int_equal(ckptfs_file_metadata(f, "k", "\xff"), -EINVAL);
	assert_int_equal(ckptfs_file_metadata(f, NULL, "v"), -EINVAL);
	assert_int_equal(ckptfs_file_metadata(f, "DCP_SHARDING_INFO", "v"), -EINVAL);
	assert_int_equal(ckptfs_file_close(f), 0);
	read_file();
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(content[place_of("t") + i], i / 25 * 26 + i % 25);
}

/* --- with a session --- */

static void what_is_written_by_handle_comes_later(void **state)
{
	struct ckptfs_session *s = session_open();
	struct ckptfs_tensor_info t[] = {row_of(1, "a", 10000), row_of(2, "b", 8192)};
	unsigned char *bytes = random_bytes(10000);
	int status;

	(void)state;
	DAEMON_SET(daemon_.hold = true);
	create(s, t, 2);
	assert_int_equal(daemon_.nr_ids, 2);
	assert_int_equal(write_part(1, bytes, 0, 10000), 0);
	assert_int_equal(write_part(2, bytes, 0, 8192), 0);
	assert_int_equal(write_part(2, bytes, 0, 1), -EEXIST);
	assert_contains(ckptfs_error(s), "were written before");
	assert_int_equal(ckptfs_file_object(f, "o", "now", 3), 0);
	if (fork() == 0)
		_exit(ckptfs_file_object(f, "o2", "x", 1) == -ECHILD &&
				      write_part(1, bytes, 0, 1) == -ECHILD &&
				      ckptfs_file_close(f) == -ECHILD
			      ? 0
			      : 1);
	wait(&status);
	assert_int_equal(status, 0);
	DAEMON_SET(daemon_.hold = false);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, CKPTFS_BARRIER_LANDED, 0), 0);
	assert_int_equal(ckptfs_file_close(f), 0);
	read_file();
	assert_int_equal(place_of("b"), daemon_.captures[1].c.file_off);
	assert_at(place_of("a"), bytes, 10000);
	assert_at(place_of("b"), bytes, 8192);
	/* The next one, with the same tensors. */
	create(s, t, 2);
	assert_int_equal(daemon_.nr_registers, 1);
	ckptfs_file_abandon(f);
	t[1].bytes++;
	assert_int_equal(ckptfs_file_create(s, path, t, 2, 0, &f), -EEXIST);
	assert_null(f);
	ckptfs_close(s);
	free(bytes);
}

#define THREADS 4
#define EACH	50

static void *write_some(void *arg)
{
	uintptr_t thread = (uintptr_t)arg;
	char name[32];

	for (unsigned i = 0; i < EACH; i++) {
		snprintf(name, sizeof(name), "o.%u.%u", (unsigned)thread, i);
		assert_int_equal(ckptfs_file_object(f, name, name, strlen(name)), 0);
		assert_int_equal(ckptfs_file_metadata(f, name, name), 0);
		assert_int_equal(write_part(1, content, i * THREADS + thread, 1), 0);
		assert_int_equal(write_part(1, content, i * THREADS + thread, 1), -EEXIST);
	}
	return NULL;
}

static void threads_write_together(void **state)
{
	struct ckptfs_tensor_info t = row_of(1, "t", THREADS * EACH);
	pthread_t threads[THREADS];
	char name[32], expected[THREADS * EACH];

	(void)state;
	create(NULL, &t, 1);
	for (unsigned i = 0; i < sizeof(expected); i++)
		content[i] = expected[i] = (char)(i * 7);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, write_some, (void *)i);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(ckptfs_file_close(f), 0);
	read_file();
	assert_at(place_of("t"), expected, sizeof(expected));
	for (unsigned i = 0; i < THREADS; i++)
		for (unsigned k = 0; k < EACH; k++) {
			snprintf(name, sizeof(name), "o.%u.%u", i, k);
			assert_at(place_of(name), name, strlen(name));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DAEMON_TEST(tensors_and_objects_are_all_there),
		DAEMON_TEST(places_are_aligned),
		DAEMON_TEST(parts_say_of_what_they_are_parts),
		DAEMON_TEST(without_its_end_it_is_no_file),
		DAEMON_TEST(an_object_that_could_not_be_written_fails_the_end),
		DAEMON_TEST(an_object_that_is_cut_off_fails_the_end),
		DAEMON_TEST(a_child_has_no_part_in_it),
		DAEMON_TEST(nothing_is_written_twice),
		DAEMON_TEST(what_the_header_has_no_room_for_is_refused_at_once),
		DAEMON_TEST(what_cannot_be_is_refused),
		DAEMON_TEST(no_file_is_larger_than_files_can_be),
		DAEMON_TEST(calls_that_cannot_be_are_refused),
		DAEMON_TEST(what_is_written_by_handle_comes_later),
		DAEMON_TEST(threads_write_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
