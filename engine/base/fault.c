/* SPDX-License-Identifier: MIT */
#include "engine/base/fault.h"

#include <stddef.h>
#include <string.h>

#include "engine/base/cleanup.h"

static const struct {
	const char *name, *what;
} faults[] = {
#define FAULT_TEXT(id, name, what) {name, what},
	FAULTS(FAULT_TEXT)
#undef FAULT_TEXT
};

enum fault fault_chosen;

bool fault_choose(const char *name)
{
	unsigned i;

	for (i = 0; i < ARRAY_SIZE(faults); i++)
		if (!strcmp(faults[i].name, name)) {
			fault_chosen = (enum fault)(i + 1);
			return true;
		}
	return false;
}

const char *fault_name(unsigned nr, const char **what)
{
	if (nr >= ARRAY_SIZE(faults))
		return NULL;
	*what = faults[nr].what;
	return faults[nr].name;
}
