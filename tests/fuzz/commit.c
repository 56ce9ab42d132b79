/* SPDX-License-Identifier: MIT */
/*
 * Any file is refused as a commit file with a reason; or what it says can be written as one, and is
 * read the same.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <xxhash.h>

#include "engine/format/commit.h"

struct file {
	char *data;
	size_t size;
};

static ssize_t read_file(void *arg, void *buf, size_t len, uint64_t off)
{
	struct file *f = arg;
	size_t left = off < f->size ? f->size - off : 0;

	if (len > left)
		len = left;
	memcpy(buf, f->data + off, len);
	return (ssize_t)len;
}

static int write_file(void *arg, const void *data, size_t len)
{
	struct file *f = arg;

	f->data = realloc(f->data, f->size + len);
	REQUIRE(f->data);
	memcpy(f->data + f->size, data, len);
	f->size += len;
	return 0;
}

static int copy_entry(void *arg, const struct commit_entry *entry)
{
	REQUIRE(!commit_path_problem(entry->path));
	REQUIRE(!commit_writer_add(arg, entry));
	return 0;
}

static int copy_tensor(void *arg, const struct commit_tensor *t)
{
	REQUIRE(!commit_tensor_problem(t) && !commit_tensor_compare(t, t));
	REQUIRE(!commit_writer_add_tensor(arg, t));
	return 0;
}

/* Most inputs would be refused for their digest alone. */
static void sign(struct file *f)
{
	static const char start[] = "\n\"digest\": \"",
			  zeros[] = "00000000000000000000000000000000";
	size_t tail = strlen(start) + strlen(zeros) + strlen("\"\n}\n");
	char hex[COMMIT_HEX], *at;
	XXH128_hash_t hash;

	if (f->size < tail || memcmp(f->data + f->size - tail, start, strlen(start)))
		return;
	at = f->data + f->size - tail + strlen(start);
	memcpy(at, zeros, strlen(zeros));
	hash = XXH3_128bits(f->data, f->size);
	snprintf(hex, sizeof(hex), "%016llx%016llx", (unsigned long long)hash.high64,
		 (unsigned long long)hash.low64);
	memcpy(at, hex, strlen(zeros));
}

static void write_again(struct source *src, const struct commit_header *header)
{
	struct file again = {0};
	struct source from = {read_file, &again};
	struct commit_header h;
	struct commit_writer *w;
	struct error e;

	REQUIRE(!commit_writer_create(&w, header, write_file, &again));
	REQUIRE(!commit_read(src, "x", NULL, copy_entry, w, &e));
	REQUIRE(!commit_read_tensors(src, "x", copy_tensor, w, &e));
	REQUIRE(!commit_writer_end(w));
	commit_writer_destroy(w);
	REQUIRE(!commit_read(&from, "x", &h, NULL, NULL, &e));
	REQUIRE(!memcmp(&h, header, sizeof(h)));
	free(again.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct file f = {malloc(size ? size : 1), size};
	struct source src = {read_file, &f};
	struct commit_header header, alone;
	struct error e = {0};
	int err;

	REQUIRE(f.data);
	memcpy(f.data, data, size);
	sign(&f);
	err = commit_read(&src, "x", &header, NULL, NULL, &e);
	REQUIRE(err == 0 || ((err == -EBADMSG || err == -EPROTO) && err == -e.err && *e.text));
	if (!err) {
		REQUIRE(!commit_read_header(&src, "x", &alone, &e));
		REQUIRE(!memcmp(&alone, &header, sizeof(alone)));
		write_again(&src, &header);
	}
	free(f.data);
	return 0;
}
