/* SPDX-License-Identifier: MIT */
/*
 * The checkpoints at and below a directory, in a mount, a backing or anywhere else, for `ls` and
 * `latest`. In a mount the daemon is asked what is being saved. A catalog belongs to one thread,
 * and has no lock. Nothing is changed.
 */
#ifndef FS_CATALOG_H
#define FS_CATALOG_H

#include "engine/format/commit.h"

enum unit_state {
	UNIT_COMMITTED,
	UNIT_MODIFIED, /* a file changed since its commit; a directory with a pending follow-up */
	UNIT_FOREIGN,  /* looks like a checkpoint, has no record or commit file */
	UNIT_DAMAGED,  /* the commit file is damaged or cannot be read */
	UNIT_SAVING,   /* not committed yet, as the daemon says */
	UNIT_HIDDEN,   /* a leftover, or removed and still on the backing */
};

struct unit_entry {
	char *path; /* as the user can name it */
	enum unit_state state;
	const char *word; /* names the state; constant, or lives as long as the catalog */
	bool is_dir;
	bool sized; /* size, nr_files are known */
	uint64_t size, nr_files;
	uint64_t time_ns; /* of the commit, the last write, or the begin; 0: unknown */
	/* of a directory whose commit file could be read; else zeros */
	uint64_t sequence;
	unsigned ranks, nodes;
	char generation[COMMIT_HEX];
};

struct catalog {
	struct unit_entry *list; /* sorted by path */
	size_t nr, room;
	json_t *pending, *removals; /* what the daemon says */
	unsigned nr_unseen;	    /* places that could not be read; @complain got each */
};

enum {
	CATALOG_SIZED = 1,  /* read commit files to their end */
	CATALOG_HIDDEN = 2, /* add leftovers */
};

/*
 * Fills @c with what is at and below @path. In a mount, asks the daemon for what is being saved,
 * and the backing for leftovers. Calls @complain for each place that cannot be read. 0 or -errno
 * with @e filled. The caller calls catalog_finish in any case.
 */
int catalog_read(struct catalog *c, const char *path, unsigned flags,
		 void (*complain)(const char *text), struct error *e);
void catalog_finish(struct catalog *c);

/*
 * The newest committed entry, or NULL. Directories of one parent compare by sequence, all else by
 * time. Sorts @c.
 */
struct unit_entry *newest_committed(struct catalog *c);

/* Compares names in the order that people expect: "step-2" before "step-10". */
int compare_natural(const char *a, const char *b);

/* The length of the part of @path that names its parent directory. */
size_t path_parent(const char *path);

#endif
