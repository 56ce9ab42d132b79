/* SPDX-License-Identifier: MIT */
/* Source of the bytes of one file: a descriptor, the cache, or a test. */
#ifndef ENGINE_BASE_SOURCE_H
#define ENGINE_BASE_SOURCE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct source {
	/*
	 * Reads @len bytes at @off into @buf, fewer only at the end of the file. Returns the number
	 * of bytes, or -errno. Several threads call it at once where the user of the source says
	 * so.
	 */
	ssize_t (*read)(void *arg, void *buf, size_t len, uint64_t off);
	void *arg;
};

#endif
