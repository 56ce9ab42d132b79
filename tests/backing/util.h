/* SPDX-License-Identifier: MIT */
/* Small things that the recorder and the crash states share. Without memory they abort. */
#ifndef TESTS_BACKING_UTIL_H
#define TESTS_BACKING_UTIL_H

#include <stddef.h>
#include <stdint.h>

/* @p, unless it is NULL. */
void *must(void *p);
/* A copy of @size bytes; not NULL if @size is 0. */
void *copy_of(const void *data, size_t size);
/* @array with room for one more than @nr. */
void *grow(void *array, size_t *max, size_t nr, size_t size);

/* Two numbers made one, thoroughly. */
uint64_t mix(uint64_t a, uint64_t b);

/* Removes @dir/@name and all below. 0, or -errno; 0 also if it is not there. */
int remove_tree(int dir, const char *name);

#endif
