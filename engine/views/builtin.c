/* SPDX-License-Identifier: MIT */
#include "engine/views/builtin.h"

#include <stddef.h>
#include <string.h>

#include "engine/base/cleanup.h"

/* The bytes of a file, with a 0 behind. */
#define BUILTIN(symbol, file) \
	__asm__(".section .rodata\n" #symbol ":\n" \
		".incbin \"engine/views/builtin/" file "\"\n" \
		".byte 0\n" \
		".previous\n"); \
	extern const char symbol[]

BUILTIN(builtin_megatron_llama, "megatron-llama.json");
BUILTIN(builtin_torchtitan_llama, "torchtitan-llama.json");
BUILTIN(builtin_llama, "llama.json");

const char *builtin_json(const char *name)
{
	const struct {
		const char *name, *text;
	} all[] = {
		{"megatron-llama", builtin_megatron_llama},
		{"torchtitan-llama", builtin_torchtitan_llama},
		{"llama", builtin_llama},
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (!strcmp(all[i].name, name))
			return all[i].text;
	return NULL;
}
