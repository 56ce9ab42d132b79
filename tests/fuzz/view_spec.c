/* SPDX-License-Identifier: MIT */
/* Any text is refused as a view, with a reason, or says bounded things that can be asked. */
#include "tests/fuzz/fuzz.h"

#include <errno.h>

#include "engine/views/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct index_tensor t = {
		.name = "fp32.model.w", .scope = "a/b.pt", .dtype = "F32", .part = PART_OPTIMIZER};
	char *text = fuzz_text(data, size), why[SPEC_WHY_MAX] = "";
	struct view_spec s;
	int err = view_spec_parse(&s, text, why);

	REQUIRE(err == 0 || (err == -EINVAL && *why && strlen(why) < sizeof(why)));
	if (!err) {
		const char *name = view_spec_name(&s, &t);

		REQUIRE(name >= t.name && name < t.name + strlen(t.name));
		view_spec_wants(&s, &t);
		view_spec_wants_name(&s, name);
		REQUIRE(s.nr_only <= SPEC_GLOBS && s.tp && s.pp && s.dp);
		REQUIRE((uint64_t)s.tp * s.pp * s.dp <= SPEC_RANKS);
	}
	free(text);
	return 0;
}
