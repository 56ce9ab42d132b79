/* SPDX-License-Identifier: MIT */
/*
 * System calls of one process on one mount, by path, as the kernel and fs/op_*.c make them: a path
 * that gets ESTALE is tried once more from the top. Several processes may call at the same time. 0
 * or -errno.
 */
#ifndef TESTS_SIM_CALLS_H
#define TESTS_SIM_CALLS_H

#include "tests/unit/mnt.h"

struct proc {
	struct mnt *m;
	struct caller who; /* pid: a process of people.h */
};

struct opened {
	struct proc *p;
	struct handle *h;
};

int call_mkdir(struct proc *p, const char *path);
int call_open(struct proc *p, const char *path, int flags, struct opened *o);
int call_write(struct opened *o, const void *data, size_t len, size_t off);
size_t call_size(const struct opened *o);
int call_sync(struct opened *o);
int call_close(struct opened *o);
int call_rename(struct proc *p, const char *from, const char *to);
int call_unlink(struct proc *p, const char *path);
int call_rmdir(struct proc *p, const char *path);
int call_symlink(struct proc *p, const char *target, const char *path);

/* 0: it is there; -ENOENT. */
int call_look(struct proc *p, const char *path);
/* 1: it is a directory; 0: it is another thing; -errno. */
int call_is_directory(struct proc *p, const char *path);

/* What a directory holds: @add for each name. */
int call_list(struct proc *p, const char *path,
	      void (*add)(void *arg, const char *name, bool directory), void *arg);
/* All of a file, at most @size bytes. Its length or -errno. */
ssize_t call_read(struct proc *p, const char *path, void *buf, size_t size);

/* What status.json says of @path; *@out is NULL where nothing is known. 0 or -errno. */
int call_describe(struct proc *p, const char *path, json_t **out);
/*
 * `ckptfs wait`: until @path is committed (0) or has failed (-EIO), at most until @until_ns
 * (-ETIMEDOUT).
 */
int call_wait(struct proc *p, const char *path, uint64_t until_ns);

#endif
