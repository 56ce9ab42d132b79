/* SPDX-License-Identifier: MIT */
/* Any line in place of one of /proc/self/mountinfo. */
#include "tests/fuzz/fuzz.h"

#include "fs/mountinfo.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mount_entry *m = calloc(1, sizeof(*m));
	char *line = fuzz_text(data, size), path[PATH_MAX] = "/";
	const char *name;

	REQUIRE(m);
	if (parse_line(line, m)) {
		REQUIRE(strlen(m->path) < sizeof(m->path));
		REQUIRE(strlen(m->source) < sizeof(m->source));
		REQUIRE(strlen(m->type) < sizeof(m->type));
		REQUIRE(contains(m, m->path) && is_at(m, m->path));
		for (name = strtok(m->path, "/"); name; name = strtok(NULL, "/"))
			if (append(path, name))
				break;
		REQUIRE(path[0] == '/' && strlen(path) < PATH_MAX);
		REQUIRE(!strstr(path, "//") && !strstr(path, "/../"));
	}
	free(line);
	free(m);
	return 0;
}
