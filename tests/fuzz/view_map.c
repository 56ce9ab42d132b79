/* SPDX-License-Identifier: MIT */
/*
 * Any text is refused as a map and as a layout, with a reason, or makes a view all of whose bytes
 * can be read.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>

#include "engine/base/cleanup.h"
#include "engine/views/view.h"

#define BYTES_MAX ((uint64_t)1 << 20)

static int read_text(void *text, const char *name, char **out)
{
	if (!strcmp(name, "config.json"))
		*out = strdup("{\"heads\": 4, \"kv_heads\": 2, \"none\": null}");
	else
		*out = strdup(text);
	REQUIRE(*out);
	return 0;
}

/* The pieces of the tensors are in a file of zeros. */
static int read_zeros(void *arg, size_t path, void *buf, size_t len, uint64_t off)
{
	(void)arg;
	REQUIRE(path == 0 && off + len <= 4096);
	memset(buf, 0, len);
	return 0;
}

static struct index *make_index(void)
{
	static const uint64_t shapes[][3] = {{6, 8, 4}, {8, 4, 2}, {8, 8, 0}, {5, 1, 1}};
	static const char *const names[] = {"layers.qkv", "layers.3.w", "empty", "b"};
	struct index_tensor *t;
	struct index *ix;

	REQUIRE(!index_create(&ix));
	for (unsigned i = 0; i < 4; i++) {
		struct index_piece p = {.path = "file", .at = i * 1000};

		REQUIRE(!index_add(ix, "", names[i], "F32", 3, shapes[i], &t));
		p.bytes = shapes[i][0] * shapes[i][1] * shapes[i][2] * 4;
		REQUIRE(!index_add_piece(ix, t, &p));
	}
	REQUIRE(!index_add(ix, "", "scalar", "F32", 0, NULL, &t));
	REQUIRE(!index_add_piece(ix, t, &(struct index_piece){.path = "file", .bytes = 4}));
	REQUIRE(!index_finish(ix));
	return ix;
}

static void read_all(const struct view *v)
{
	const struct view_source src = {.read = read_zeros};
	uint64_t left = BYTES_MAX;
	char buf[512];

	for (size_t f = 0; f < v->nr_files; f++) {
		uint64_t at = 0;

		while (at < v->files[f].size && left > sizeof(buf)) {
			ssize_t n = view_read(v, f, buf, sizeof(buf), at, &src);

			REQUIRE(n > 0);
			at += (uint64_t)n;
			left -= (uint64_t)n;
		}
		REQUIRE(at == v->files[f].size || left <= sizeof(buf));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const specs[] = {"map=x", "layout=x,tp=2,pp=2,dp=3", "map=x,npy",
					    "map=x,dcp,n=3"};
	char *text = fuzz_text(data, size);
	struct view_beside beside = {.read = read_text, .arg = text};

	for (unsigned i = 0; i < ARRAY_SIZE(specs); i++) {
		char why[SPEC_WHY_MAX] = "";
		struct view *v;
		int err = view_create(&v, make_index(), specs[i], &beside, why);

		REQUIRE(err == 0 || err == -EFBIG ||
			(err == -EINVAL && *why && strlen(why) < sizeof(why)));
		if (!err)
			read_all(v);
		view_destroy(v);
	}
	free(text);
	return 0;
}
