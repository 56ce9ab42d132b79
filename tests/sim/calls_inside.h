/* SPDX-License-Identifier: MIT */
/* Between calls.c (what changes something) and look.c (what does not). */
#ifndef TESTS_SIM_CALLS_INSIDE_H
#define TESTS_SIM_CALLS_INSIDE_H

#include "tests/sim/calls.h"

#define TRIES 2 /* of the kernel, for a path that gets ESTALE */

/* A name in a directory, found from the top as the kernel finds it. */
struct reached {
	struct proc *p; /* for whom */
	struct node *dir;
	struct node_fd fd;
	const char *name;
};

/* 0 or -errno, and then there is nothing to end. */
int reach(struct proc *who, const char *path, struct reached *p);
void reach_end(struct reached *p);

/* What has the name; given back by node_forget. */
int reached_node(const struct reached *p, struct node **n, struct statx *stx);
void node_forget(struct mnt *m, struct node *n);
/* What the kernel finds out itself, before it asks: is there a name, and what is it? */
int reached_type(const struct reached *p, mode_t *type);

/* Of op_open, and of op_readdir. */
int node_open(struct proc *who, struct node *n, int flags, struct opened *o);
int node_list(struct proc *who, struct node *n,
	      void (*add)(void *arg, const char *name, bool directory), void *arg);

#endif
