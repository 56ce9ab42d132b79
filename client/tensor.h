/* SPDX-License-Identifier: MIT */
/*
 * Registered tensors, by id: kept for the writes. register.c checks them, and tells the daemon. The
 * session's lock guards the table; tensors_order is held over the ioctls.
 */
#ifndef CLIENT_TENSOR_H
#define CLIENT_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include "client/ckptfs.h"

struct ckpt_tensor {
	struct ckpt_tensor *next; /* in its slot */
	unsigned refs;		  /* lock */
	int leaving;		  /* is being unregistered */
	struct ckptfs_tensor_info info;
	char dtype[16];
	char name[]; /* @info.name is this one */
};

struct ckpt_tensors {
	struct ckpt_tensor **slots;
	size_t nr_slots, nr;
	uint64_t bytes; /* of all tensors, modulo 2^64 */
};

/* A tensor that is in no table, with a reference. NULL: no memory. */
struct ckpt_tensor *ckpt_tensor_create(const struct ckptfs_tensor_info *i);

/* The table takes the reference. 0 or -ENOMEM. */
int ckpt_tensors_insert_locked(struct ckpt_tensors *ts, struct ckpt_tensor *t);
void ckpt_tensors_remove_locked(struct ckpt_tensors *ts, struct ckpt_tensor *t);
/* NULL: there is none. */
struct ckpt_tensor *ckpt_tensors_find_locked(const struct ckpt_tensors *ts, uint64_t id);
void ckpt_tensors_free(struct ckpt_tensors *ts);

/* A reference to the tensor of this id; NULL: there is none. */
struct ckpt_tensor *ckpt_tensor_get(struct ckptfs_session *s, uint64_t id);
void ckpt_tensor_put_locked(struct ckpt_tensor *t);

#endif
