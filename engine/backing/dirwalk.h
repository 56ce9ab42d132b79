/* SPDX-License-Identifier: MIT */
/*
 * A walk over the entries of one directory of the backing: the only place that lists one.
 *
 *	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
 *
 *	dirwalk_begin(&w, b, dir);
 *	while (!err && dirwalk_next(&w))
 *		err = look_at(w.fd, w.name);
 *	err = err ? err : w.err;
 *
 * - Entries come through the backing's table of calls, so a test backing needs no real directories.
 * - What a program adds or removes while the walk goes on may be found or not, as with readdir(3).
 * - A walk that fails ends like one that is whole: w.err tells them apart.
 * - One thread at a time. It does not descend: a caller begins another walk for what is below.
 */
#ifndef ENGINE_BACKING_DIRWALK_H
#define ENGINE_BACKING_DIRWALK_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"

struct dirwalk {
	struct backing *backing;
	int fd; /* the directory, open for reading; the walk's own */
	/* The entry that the walk has come to. */
	const char *name;
	uint64_t ino;	    /* as the directory lists it; some filesystems list none */
	unsigned char type; /* DT_*, which may be DT_UNKNOWN */
	int err;	    /* 0, or -errno: the walk could not begin or go on */
	/* Private. */
	char *buf;
	size_t len, pos;
};

#define DIRWALK_CLOSED \
	{ \
		.fd = -1 \
	}
#define __cleanup_dirwalk __cleanup(dirwalk_end)

/* Opens @dir, a pin or a real descriptor, once more. 0 or -errno, which is w->err too. */
int dirwalk_begin(struct dirwalk *w, struct backing *b, int dir);

/* Takes over @fd, a real descriptor of the directory, or the -errno of opening it. As above. */
int dirwalk_begin_fd(struct dirwalk *w, struct backing *b, int fd);

/* Goes to the next entry, never "." or "..". False: there is none, or w->err. */
bool dirwalk_next(struct dirwalk *w);

/* Goes back to the start, for a second pass. */
void dirwalk_rewind(struct dirwalk *w);

/* Closes the directory. Harmless on a walk that has not begun, and twice. */
void dirwalk_end(struct dirwalk *w);

#endif
