/* SPDX-License-Identifier: MIT */
/*
 * Calls by path, of the process @pid, as the kernel and fs/op_*.c make them: what gets ESTALE is
 * tried once more from the top. 0 or -errno.
 */
#ifndef TESTS_MODEL_CALLS_H
#define TESTS_MODEL_CALLS_H

#include "tests/model/world.h"

struct opened {
	struct file file;
	bool used;
};

int call_mkdir(pid_t pid, const char *path);
int call_open(pid_t pid, const char *path, int flags, struct opened *o);
int call_write(pid_t pid, struct opened *o, const void *data, size_t len, size_t off);
int call_cut(pid_t pid, struct opened *o, size_t size);
int call_cut_path(pid_t pid, const char *path, size_t size);
int call_sync(pid_t pid, struct opened *o);
int call_close(pid_t pid, struct opened *o);
int call_rename(pid_t pid, const char *from, const char *to);
int call_symlink(pid_t pid, const char *target, const char *path);
int call_unlink(pid_t pid, const char *path);
int call_rmdir(pid_t pid, const char *path);
/* `ckptfs commit` */
int call_commit(const char *path);

/* What a directory holds: @add for each name. */
int call_list(const char *path, void (*add)(void *arg, const char *name, bool directory),
	      void *arg);
/* All of a file, at most @size bytes. Its length or -errno. */
ssize_t call_read(const char *path, void *buf, size_t size);

#endif
