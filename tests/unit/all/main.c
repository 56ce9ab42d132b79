/* SPDX-License-Identifier: MIT */
/*
 * The unit tests as one program, linked once: each file of tests/unit is compiled with its main()
 * named after it, and NAME.t is a link to this program. It runs the tests of the file by whose name
 * it is called.
 */
#include <stdio.h>
#include <string.h>

#define UNIT(name) int unit_##name(int argc, char **argv);
#include "unit_names.h" /* made by the Makefile: UNIT(NAME) for each file */
#undef UNIT

static const struct {
	const char *name;
	int (*main)(int argc, char **argv);
} units[] = {
#define UNIT(name) {#name ".t", unit_##name},
#include "unit_names.h"
};

int main(int argc, char **argv)
{
	const char *slash = argc ? strrchr(argv[0], '/') : NULL;
	const char *name = slash ? slash + 1 : argc ? argv[0] : "";
	size_t i;

	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(name, units[i].name))
			return units[i].main(argc, argv);
	fprintf(stderr, "unit: call it by the name of a test (NAME.t), a link to it\n");
	return 2;
}
