/* SPDX-License-Identifier: MIT */
/*
 * A rank, for the files that say what ranks do: verbs.c (saves), files.c (single files and
 * directories), readers.c (what `ckptfs` tells). ranks.c starts and ends them. Only the task of a
 * rank calls what is here.
 */
#ifndef TESTS_SIM_RANK_H
#define TESTS_SIM_RANK_H

#include <errno.h>

#include "engine/base/wait.h"
#include "tests/sim/calls.h"
#include "tests/sim/people.h"
#include "tests/sim/ranks.h"
#include "tests/sim/sched.h"
#include "tests/sim/story.h"

#define TODO_MAX  64
#define TODO_LEN  96
#define STEPS_NR  64 /* a job's saves are told apart by their numbers, modulo this */
#define BEGUN	  (1u << 31)
#define NAMES_MAX 32

struct rank {
	struct job *job;
	unsigned nr, node;
	pid_t pid;
	struct task *task;
	struct proc proc;
	struct interruptible call; /* its calls on a mount return early once it is killed */
	bool killed, gone, told, well, busy, at_barrier;
	bool out; /* its task has ended, too */
	int got;  /* the last error of a call that it was told to make; 0: none yet */
	char todo[TODO_MAX][TODO_LEN];
	unsigned nr_todo, done;
	struct opened part; /* "begins" left it open */
	bool part_open;
	struct opened file; /* "opens" did */
	bool file_open;
};

struct job {
	char name;
	char key[32]; /* by which the engine tells it; "": a person's process */
	int restarts; /* of the first incarnation in the key; -1: nothing counts them */
	const struct shape *shape;
	unsigned world, incarnation;
	uint64_t begun_ns; /* this incarnation; 0: with the plan */
	/* bit r: rank r has finished its part of this step; BEGUN: a rank saves it */
	unsigned written[STEPS_NR];
	struct rank ranks[SAVE_RANKS];
	unsigned arrived, rounds; /* of the barrier */
	/* a rank of this incarnation has died, got an error, or was missed by the others */
	bool harmed;
};

/* What a rank can be told to do: @text with its object behind it. */
struct verb {
	const char *text;
	int (*act)(struct rank *r, const char *object);
};

const struct verb *verb_of_save(const char *what);   /* verbs.c; NULL: no such verb */
const struct verb *verb_of_file(const char *what);   /* files.c */
const struct verb *verb_of_reader(const char *what); /* readers.c */

/* Blocks until all ranks of the job are there. -ECONNRESET: one is dead; -EINTR: this one is. */
int rank_barrier(struct rank *r);
/* It does nothing for so long that a save of the others may fail for want of its part. */
void rank_stays_away(struct rank *r);
/* Writes down what a call has returned, and returns it. */
int rank_got(struct rank *r, const char *what, int err);
/* All ranks of the job have finished the save @unit; a wait has told @r that it is committed. */
void rank_note_finished(const struct rank *r, const char *unit);
void rank_note_promised(const struct rank *r, const char *unit);
struct made_by rank_made_by(const struct rank *r);

/* A file with @text and nothing else. */
int rank_write_text(struct rank *r, const char *path, const char *text);
/* The names in the directory @path, "" behind the last. */
int rank_list(struct rank *r, const char *path, char names[NAMES_MAX][64]);

#endif
