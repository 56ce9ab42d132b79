/* SPDX-License-Identifier: MIT */
/* The small files that a view needs beside the tensors, or that loaders look for. */
#ifndef FS_VIEW_ASSETS_H
#define FS_VIEW_ASSETS_H

#include <stdbool.h>
#include <stddef.h>

/* Maps and layouts are in the checkpoint, or so many directories above it; their largest size. */
#define VIEW_BESIDE_LEVELS 16
#define VIEW_BESIDE_MAX	   (1 << 20)

/* The @i-th name of those that loaders look for; NULL behind the last. */
const char *view_asset(size_t i);

bool view_asset_is(const char *name);

#endif
