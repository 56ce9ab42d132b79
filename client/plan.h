/* SPDX-License-Identifier: MIT */
/* What a registered tensor is in a safetensors file, and in which order tensors lie there. */
#ifndef CLIENT_PLAN_H
#define CLIENT_PLAN_H

#include <stdbool.h>

#include "client/ckptfs.h"

#define CKPT_PLAN_PAGE 4096u

struct ckpt_layout {
	const struct ckptfs_tensor_info *info;
	const char *dtype;
	uint64_t shape[8], global_shape[8], shard_offset[8];
	unsigned ndim;
	uint64_t align; /* a power of 2, which divides its offset in the data */
	bool part;	/* it is a part of a larger one */
};

/* 0, or -EINVAL, reported by ckpt_error for @path. */
int ckpt_layout_init(struct ckpt_layout *l, struct ckptfs_session *s, const char *path,
		     const struct ckptfs_tensor_info *i);

/* Sorts them in the order in which they are to lie. */
void ckpt_layouts_sort(struct ckpt_layout *all, size_t n);

/* 0, or -EINVAL (ckpt_error): @what cannot be a name, key or value in a header. */
int ckpt_plan_check_text(struct ckptfs_session *s, const char *path, const char *what);

#endif
