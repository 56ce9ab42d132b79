/* SPDX-License-Identifier: MIT */
#include "engine/content/structure.h"

#include <errno.h>
#include <string.h>

#include "client/ckptfs_abi.h"
#include "engine/content/structure_inside.h"

static const char safetensors_unfinished[] =
	"safetensors: its header was never written: its writer did not close it";

static bool ends_in(const char *name, const char *suffix)
{
	size_t len = strlen(name), n = strlen(suffix);

	return len >= n && !strcmp(name + len - n, suffix);
}

static const char *check_by_kind(struct check *c, const char *name)
{
	unsigned char magic[8] = "";
	size_t len = c->size < sizeof(magic) ? (size_t)c->size : sizeof(magic);

	if (!structure_get(c, 0, magic, len))
		return structure_unreadable;
	if (!memcmp(magic, CKPTFS_UNFINISHED, sizeof(magic)))
		return safetensors_unfinished;
	if (ends_in(name, ".safetensors"))
		return structure_check_safetensors(c);
	if (!memcmp(magic, "PK\3\4", 4))
		return structure_check_zip(c);
	if (!memcmp(magic, HDF5_SIGNATURE, sizeof(magic)))
		return structure_check_hdf5(c);
	return NULL;
}

int structure_check(const struct source *src, const char *name, uint64_t size, struct error *e)
{
	struct check c = {.src = src, .size = size};
	const char *problem = check_by_kind(&c, name);

	if (c.err)
		return FAIL(e, -c.err, STRUCTURE_UNREADABLE, name, strerror(-c.err));
	if (problem)
		return FAIL(e, EILSEQ, STRUCTURE_BROKEN, name, problem);
	return 0;
}
