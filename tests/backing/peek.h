/* SPDX-License-Identifier: MIT */
/*
 * What is on a backing, by path: for checks that look at it from outside, also where it is no
 * directory of the kernel. A path leads from the top of the backing and follows no symlink.
 */
#ifndef TESTS_BACKING_PEEK_H
#define TESTS_BACKING_PEEK_H

#include <stdio.h>

#include "engine/backing/backing.h"
#include "engine/base/source.h"

/* Opens it for reading. A descriptor, or -errno. */
int peek_open(struct backing *b, const char *path);

/* True if something, also a dangling symlink, has that name. */
bool peek_exists(struct backing *b, const char *path);

/* 0 or -errno. */
int peek_stat(struct backing *b, const char *path, struct statx *stx);

/* The first @size bytes of a file, or the target of a symlink. How many, or -errno. */
ssize_t peek_read(struct backing *b, const char *path, void *buf, size_t size);

/*
 * How many names are in the directory @path, those that begin with a dot only with @hidden; 0 if
 * there is none.
 */
size_t peek_names(struct backing *b, const char *path, bool hidden);

/* The file @path as a source: @s->arg is @f. Closed with peek_close. 0 or -errno. */
struct peek_file {
	struct backing *b;
	int fd;
};
int peek_source(struct backing *b, const char *path, struct peek_file *f, struct source *s);
void peek_close(struct peek_file *f);

/* A new directory, and a new file of @size bytes. Aborts if that fails. */
void peek_mkdir(struct backing *b, const char *path);
void peek_make(struct backing *b, const char *path, const void *data, size_t size);

/* Every name, a line each, and what is in small files. */
void peek_print(struct backing *b, FILE *out);

#endif
