/* SPDX-License-Identifier: MIT */
/* Maps and layouts that ckptfs brings along: the files of engine/views/builtin. */
#ifndef ENGINE_VIEWS_BUILTIN_H
#define ENGINE_VIEWS_BUILTIN_H

#define BUILTIN_NAMES "are the maps megatron-llama and torchtitan-llama, and the layout llama"

/* The text of the one with that name; NULL: there is none. */
const char *builtin_json(const char *name);

#endif
