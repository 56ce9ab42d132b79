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
 * - Entries come through the backing's table of calls, so a test backing needs no real directory.
 * - The walk may miss or find entries that a program adds or removes meanwhile, as readdir(3) does.
 * - A failed walk ends like a complete one: only w.err tells them apart.
 * - One thread at a time uses a walk. A walk does not descend: a caller starts another one below.
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
	int fd; /* the walk's own descriptor of the directory, for reading */
	/* The current entry. */
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

/* Opens @dir, a pin or a real descriptor, once more. Returns 0 or -errno, as w->err. */
int dirwalk_begin(struct dirwalk *w, struct backing *b, int dir);

/* Takes over @fd, a real descriptor of the directory or the -errno of its open. As above. */
int dirwalk_begin_fd(struct dirwalk *w, struct backing *b, int fd);

/* Goes to the next entry, never "." or "..". Returns false at the end, or if w->err is set. */
bool dirwalk_next(struct dirwalk *w);

/* The same, past the names that ckptfs keeps for itself (engine/format/names.h). */
bool dirwalk_next_visible(struct dirwalk *w);

/* Goes back to the start for a second pass. */
void dirwalk_rewind(struct dirwalk *w);

/* Closes the directory. Harmless on a walk that has not begun, and on a second call. */
void dirwalk_end(struct dirwalk *w);

#endif
