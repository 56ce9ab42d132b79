/* SPDX-License-Identifier: MIT */
/* Suggestions for misspelt words in messages. */
#ifndef ENGINE_BASE_SPELLING_H
#define ENGINE_BASE_SPELLING_H

#include <stddef.h>

/* The distance of @given from @known (under 64 bytes). 0: @known begins with @given. */
size_t spelling_distance(const char *given, const char *known);

/* The largest distance of a typing error in @given: a suggestion beyond it misleads. */
size_t spelling_limit(const char *given);

#endif
