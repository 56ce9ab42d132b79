/* SPDX-License-Identifier: MIT */
/*
 * What the commit file of a directory lists, and whether that is what is there. While a change to
 * it is pending (COMMIT_PENDING) each name may be as either of the two files has it, or be absent
 * where one of them lacks it. Nothing that the commit file says leads out of the directory: every
 * name on the way is opened in the one before it, and no symbolic link is followed.
 */
#ifndef FS_LISTING_H
#define FS_LISTING_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/message.h"
#include "engine/format/commit.h"

enum verdict {
	FILE_OK,
	FILE_DAMAGED,	/* another content, and nobody is known to have written to it since */
	FILE_CHANGED,	/* written to, or replaced */
	FILE_MISSING,	/* listed, but not there */
	FILE_UNLISTED,	/* there, but not listed: no fault */
	FILE_NO_RECORD, /* nothing is known of it */
	FILE_UNREADABLE,
	NR_VERDICTS
};

/* What one of the commit files says of a name. */
struct wanted {
	bool listed;
	enum commit_kind kind;
	uint64_t size;
	char xxh3[COMMIT_HEX];
	char *target;
};

struct listed {
	char *path; /* below the directory */
	struct wanted by[2];
	/* what was found */
	enum verdict verdict;
	uint64_t size;
	char *message; /* NULL where it is ok */
};

struct listing {
	struct commit_header header;
	bool pending;	     /* there is a pending commit file, whose lists are in */
	bool torn;	     /* there is one, but it is damaged: it is of no effect */
	bool structure_only; /* listing_verify reads no content; set by the caller */
	uint64_t newest_ns;  /* when the later of them was committed */
	uint64_t bytes;	     /* of all files that it lists */
	struct listed *list; /* sorted by the bytes of path */
	size_t nr, room;
};

/*
 * Reads the commit files in the directory @dir, which people call @path. 0; -ENOENT, silently: it
 * has none; or -errno with @e filled. Finish in any case.
 */
int listing_read(struct listing *l, int dir, const char *path, struct error *e);
void listing_finish(struct listing *l);

/* Forgets all but @path, below the directory, and what is below that. */
void listing_keep(struct listing *l, const char *path);

/* Is @path, below the directory, a file, link or empty directory that it lists? */
bool listing_has(const struct listing *l, const char *path);

/*
 * Compares all with what is in @dir, by @threads threads. @progress gets the bytes read so far, one
 * call at a time. Fills in verdicts; returns -ENOMEM, or 0.
 */
int listing_verify(struct listing *l, int dir, const char *path, unsigned threads,
		   void (*progress)(void *arg, uint64_t bytes), void *arg);

#endif
