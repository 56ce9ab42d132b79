/* SPDX-License-Identifier: MIT */
/*
 * The header of a safetensors file that is being written, as JSON that grows: the pairs of
 * __metadata__, the entries of tensors, and, in a file that holds parts of larger tensors,
 * DCP_SHARDING_INFO. Once its room is set, what does not fit is not taken. No I/O and no lock.
 */
#ifndef CLIENT_HEADER_H
#define CLIENT_HEADER_H

#include <stdbool.h>
#include <stdint.h>

#include "client/text.h"

#define CKPT_HEADER_MAX	     100000000 /* bytes; the limit of safetensors */
#define CKPT_HEADER_METADATA "__metadata__"
#define CKPT_HEADER_SHARDS   "DCP_SHARDING_INFO"
#define CKPT_HEADER_VERSION  "DCP_VERSION"

struct ckpt_header {
	struct ckpt_text format, pairs, tensors, shards;
	bool sharded;  /* set before the first tensor */
	uint64_t room; /* bytes; 0: no limit */
};

/* A tensor, whose bytes are [begin, end) of the data. */
struct ckpt_header_tensor {
	const char *name, *dtype;
	unsigned ndim;
	const uint64_t *shape, *shard_offset, *global_shape;
	uint64_t begin, end;
};

void ckpt_header_init(struct ckpt_header *h);
void ckpt_header_free(struct ckpt_header *h);

/* How many bytes of the room are taken. */
uint64_t ckpt_header_len(const struct ckpt_header *h);

/* 0; -ENOSPC: there is no room; -ENOMEM. On an error nothing is added. */
int ckpt_header_tensor(struct ckpt_header *h, const struct ckpt_header_tensor *t);
int ckpt_header_pair(struct ckpt_header *h, const char *key, const char *value);

/* Appends the whole header to @t, with spaces up to the room. */
int ckpt_header_text(const struct ckpt_header *h, struct ckpt_text *t);

#endif
