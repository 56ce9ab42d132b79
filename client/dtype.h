/* SPDX-License-Identifier: MIT */
/* The element types of safetensors. */
#ifndef CLIENT_DTYPE_H
#define CLIENT_DTYPE_H

#include <stdint.h>

/* The bits of an element; 0: safetensors knows no such type. */
unsigned ckpt_dtype_bits(const char *dtype);

/* Sets @bytes to the size of a tensor. 0; -EOVERFLOW; -EINVAL: it does not end with a byte. */
int ckpt_dtype_bytes(unsigned bits, const uint64_t *shape, unsigned ndim, uint64_t *bytes);

#endif
