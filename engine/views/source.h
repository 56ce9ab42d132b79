/* SPDX-License-Identifier: MIT */
#ifndef ENGINE_VIEWS_SOURCE_H
#define ENGINE_VIEWS_SOURCE_H

#include <stddef.h>
#include <stdint.h>

/*
 * How the bytes of the checkpoint are read: @read gets the number of one of its paths, and reads
 * exactly @len bytes at @off. 0 or -errno.
 */
struct view_source {
	int (*read)(void *arg, size_t path, void *buf, size_t len, uint64_t off);
	void *arg;
};

#endif
