/* SPDX-License-Identifier: MIT */
/*
 * The pointers run/latest, a file, and run/last.ckpt, a symlink: what was written to each, in
 * order. The backing shows one of that, whole; never one before that which it has shown; and what
 * it names then was committed, or was no unit when it was written.
 */
#ifndef TESTS_MODEL_POINT_H
#define TESTS_MODEL_POINT_H

#include "engine/backing/backing.h"
#include "tests/model/reference.h"

void point_begin(void);

/*
 * @who writes the name of unit @u to it, in its place, or to a temporary file, which gets its name.
 */
void point_write(unsigned who, unsigned u, bool by_rename);

/* @who makes the symlink anew, under a temporary name, which it renames. */
void point_link(unsigned who, unsigned u);

/* The unit has another name: what named it is not predicted. */
void point_renamed(unsigned u);

/* A program has removed the unit. */
void point_removed(unsigned u);

/* Looks at the backing; with @settled what is to be applied must have been. */
void point_look(bool settled);

/* After a remount: what waited is dropped. */
void point_remounted(void);

/* What a crash has left, once it is recovered. */
void point_look_cut(struct backing *b);

#endif
