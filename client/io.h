/* SPDX-License-Identifier: MIT */
/* Reads and writes in full, however many calls that takes. */
#ifndef CLIENT_IO_H
#define CLIENT_IO_H

#include <stddef.h>
#include <stdint.h>

/* 0 or -errno; -ENODATA: the file ends before. *done: how many bytes were read, also on failure. */
int ckpt_read_all(int fd, void *to, size_t len, uint64_t off, size_t *done);

/* 0 or -errno. */
int ckpt_write_all(int fd, const void *from, size_t len, uint64_t off);

#endif
