/* SPDX-License-Identifier: MIT */
/* Where the bytes of one file are read from: a descriptor, the cache, a test. */
#ifndef ENGINE_BASE_SOURCE_H
#define ENGINE_BASE_SOURCE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct source {
	/*
	 * Reads @len bytes at @off into @buf; fewer only where the file ends. Returns how many, or
	 * -errno. Called from several threads at once by who says so.
	 */
	ssize_t (*read)(void *arg, void *buf, size_t len, uint64_t off);
	void *arg;
};

#endif
