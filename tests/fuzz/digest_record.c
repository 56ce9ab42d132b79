/* SPDX-License-Identifier: MIT */
/* A text is no record, or exactly the one that would be written with what it says. */
#include "tests/fuzz/fuzz.h"

#include <errno.h>

#include "engine/format/digest_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *exact = malloc(size ? size : 1); /* no terminator behind it to hide an overrun */
	char hex[DIGEST_HEX] = "", text[DIGEST_RECORD_MAX];
	uint64_t fsize = 1, mtime = 2;
	int err;

	REQUIRE(exact);
	memcpy(exact, data, size);
	err = digest_record_parse(exact, size, hex, &fsize, &mtime);
	REQUIRE(err == 0 || (err == -EINVAL && !hex[0] && fsize == 1 && mtime == 2));
	if (!err) {
		REQUIRE(digest_record_format(text, sizeof(text), hex, fsize, mtime) == (int)size);
		REQUIRE(!memcmp(text, exact, size));
	}
	/* A record file has a newline behind it. */
	REQUIRE(digest_file_check(exact, size) < 0 || exact[size - 1] == '\n');
	if (!err) {
		exact = realloc(exact, size + 1);
		REQUIRE(exact && digest_file_check(exact, size) < 0);
		exact[size] = '\n';
		REQUIRE(digest_file_check(exact, size + 1) == (int)size);
	}
	free(exact);
	return 0;
}
