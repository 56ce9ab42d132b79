/* SPDX-License-Identifier: MIT */
/*
 * Random sequences of what jobs and people do in a mount, played in one process against a reference
 * model.
 *
 * 	gen.c	    a seed becomes a sequence: plain data, any part of which may be left out
 * 	ace.c	    all short sequences, instead
 * 	people.c    the processes: they have ranks, jobs and ends, but are no processes of the host
 * 	world.c	    a mount without FUSE, its remounts and crashes
 * 	calls.c	    calls by path, as fs/op_*.c make them
 * 	reference.c what the mount must show, and what the backing may show
 * 	look.c	    what they do show
 * 	play*.c	    do a sequence in both, and compare
 * 	point.c	    the pointer `latest`
 * 	cuts.c	    what power cuts leave of it
 * 	singles.c   the same of single files
 * 	sweep.c	    the same of what is hidden
 *
 * Time stands still in it: what waits for silence gets that only where the sequence says so.
 */
#ifndef TESTS_MODEL_MODEL_H
#define TESTS_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define NR_PROCS 6
#define NR_UNITS 4
#define NR_OPENS 6
#define PATH_LEN 48
#define DATA_MAX 96 /* bytes of a file */
#define OPS_MAX	 400

enum op_kind {
	OP_START, /* process @who: of job @job, rank @rank of @world; 0: a person */
	OP_EXIT,
	OP_KILL,
	OP_MKDIR,
	OP_OPEN, /* @path as @slot; @flag: O_TRUNC; made if it is not there */
	OP_WRITE,
	OP_CUT,	     /* ftruncate to @off */
	OP_CUT_PATH, /* truncate(2) to @off */
	OP_FSYNC,
	OP_CLOSE,
	OP_RENAME,
	OP_UNLINK,
	OP_RMDIR,
	OP_RMTREE,
	OP_COMMIT, /* ckptfs commit */
	OP_POINT,  /* latest names the unit @path; @flag: by a rename */
	OP_LINK,   /* the symlink last.ckpt names the unit @path */
	OP_PASS,   /* of time: silence */
	OP_SETTLE, /* until nothing is left to do */
	OP_REMOUNT,
	OP_CRASH, /* of the daemon */
	NR_OP_KINDS
};

struct op {
	uint8_t kind, who, job, rank, world, slot, path, to, off, len, byte, flag;
};

struct sequence {
	uint64_t seed;
	bool racing; /* nothing is waited for between two operations */
	unsigned nr;
	struct op ops[OPS_MAX];
};

/* --- names --- */

/* Paths have numbers; unit @u consists of those from NAME_UNIT(u) on. */
#define NAMES_IN_UNIT 10
#define NAME_UNIT(u)  ((u)*NAMES_IN_UNIT)
enum {
	IN_TOP,
	IN_DATA0,
	IN_DATA1,
	IN_DATA2,
	IN_META_TEMP,
	IN_META,
	IN_SUB,
	IN_SUB_FILE,
	IN_NOTE,
	IN_OTHER
};
enum {
	NAME_LOG = NR_UNITS * NAMES_IN_UNIT,
	NAME_PLAIN,
	NAME_SINGLE,
	NAME_SINGLE_TEMP,
	NAME_FREE_DIR,
	NR_NAMES
};

const char *name_of(unsigned path);
int unit_of(unsigned path);	    /* -1: none */
int unit_of_path(const char *path); /* the same of a path as text */
void op_describe(const struct op *op, char *buf, size_t size);

/* --- gen.c --- */

void generate(struct sequence *s, uint64_t seed);

/* --- ace.c --- */

uint64_t ace_count(void);

/*
 * Number @number, from 0 to ace_count() - 1. False: it writes to what it never opened, so that a
 * shorter one is the same.
 */
bool ace_sequence(struct sequence *s, uint64_t number);

/* --- what went wrong --- */

#define MODEL_WRONG_MAX 4000
extern char model_wrong[MODEL_WRONG_MAX]; /* "": nothing */
void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline bool is_wrong(void)
{
	return *model_wrong;
}

/* --- play.c --- */

struct play_options {
	/* so many crashes of each sequence are explored, too; then it has no remounts */
	unsigned cuts;
	bool show;
};

struct play_counts {
	uint64_t ops, skipped, refused, commits, kills, adopted, cuts;
};
extern struct play_counts counts;

/* True: all as it should be; else model_wrong. @at: the operation that showed it. */
bool play(const struct sequence *s, const struct play_options *o, unsigned *at);

/* --- shrink.c --- */

void shrink(struct sequence *s, const struct play_options *o);

#endif
