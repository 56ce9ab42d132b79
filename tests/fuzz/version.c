/* SPDX-License-Identifier: MIT */
/* Any version.json is taken or refused; what is taken is whole. */
#include "tests/fuzz/fuzz.h"

#include "engine/format/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *exact = malloc(size ? size : 1); /* no terminator behind it to hide an overrun */
	struct format f = {0};
	long long version = -1;
	const char *problem;

	REQUIRE(exact);
	memcpy(exact, data, size);
	problem = format_parse(exact, size, &f, &version);
	REQUIRE(problem ? !f.present && version == -1 && *problem
			: f.present && version >= 1 &&
				  (strlen(f.uuid) == 36 || version > FORMAT_VERSION));
	free(exact);
	return 0;
}
