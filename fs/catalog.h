/* SPDX-License-Identifier: MIT */
/* The checkpoints below a directory, in a mount, a backing or anywhere: for `ls` and `latest`. */
#ifndef FS_CATALOG_H
#define FS_CATALOG_H

#include "engine/engine.h"
#include "engine/format/commit.h"

enum unit_state {
	UNIT_COMMITTED,
	UNIT_MODIFIED, /* a file that was changed since; a directory that is being changed */
	UNIT_FOREIGN,  /* a file that has the name of a checkpoint, and no record */
	UNIT_DAMAGED,  /* its commit file is, or cannot be read */
	UNIT_SAVING,   /* as the daemon says: not committed yet */
	UNIT_HIDDEN,   /* a leftover */
};

struct unit_entry {
	char *path; /* as the user can name it */
	enum unit_state state;
	const char *word; /* for the state; constant, or as long as the catalog is there */
	bool is_dir;
	bool sized; /* size, nr_files are known */
	uint64_t size, nr_files;
	uint64_t time_ns; /* committed, or last written, or begun; 0: unknown */
	/* Of a directory whose commit file could be read; else zeros. */
	uint64_t sequence;
	unsigned ranks, nodes;
	char generation[COMMIT_HEX];
};

struct catalog {
	struct unit_entry *list; /* sorted by path */
	size_t nr, room;
	json_t *pending, *removals; /* what the daemon says */
	unsigned nr_unseen;	    /* places that could not be looked at; each was complained of */
};

enum {
	CATALOG_SIZED = 1,  /* read the whole of the commit files */
	CATALOG_HIDDEN = 2, /* leftovers, too */
};

/*
 * Fills @c with what is at and below @path. In a mount the daemon is asked for what is being saved,
 * and the backing for leftovers. Complains, by @complain, of what could not be looked at.
 * 0 or -errno with @e filled. Finish in any case.
 */
int catalog_read(struct catalog *c, const char *path, unsigned flags,
		 void (*complain)(const char *text), struct error *e);
void catalog_finish(struct catalog *c);

/*
 * The newest that is committed, or NULL: of directories beside each other the one of the highest
 * sequence, else by time. Sorts @c.
 */
struct unit_entry *newest_committed(struct catalog *c);

/* Compares names as people count: "step-2" before "step-10". */
int compare_natural(const char *a, const char *b);

/* The length of the part of @path that names the directory which it lies in. */
size_t path_parent(const char *path);

#endif
