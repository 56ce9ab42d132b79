/* SPDX-License-Identifier: MIT */
/* The tensors that are registered, by id. */
#ifndef CLIENT_TENSOR_H
#define CLIENT_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include "client/ckptfs.h"

struct ckpt_tensor {
	struct ckpt_tensor *next; /* of its slot */
	unsigned refs;		  /* lock */
	int leaving;		  /* is being unregistered */
	struct ckptfs_tensor_info info;
	char dtype[16];
	char name[]; /* info's is this one */
};

struct ckpt_tensors {
	struct ckpt_tensor **slots;
	size_t nr_slots, nr;
};

void ckpt_tensors_free(struct ckpt_tensors *ts);

/* A reference to the tensor, NULL if there is none of this id. */
struct ckpt_tensor *ckpt_tensor_get(struct ckptfs_session *s, uint64_t id);
void ckpt_tensor_put_locked(struct ckpt_tensor *t);

#endif
