/* SPDX-License-Identifier: MIT */
/* The backing by path, as a bare directory beside all mounts (world_eye). */
#ifndef TESTS_SIM_EYE_H
#define TESTS_SIM_EYE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A descriptor of @path ("": the top), as backing_pin gives it, or -errno. */
int eye_pin(const char *path);
/* That of the directory that @path is in; *@name: the last component of @path. */
int eye_pin_parent(const char *path, const char **name);
/* The inode number of @path, or 0. */
uint64_t eye_ino(const char *path);
/* What the file holds, or the link names, with a 0 behind it. Its length or -errno. */
ssize_t eye_read(const char *path, char *buf, size_t size);
/* Calls @each for what is in the directory @path. */
void eye_list(const char *path, void (*each)(void *arg, const char *path, bool directory),
	      void *arg);
/* True if something of a save that is not committed is left anywhere. */
bool eye_any_staged(void);

#endif
