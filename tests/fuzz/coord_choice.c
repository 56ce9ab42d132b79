/* SPDX-License-Identifier: MIT */
/* Any .ckptfs/coord.json is refused with a reason, or names a cluster. */
#include "tests/fuzz/fuzz.h"

#include "engine/coord/choice.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *exact = malloc(size ? size : 1); /* no terminator behind it to hide an overrun */
	char way[64] = "";
	const char *problem;

	REQUIRE(exact);
	memcpy(exact, data, size);
	problem = coord_parse_choice(exact, size, way);
	REQUIRE(problem ? *problem && !*way : strlen(way) > strlen("etcd cluster "));
	free(exact);
	return 0;
}
