/* SPDX-License-Identifier: MIT */
/* The small files beside the tensors that loaders of Hugging Face look for. */
#ifndef FS_VIEW_ASSETS_H
#define FS_VIEW_ASSETS_H

#include <stdbool.h>
#include <stddef.h>

/* The @i-th name; NULL behind the last. */
const char *view_asset(size_t i);

bool view_asset_is(const char *name);

#endif
