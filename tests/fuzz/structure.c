/* SPDX-License-Identifier: MIT */
/* Any file is whole or is told to be broken, without a read beyond it, and with few of them. */
#include "tests/fuzz/fuzz.h"

#include <errno.h>

#include "engine/content/structure.h"

struct file {
	const uint8_t *data;
	size_t size, reads;
};

static ssize_t read_file(void *arg, void *buf, size_t len, uint64_t off)
{
	struct file *f = arg;

	REQUIRE(off <= f->size && len <= f->size - off);
	f->reads++;
	memcpy(buf, f->data + off, len);
	return (ssize_t)len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {"a.pt", "a.safetensors"};
	size_t i;

	for (i = 0; i < 2; i++) {
		struct file f = {data, size, 0};
		struct source src = {read_file, &f};
		struct error e = {0};
		int err = structure_check(&src, names[i], size, &e);

		REQUIRE((err == 0 || err == -EILSEQ) && err == -e.err);
		REQUIRE(!err == !e.text[0]);
		REQUIRE(f.reads <= 8 + size);
	}
	return 0;
}
