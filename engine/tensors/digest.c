/* SPDX-License-Identifier: MIT */
#include "engine/tensors/digest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/cleanup.h"
#include "engine/tensors/cover.h"

#define READ_BYTES ((size_t)1 << 20)

struct reading {
	struct index *ix;
	struct tree *tree;
	XXH3_state_t *state;
	char *buf;
	uint64_t done;
	void (*progress)(void *arg, uint64_t bytes);
	void *arg;
};

static int read_piece(struct reading *r, const struct index_piece *p)
{
	const struct tree_file *f = tree_find(r->tree, p->path);
	struct tree_part part;
	int err = f ? 0 : -ENOENT;

	if (!err)
		tree_part(&part, r->tree, f, p->at, p->bytes);
	for (uint64_t off = 0; off < p->bytes && !err; off += READ_BYTES) {
		size_t len = p->bytes - off < READ_BYTES ? (size_t)(p->bytes - off) : READ_BYTES;

		err = tree_read(&part, r->buf, len, off);
		if (!err)
			XXH3_128bits_update(r->state, r->buf, len);
		r->done += len;
		if (r->progress)
			r->progress(r->arg, r->done);
	}
	return err == -EBADMSG ? -EIO : err;
}

static int digest_one(struct reading *r, struct index_tensor *t)
{
	__cleanup_free struct index_piece **list = cover_order(t);
	XXH128_canonical_t canonical;
	char *hex = index_alloc(r->ix, 2 * sizeof(canonical) + 1);
	int err = list && hex ? 0 : -ENOMEM;

	XXH3_128bits_reset(r->state);
	for (size_t i = 0; !err && list[i]; i++)
		err = read_piece(r, list[i]);
	if (err)
		return err;
	XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(r->state));
	for (size_t i = 0; i < sizeof(canonical); i++)
		sprintf(hex + 2 * i, "%02x", canonical.digest[i]);
	t->digest = hex;
	return 0;
}

int index_digest(struct index *ix, struct tree *t, void (*progress)(void *arg, uint64_t bytes),
		 void *arg)
{
	struct reading r = {.ix = ix,
			    .tree = t,
			    .state = XXH3_createState(),
			    .buf = malloc(READ_BYTES),
			    .progress = progress,
			    .arg = arg};
	int err = r.state && r.buf ? 0 : -ENOMEM;

	for (size_t i = 0; i < ix->nr && !err; i++)
		if (!ix->tensors[i]->hole && !ix->tensors[i]->opaque && !ix->tensors[i]->digest)
			err = digest_one(&r, ix->tensors[i]);
	XXH3_freeState(r.state);
	free(r.buf);
	return err;
}
