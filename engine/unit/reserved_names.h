/* SPDX-License-Identifier: MIT */
/* Names that have a meaning to ckptfs itself, whatever the rules (engine/rule) say. */
#ifndef ENGINE_UNIT_RESERVED_NAMES_H
#define ENGINE_UNIT_RESERVED_NAMES_H

#include <stdbool.h>

#include "engine/backing/dirwalk.h"
#include "engine/format/names.h"

/* Moves the walk @w to the next entry that is not reserved. False: at the end, or w->err. */
bool name_next_visible(struct dirwalk *w);

/* True if @name says nothing of the final name, like the temporary names of safetensors. */
bool name_tells_nothing(const char *name);

/* True for a file that ckptfs keeps in each unit, and that programs can read there by its name. */
bool name_is_kept_in_units(const char *name);

/* True for the name of such a file, or of a partial copy of one. */
bool name_is_kept_or_copied(const char *name);

#endif
