/* SPDX-License-Identifier: MIT */
/* What the recorder's calls (record_ops.c) need of its log (record.c). All with the lock held. */
#ifndef TESTS_BACKING_RECORD_INSIDE_H
#define TESTS_BACKING_RECORD_INSIDE_H

#include "tests/backing/record.h"

#define NEXT(r, call, ...) (r)->next->call((r)->next_arg, ##__VA_ARGS__)

extern const struct backing_ops record_ops;

/* The log cannot be replayed; the first reason is kept. */
void note_problem(struct record *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Which inode @fd is; -1, with a problem that names @call, if the log does not know it. */
int known_fd(struct record *r, int fd, const char *call);
/* Which inode @dir/@name is; -1 if there is none, or none that the log knows. */
int known_name(struct record *r, int dir, const char *name);
struct record_attr attr_of(const struct statx *stx);
/* Of dir/@name, or of @dir if that is "". 0 or -errno. */
int stat_below(struct record *r, int dir, const char *name, struct statx *stx);

/* Ops at the end of the log. Where one comes back, more may be filled in. */
struct record_op *note_op(struct record *r, enum record_kind kind, int inode);
/* Of the inode that is open as @fd. NULL, with a problem, if it is unknown. */
struct record_op *note_change(struct record *r, enum record_kind kind, int fd, const char *call);
struct record_op *note_xattr(struct record *r, int inode, const char *name, const void *value,
			     size_t len);
/* @data is the op's from now on. */
void note_write(struct record *r, int fd, void *data, size_t len, off_t off);
void note_truncate(struct record *r, int fd, off_t size);
/* The inode that now is @dir/@name is new. */
void note_made(struct record *r, int dir, const char *name);

/* @op is about @name in the directory that is inode @dir. */
void note_name(struct record_op *op, int dir, const char *name);

#endif
