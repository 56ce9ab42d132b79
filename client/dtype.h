/* SPDX-License-Identifier: MIT */
/* The types of elements that safetensors knows. */
#ifndef CLIENT_DTYPE_H
#define CLIENT_DTYPE_H

#include <stdint.h>

/* How many bits an element has; 0: safetensors knows no such type. */
unsigned ckpt_dtype_bits(const char *dtype);

/* The bytes of a tensor. 0 or -EOVERFLOW, -EINVAL: it does not end with a byte. */
int ckpt_dtype_bytes(unsigned bits, const uint64_t *shape, unsigned ndim, uint64_t *bytes);

#endif
