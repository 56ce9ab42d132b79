/* SPDX-License-Identifier: MIT */
/*
 * Any safetensors file is indexed by libckptfs or refused: what is found lies within the file, one
 * behind the other, is found by its name, and the engine's own check of such files, which is
 * another parser, takes what this one takes.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>

#include "client/index.h"
#include "engine/content/structure.h"

struct file {
	const uint8_t *data;
	size_t size;
};

static ssize_t read_file(void *arg, void *buf, size_t len, uint64_t off)
{
	struct file *f = arg;

	REQUIRE(off <= f->size && len <= f->size - off);
	memcpy(buf, f->data + off, len);
	return (ssize_t)len;
}

static void look(struct ckptfs_index *ix, uint64_t data_off, uint64_t size)
{
	const struct ckptfs_entry *all;
	size_t nr = ckptfs_index_entries(ix, &all);
	uint64_t at = data_off;

	for (size_t i = 0; i < nr; i++) {
		REQUIRE(all[i].file_off == at && all[i].bytes <= size - at);
		at += all[i].bytes;
		REQUIRE(ckptfs_index_find(ix, all[i].name) == &all[i]);
		REQUIRE(strlen(all[i].dtype) > 1);
		for (uint32_t d = 0; d < all[i].ndim; d++) {
			REQUIRE(!all[i].shard_offset ||
				all[i].shard_offset[d] <= UINT64_MAX - all[i].shape[d]);
			REQUIRE(!all[i].global_shape ||
				(all[i].shard_offset && all[i].shard_offset[d] + all[i].shape[d] <=
								all[i].global_shape[d]));
		}
	}
	REQUIRE(at == size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct file f = {data, size};
	struct source src = {read_file, &f};
	struct ckptfs_index *ix;
	struct error e = {0};
	const char *why;
	uint64_t len = 0;
	char *text;
	int err;

	if (size < 8)
		return 0;
	for (int i = 7; i >= 0; i--)
		len = len << 8 | data[i];
	if (len > size - 8)
		return 0;
	text = malloc(len ? len : 1);
	REQUIRE(text);
	memcpy(text, data + 8, len);
	err = ckpt_index_parse(text, len, size - 8 - len, &ix, &why);
	REQUIRE(err == 0 || err == -EILSEQ);
	REQUIRE(!err == !why && !err == !!ix);
	if (err)
		return 0;
	look(ix, 8 + len, size);
	ckptfs_index_close(ix);
	REQUIRE(!structure_check(&src, "a.safetensors", size, &e));
	return 0;
}
