/* SPDX-License-Identifier: MIT */
/*
 * What lies below a directory, of a backing that no mount uses or of any: names that ckptfs keeps
 * for itself, and checkpoints. Everything is reached by descriptors of directories, one name at a
 * time: no symbolic link is followed, no other filesystem entered.
 */
#ifndef FS_LEFTOVERS_H
#define FS_LEFTOVERS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"

enum leftover_kind {
	LEFT_UNFINISHED, /* .ckptfs-<32 hex digits>: a save that was cut off */
	/*
	 * The same, whole and digested: only its name was not given any more. Of a directory: it
	 * has a commit file, which tells whether it is whole.
	 */
	LEFT_UNPUBLISHED,
	LEFT_TRASH,   /* .ckptfs-trash-*, a file or directory */
	LEFT_FOREIGN, /* a file named as a checkpoint, without a digest recorded */
	/* a directory that a rule claims, without a commit file; l->dir is that directory */
	LEFT_FOREIGN_UNIT,
	LEFT_UNKNOWN,	 /* .ckptfs-*, but none of these */
	LEFT_MOUNT,	 /* something is mounted there: not looked into */
	LEFT_UNREADABLE, /* a directory, or a file that has a checkpoint's name */
	/* its commit was decided, but it had not got its name; of recovery, not of a walk */
	LEFT_DECIDED,
	/* Not left, but where it belongs: */
	LEFT_UNIT, /* a directory with a commit file; l->dir is that directory, without a name */
	LEFT_RECORDED, /* a checkpoint file: it has a digest recorded, as it is now */
	LEFT_MODIFIED, /* the same, but it was changed since, or the record is none */
	NR_LEFTOVER_KINDS
};

struct leftover {
	enum leftover_kind kind;
	const char *path; /* below the backing */
	int dir;	  /* the directory that it lies in, */
	const char *name; /* under this name */
	bool is_dir;
	uint64_t size; /* of a directory: of all files in it */
	uint64_t mtime_ns;
	int err; /* LEFT_UNREADABLE: -errno */
};

struct leftovers {
	int root_fd;
	bool foreign;				      /* look for these, too, */
	const struct rules *rules;		      /* by these, or NULL: not for directories */
	bool units;				      /* and for what is not left; */
	bool only_units;			      /* then not inside units */
	uint64_t nr_looked;			      /* names so far */
	bool (*stop)(void *arg);		      /* asked before each name */
	void (*looking)(void *arg, const char *path); /* at each name */
	void (*found)(void *arg, const struct leftover *l); /* may remove it */
	void *arg;
};

/*
 * Names in order, a directory's own before those below it. Of units, and of files named as
 * checkpoints, those below a unit are a part of it and not told. In a mount, saves that have not
 * got their names yet are not told. 0, or -ENOMEM; -EINTR: stopped.
 */
int leftovers_walk(struct leftovers *w);

/* Has the directory @dir a commit file? */
bool leftovers_is_unit(int dir);

/*
 * True if a built-in rule makes a file of this name a checkpoint by itself; a temporary name of one
 * is none.
 */
bool leftovers_is_checkpoint(const char *name);

/* True if a file of this name is a pointer by a built-in rule. */
bool leftovers_is_pointer(const char *name);

/* A file, or a directory with all that is in it; not what is mounted there. 0 or -errno. */
int leftover_remove(const struct leftover *l);

#endif
