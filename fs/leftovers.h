/* SPDX-License-Identifier: MIT */
/*
 * A walk over what lies below a directory, of a backing that no mount uses or of any other: names
 * that ckptfs keeps for itself, and checkpoints. Each name is opened in its directory: the walk
 * follows no symbolic link and enters no other filesystem. Has no lock: names may change meanwhile.
 */
#ifndef FS_LEFTOVERS_H
#define FS_LEFTOVERS_H

#include <stdbool.h>
#include <stdint.h>

enum leftover_kind {
	LEFT_UNFINISHED, /* .ckptfs-<32 hex digits>: a save that was cut off */
	/*
	 * The same, whole and digested; only the rename to its name is missing. A directory has a
	 * commit file, which tells whether it is whole.
	 */
	LEFT_UNPUBLISHED,
	LEFT_TRASH,   /* .ckptfs-trash-*, a file or directory */
	LEFT_FOREIGN, /* a file named like a checkpoint, without a digest record */
	/* a directory that a rule claims, without a commit file; l->dir is that directory */
	LEFT_FOREIGN_UNIT,
	LEFT_UNKNOWN,	 /* any other .ckptfs-* */
	LEFT_MOUNT,	 /* something is mounted there: not entered */
	LEFT_UNREADABLE, /* a directory, or a file named like a checkpoint */
	/* its commit was decided, but it has no name yet; from recovery, not from a walk */
	LEFT_DECIDED,
	/* no leftovers, but in their place: */
	LEFT_UNIT,     /* a directory with a commit file; l->dir is that directory, name is NULL */
	LEFT_RECORDED, /* a checkpoint file with a digest record that fits */
	LEFT_MODIFIED, /* the same, but changed since, or with a malformed record */
	NR_LEFTOVER_KINDS
};

struct leftover {
	enum leftover_kind kind;
	const char *path; /* below the backing */
	int dir;	  /* its parent directory ... */
	const char *name; /* ... and its name there */
	bool is_dir;
	uint64_t size; /* of a directory: of all its files */
	uint64_t mtime_ns;
	int err; /* LEFT_UNREADABLE: -errno */
};

struct leftovers {
	int root_fd;
	bool foreign;				      /* finds these, too ... */
	const struct rules *rules;		      /* ... by these; NULL: files only */
	bool units;				      /* finds units and recorded files, too ... */
	bool only_units;			      /* ... but does not look inside units */
	uint64_t nr_looked;			      /* names so far */
	bool (*stop)(void *arg);		      /* called before each name; true: stop */
	void (*looking)(void *arg, const char *path); /* called at each name */
	void (*found)(void *arg, const struct leftover *l); /* may remove it */
	void *arg;
};

/*
 * Walks the names in order, a directory before the names below it. Below a unit, units and files
 * named like checkpoints are its parts, and not reported. In a mount, saves without a name yet are
 * not reported. 0; -EINTR: stopped; or -errno.
 */
int leftovers_walk(struct leftovers *w);

/* True if the directory @dir has a commit file. */
bool leftovers_is_unit(int dir);

/*
 * True if a built-in rule makes a file of this name a checkpoint by itself. False for a temporary
 * name.
 */
bool leftovers_is_checkpoint(const char *name);

/* True if a file of this name is a pointer by a built-in rule. */
bool leftovers_is_pointer(const char *name);

/* Removes a file, or a directory with everything in it; enters no mount. 0 or -errno. */
int leftover_remove(const struct leftover *l);

#endif
