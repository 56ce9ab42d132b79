/* SPDX-License-Identifier: MIT */
/* For messages that name what was probably meant. */
#ifndef ENGINE_BASE_SPELLING_H
#define ENGINE_BASE_SPELLING_H

#include <stddef.h>

/* How far the word @given is from @known, which has less than 64 bytes; 0: it begins like that. */
size_t spelling_distance(const char *given, const char *known);

/* The largest distance at which @given may be a typing error; beyond it a suggestion misleads. */
size_t spelling_limit(const char *given);

#endif
