/* SPDX-License-Identifier: MIT */
/*
 * How frameworks save, and what a whole save looks like. Each file tells who wrote it, in which
 * save, and how long it is to be, so that any reader can say of a directory whether it is one save,
 * whole.
 */
#ifndef TESTS_SIM_SAVE_H
#define TESTS_SIM_SAVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/backing/backing.h"

#define SAVE_FILE_MAX (160u << 10)
#define SAVE_RANKS    8

/* A framework, as far as its rule cares. */
struct shape {
	const char *name;
	const char *unit; /* "step-%u" */
	const char *temp; /* what it is called until rank 0 renames it at its end; NULL */
	const char *part; /* of each rank: "__%u_0.distcp" */
	const char *end;  /* of rank 0, in the unit; NULL: none */
	bool barrier;	  /* before rank 0 writes the end */
	bool renamed;	  /* the end gets its name by a rename */
	/* rank 0 writes the unit's name to this file beside it, which is the end; NULL */
	const char *latest;
};

/* NULL: there is none of that name. */
const struct shape *shape_of(const char *name);
/* The last component of the path @unit. */
const char *unit_name(const char *unit);
/* That whose units have names like that of @unit, or NULL; *@nr: the number in it. */
const struct shape *shape_of_unit(const char *unit, unsigned *nr);

/* Who wrote a file. */
struct made_by {
	char job;
	unsigned incarnation, save, rank, world;
	uint64_t sequence; /* of save_look: in the commit file */
};

/* The content of a file of @len bytes. */
void save_fill(char *buf, size_t len, const struct made_by *by);
/* True if @buf is a whole file. */
bool save_whole(const char *buf, size_t len, struct made_by *by);

enum save_found {
	SAVE_NONE,  /* the name has no directory */
	SAVE_WHOLE, /* one save, and it has a commit file that is true of it */
	SAVE_PLAIN, /* has no commit file */
	SAVE_TORN
};

/*
 * What the unit @name is in the directory @dir of @b. @by: of SAVE_WHOLE; @why: of SAVE_TORN;
 * @generation: or "".
 */
enum save_found save_look(struct backing *b, int dir, const char *name, struct made_by *by,
			  char generation[33], char *why, size_t why_size);

/*
 * Like save_look of the bytes that a program read of each file; @read returns a length or -errno.
 */
bool save_is_whole(const char *unit, ssize_t (*read)(void *arg, const char *file, char *buf),
		   void *arg, struct made_by *by, char *why, size_t why_size);

#endif
