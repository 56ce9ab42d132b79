/* SPDX-License-Identifier: MIT */
#include "engine/rule/reserved_names.h"

#include <ctype.h>
#include <string.h>

#include "engine/format/commit.h"
#include "engine/format/names.h"
#include "engine/rule/rule.h"

/* ".tmp" and six letters or digits: safetensors writes such a file and renames it. */
static bool is_tmp_six(const char *name, size_t len)
{
	size_t i;

	if (len != 10 || memcmp(name, ".tmp", 4))
		return false;
	for (i = 4; i < len; i++)
		if (!isalnum((unsigned char)name[i]))
			return false;
	return true;
}

bool name_tells_nothing(const char *name)
{
	return is_tmp_six(name, strlen(name));
}

bool name_is_kept_in_units(const char *name)
{
	return !strcmp(name, COMMIT_FILE) || !strcmp(name, INDEX_FILE);
}

bool name_is_kept_or_copied(const char *name)
{
	return name_is_kept_in_units(name) || rules_is_copy(name, COMMIT_FILE) ||
	       rules_is_copy(name, INDEX_FILE);
}
