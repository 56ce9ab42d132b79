/* SPDX-License-Identifier: MIT */
/* What the files of play.c share. One thread plays, one sequence at a time. */
#ifndef TESTS_MODEL_PLAY_INSIDE_H
#define TESTS_MODEL_PLAY_INSIDE_H

#include "tests/model/calls.h"
#include "tests/model/model.h"
#include "tests/model/reference.h"

#define BIT(process) (1ull << (process))

/* Of the sequence that is played. play.c */
extern bool play_racing;
extern struct opened play_opens[NR_OPENS];

/* --- play_look.c --- */

/* What the mount must show of the unit @u. */
void play_snap_of(unsigned u, struct snap *s);
/* Takes over what was committed; wrong() is said of what may not be there. */
void play_look_back(unsigned u);
/* The same, but false where it would be said. */
bool play_try_back(unsigned u);
/* wrong() is said if the mount shows anything else than it must. */
void play_look_view(unsigned u);

enum {
	MAY_BE_NOW = 1,
	MAY_BE_OLD = 2,
	MAY_BE_GONE = 4,
	MAY_BE_EMPTY = 8,
	MAY_BE_CANDIDATE = 16,
	MAY_BE_ANY = 32
};

/*
 * What was changed since the last commit has failed, or may have. @may_be: of the above, more that
 * it may show then.
 */
void play_fail_unit(unsigned u, unsigned may_be);

/* --- play_call.c --- */

void play_open(const struct op *op, unsigned who);
void play_in_open(const struct op *op);
void play_mkdir(const struct op *op, unsigned who);
/* False: it was not removed. */
bool play_remove_one(unsigned who, const char *path, int u, bool directory);
void play_rmtree(const struct op *op, unsigned who);
void play_cut_path(const struct op *op, unsigned who);
void play_rename(const struct op *op, unsigned who);
void play_commit(const struct op *op);

/* --- play_end.c --- */

void play_start(const struct op *op);
/* @well: it exits; else it is killed. */
void play_end(unsigned who, bool well);
/* Unmounts, or lets the daemon crash, and mounts. */
void play_mount(bool crash);

#endif
