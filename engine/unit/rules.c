/* SPDX-License-Identifier: MIT */
#include "engine/unit/rules.h"

#include <ctype.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/format/commit.h"
#include "engine/rule/rule.h"

static const char *const suffixes[] = {".pt", ".pth", ".ckpt", ".safetensors", ".keras"};

static bool has_suffix(const char *name, size_t len)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(suffixes); i++) {
		size_t n = strlen(suffixes[i]);

		if (len > n && !memcmp(name + len - n, suffixes[i], n))
			return true;
	}
	return false;
}

/* ".tmp" and six letters or digits: what safetensors writes before it renames. */
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

bool rules_single_file(const char *name)
{
	size_t len = strlen(name);

	if (has_suffix(name, len) || is_tmp_six(name, len))
		return true;
	return len > 4 && !strcmp(name + len - 4, ".tmp") && has_suffix(name, len - 4);
}

bool rules_tells_nothing(const char *name)
{
	return is_tmp_six(name, strlen(name));
}

bool rules_commit_file(const char *name)
{
	return !strcmp(name, COMMIT_FILE) || rules_is_copy(name, COMMIT_FILE);
}

bool rules_reserved(const char *name)
{
	return !strncmp(name, STAGING_PREFIX, strlen(STAGING_PREFIX));
}
