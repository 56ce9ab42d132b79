/* SPDX-License-Identifier: MIT */
/*
 * What the commit file of a directory lists, and whether that is what is there. While a follow-up
 * is pending (COMMIT_PENDING), each name may be as either of the two files has it, or absent if one
 * of them lacks it. No name in a commit file leads out of the directory: each component is opened
 * in the one before it, and no symbolic link is followed. A listing belongs to its caller; the
 * threads of listing_verify end before it returns. Nothing is changed.
 */
#ifndef FS_LISTING_H
#define FS_LISTING_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/message.h"
#include "engine/format/commit.h"

enum verdict {
	FILE_OK,
	FILE_DAMAGED,	/* other content, but no write since the commit is known */
	FILE_CHANGED,	/* written to, or replaced */
	FILE_MISSING,	/* listed, but not there */
	FILE_UNLISTED,	/* there, but not listed: no fault */
	FILE_NO_RECORD, /* nothing is known of it */
	FILE_UNREADABLE,
	NR_VERDICTS
};

/* What one of the two commit files says of a name. */
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
	/* set by listing_verify */
	enum verdict verdict;
	uint64_t size;
	char *message; /* NULL: ok */
};

struct listing {
	struct commit_header header;
	bool pending;	     /* there is a pending commit file, whose entries are in by[1] */
	bool torn;	     /* there is one, but it is damaged, and has no effect */
	bool structure_only; /* listing_verify reads no content; set by the caller */
	uint64_t newest_ns;  /* when the later file was committed */
	uint64_t bytes;	     /* of all files in the commit file */
	struct listed *list; /* sorted by the bytes of path */
	size_t nr, room;
};

/*
 * Reads the commit files in the directory @dir, which people call @path. 0; -ENOENT with @e unset:
 * there is none; or -errno with @e filled. The caller calls listing_finish in any case.
 */
int listing_read(struct listing *l, int dir, const char *path, struct error *e);
void listing_finish(struct listing *l);

/* Drops all but @path, below the directory, and what is below @path. */
void listing_keep(struct listing *l, const char *path);

/* True if it lists @path, below the directory, as a file, link or empty directory. */
bool listing_has(const struct listing *l, const char *path);

/*
 * Compares all entries with what is in @dir, by @threads threads, and sets their verdicts.
 * @progress gets the bytes read so far; its calls do not overlap. 0 or -ENOMEM.
 */
int listing_verify(struct listing *l, int dir, const char *path, unsigned threads,
		   void (*progress)(void *arg, uint64_t bytes), void *arg);

#endif
