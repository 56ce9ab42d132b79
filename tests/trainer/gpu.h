/* SPDX-License-Identifier: MIT */
/*
 * What the example trainer does on a GPU, or on tests/fakecuda: memory there, and work on one
 * stream, which goes on while the program does. Without kernels: what computes is a function of the
 * host's that the stream calls. Functions end the program when the driver refuses something.
 */
#ifndef TESTS_TRAINER_GPU_H
#define TESTS_TRAINER_GPU_H

#include <stddef.h>
#include <stdint.h>

/* NULL, or why there is none. */
const char *gpu_begin(void);

/* As ckptfs_write and ckptfs_barrier want it. */
uint64_t gpu_stream(void);

void *gpu_alloc(size_t bytes); /* on the GPU */
void *
gpu_alloc_host(size_t bytes); /* what it copies from and to while the program goes on; zeroed */

/* Behind what the stream has, before these return or later. @fn calls nothing of this. */
void gpu_fetch(void *host, const void *device, size_t bytes);
void gpu_store(void *device, const void *host, size_t bytes);
void gpu_call(void (*fn)(void *arg), void *arg);

/* Until the stream has nothing to do. */
void gpu_wait(void);

#endif
