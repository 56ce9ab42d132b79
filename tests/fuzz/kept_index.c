/* SPDX-License-Identifier: MIT */
/*
 * Any lines in the place of those of a kept index, with the digests that let a reader look at them,
 * are an index, or damaged. An index is the same once it was printed and read again.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/format/commit.h"
#include "engine/format/names.h"
#include "engine/tensors/read.h"
#include "engine/tensors/stored.h"

static char top[64];

static void put(const char *name, const char *data, size_t size)
{
	char path[160];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", top, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	REQUIRE(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	close(fd);
}

static void hex_of(const void *data, size_t size, char hex[COMMIT_HEX])
{
	XXH128_canonical_t c;

	XXH128_canonicalFromHash(&c, XXH3_128bits(data, size));
	for (size_t i = 0; i < sizeof(c); i++)
		sprintf(hex + 2 * i, "%02x", c.digest[i]);
}

/* The input in a frame that vouches for it. */
static void put_index(const uint8_t *data, size_t size)
{
	char commit[COMMIT_HEX], digest[COMMIT_HEX], *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	REQUIRE(out);
	hex_of("{}", 2, commit);
	fprintf(out,
		"{\n\"format\": \"" INDEX_FORMAT "\",\n\"version\": %d,\n\"commit\": \"%s\",\n",
		INDEX_VERSION, commit);
	fwrite(data, 1, size, out);
	fflush(out);
	hex_of(text, len, digest);
	fprintf(out, "\"digest\": \"%s\"\n}\n", digest);
	fclose(out);
	put(INDEX_FILE, text, len);
	free(text);
}

static char *print(const struct index *ix)
{
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	REQUIRE(out && !index_print(ix, "x", out));
	fclose(out);
	return text;
}

static void prepare(void)
{
	if (*top)
		return;
	snprintf(top, sizeof(top), "/dev/shm/ckptfs-fuzz-XXXXXX");
	REQUIRE(mkdtemp(top));
	put(COMMIT_FILE, "{}", 2);
	put("a", "0123456789abcdef", 16);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct index *ix = NULL, *again = NULL;
	struct tree tree;
	int err;

	prepare();
	put_index(data, size);
	REQUIRE(!tree_open(&tree, top) && !index_create(&ix));
	err = index_load(ix, &tree);
	REQUIRE(!err || err == -EBADMSG);
	if (!err) {
		char *text = print(ix), *text_again;

		REQUIRE(!index_keep(ix, tree.dir) && !index_create(&again));
		REQUIRE(!index_load(again, &tree));
		text_again = print(again);
		REQUIRE(!strcmp(text, text_again));
		free(text);
		free(text_again);
	}
	index_destroy(again);
	index_destroy(ix);
	tree_close(&tree);
	return 0;
}
