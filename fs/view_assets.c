/* SPDX-License-Identifier: MIT */
#include "fs/view_assets.h"

#include <string.h>

#include "engine/base/cleanup.h"

static const char *const names[] = {"config.json",
				    "generation_config.json",
				    "tokenizer.json",
				    "tokenizer_config.json",
				    "tokenizer.model",
				    "special_tokens_map.json",
				    "added_tokens.json",
				    "vocab.json",
				    "vocab.txt",
				    "merges.txt",
				    "chat_template.jinja",
				    "preprocessor_config.json",
				    "processor_config.json"};

const char *view_asset(size_t i)
{
	return i < ARRAY_SIZE(names) ? names[i] : NULL;
}

bool view_asset_is(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}
