/* SPDX-License-Identifier: MIT */
/*
 * Any bytes in any of the forms that tensors/read.h knows become an index: each piece lies within
 * its file, and a tensor that is called complete has as many bytes as its shape says. The first
 * byte of the input chooses the names of the files.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "engine/tensors/read.h"
#include "engine/tensors/stored.h"

static const char *const names[][2] = {
	{"a.pt"},
	{".metadata", "__0_0.distcp"},
	{"a.safetensors"},
	{"zero_pp_rank_0_mp_rank_00_optim_states.pt", "mp_rank_00_model_states.pt"},
};

static char top[64];

static void put(const char *name, const uint8_t *data, size_t size)
{
	char path[160];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", top, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	REQUIRE(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	close(fd);
}

static void drop(const char *name)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", top, name);
	unlink(path);
}

static void look(const struct index *ix, const struct tree *t)
{
	for (size_t i = 0; i < ix->nr; i++) {
		const struct index_tensor *one = ix->tensors[i];
		uint64_t bytes = 0;

		for (const struct index_piece *p = one->pieces; p; p = p->next) {
			const struct tree_file *f = tree_find(t, p->path);

			bytes += p->bytes;
			if (!p->unreachable && p->bytes)
				REQUIRE(f && p->at <= f->size && p->bytes <= f->size - p->at);
		}
		if (!one->hole && !one->opaque)
			REQUIRE(bytes >= index_bytes(one));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *const *name = names[size ? data[0] % 4 : 0];
	struct tree tree;
	struct index *ix = NULL;
	FILE *null;
	int err;

	if (!size)
		return 0;
	if (!*top) {
		snprintf(top, sizeof(top), "/dev/shm/ckptfs-fuzz-XXXXXX");
		REQUIRE(mkdtemp(top));
	}
	/* Two files have half of the input each. */
	put(name[0], data + 1, name[1] ? (size - 1) / 2 : size - 1);
	if (name[1])
		put(name[1], data + 1 + (size - 1) / 2, size - 1 - (size - 1) / 2);
	REQUIRE(!tree_open(&tree, top) && !index_create(&ix));
	err = index_read(ix, &tree);
	REQUIRE(!err);
	look(ix, &tree);
	null = fopen("/dev/null", "w");
	REQUIRE(null && !index_print(ix, "x", null));
	fclose(null);
	index_destroy(ix);
	tree_close(&tree);
	drop(name[0]);
	if (name[1])
		drop(name[1]);
	return 0;
}
