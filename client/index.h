/* SPDX-License-Identifier: MIT */
/* What a safetensors file holds, according to its header. */
#ifndef CLIENT_INDEX_H
#define CLIENT_INDEX_H

#include "client/ckptfs.h"

/*
 * Parses the header @text, of @len bytes, in front of @data_len bytes of data. Takes over @text,
 * from malloc, also on failure. -EILSEQ: safetensors would not take it, and *why says what is
 * wrong; -ENOMEM.
 */
int ckpt_index_parse(char *text, size_t len, uint64_t data_len, struct ckptfs_index **ix,
		     const char **why);

#endif
