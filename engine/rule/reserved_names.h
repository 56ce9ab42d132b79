/* SPDX-License-Identifier: MIT */
/* Names that have a meaning to ckptfs itself, whatever the rules say. */
#ifndef ENGINE_RULE_RESERVED_NAMES_H
#define ENGINE_RULE_RESERVED_NAMES_H

#include <stdbool.h>

/* True if @name says nothing of the final name, like the temporary names of safetensors. */
bool name_tells_nothing(const char *name);

/* True for a file that ckptfs keeps in each unit, and that programs can read there by its name. */
bool name_is_kept_in_units(const char *name);

/* True for the name of such a file, or of a partial copy of one. */
bool name_is_kept_or_copied(const char *name);

#endif
