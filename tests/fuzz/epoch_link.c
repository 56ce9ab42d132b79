/* SPDX-License-Identifier: MIT */
/* Any record is a link of a chain of incarnations, or is refused; what was taken is written as it was read. */
#include "tests/fuzz/fuzz.h"

#include <errno.h>

#include "engine/epoch/epochs.h"

#define NR 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct epoch_link link, back;
	struct chain c = {0};
	uint64_t nr = NR - 1;
	char *text;
	int err = epoch_link_read((const char *)data, size, NR, &link);

	REQUIRE(!err || err == -EPERM);
	if (err)
		return 0;
	REQUIRE(link.nr == NR && link.first >= 1 && link.first <= NR);
	REQUIRE(!link.err == (link.first == NR));
	REQUIRE(!epoch_link_write(&link, "node", &text));
	REQUIRE(!epoch_link_read(text, strlen(text), NR, &back));
	REQUIRE(!memcmp(&link, &back, sizeof(link)));
	free(text);
	chain_learn(&c, &link, 7);
	REQUIRE(chain_tell(&c, &nr) == (link.err ? -link.err : -ESTALE));
	REQUIRE(nr == (link.err ? NR : NR - 1));
	return 0;
}
