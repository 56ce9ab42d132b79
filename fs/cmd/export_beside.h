/* SPDX-License-Identifier: MIT */
/* The files that an export needs and that are no part of the tensors. One thread. */
#ifndef FS_CMD_EXPORT_BESIDE_H
#define FS_CMD_EXPORT_BESIDE_H

#include "engine/views/view.h"

struct export_beside {
	int unit;	    /* a descriptor of the checkpoint */
	const char *assets; /* a directory given on the command line; NULL: none */
	char spec[SPEC_TEXT_MAX + 1];
	uint64_t state; /* what tells all that was read from others */
};

/* For struct view_beside, with a struct export_beside. */
int export_read_beside(void *beside, const char *name, char **text);

/* What is wrong with the assets, in words; NULL: nothing. */
const char *export_assets_problem(const struct export_beside *b, char why[SPEC_WHY_MAX]);

/*
 * The directory that config.json and the like are copied from. *@own: it is the checkpoint's, and
 * not one that was given on the command line. A descriptor or -errno.
 */
int export_assets(const struct export_beside *b, bool *own);

#endif
