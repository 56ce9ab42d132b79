/* SPDX-License-Identifier: MIT */
/*
 * The members of a zip file (PKWARE's APPNOTE, 4.3), from its central directory. Sizes come from
 * there: torch writes them behind the data, so the local header of a member has none. One thread
 * uses it.
 */
#ifndef ENGINE_TENSORS_ZIP_H
#define ENGINE_TENSORS_ZIP_H

#include "engine/tensors/tree.h"

#define ZIP_DIRECTORY_MAX ((size_t)48 << 20)

struct zip_member {
	const char *name; /* terminated */
	uint64_t header;  /* where its local header is */
	uint64_t size;
	bool stored; /* not compressed */
};

struct zip {
	struct zip_member *list; /* sorted by name */
	size_t nr;
	char *directory;
};

/* 0; -EBADMSG with *@why: it is no whole zip file; -ENOMEM, or the errno of a read. */
int zip_open(struct zip *z, const struct tree_part *p, const char **why);
void zip_close(struct zip *z); /* accepts zeros */

const struct zip_member *zip_find(const struct zip *z, const char *name);

/* Sets *@at to where the bytes of @m begin in @p. The same errors. */
int zip_data(const struct tree_part *p, const struct zip_member *m, uint64_t *at, const char **why);

#endif
