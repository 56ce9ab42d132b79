/* SPDX-License-Identifier: MIT */
/*
 * The record of a single file's digest, which lies in an extended attribute of the file, for verbs.
 */
#ifndef FS_RECORD_H
#define FS_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "engine/content/digest.h"

struct record {
	char hex[DIGEST_HEX]; /* "" for none */
	uint64_t size, mtime_ns;
};

/* 0; -ENODATA: there is none; -EINVAL: something that is no record; else -errno. */
int record_read(int fd, struct record *r);

/* Is it of the file as it is now? */
bool record_is_of(const struct record *r, const struct stat *st);

/* In a mount: is the file a save that has not got its name yet? */
bool record_is_awaited(int fd);

/*
 * In a mount: true if the file, which has a record, is a part of a checkpoint that is not
 * committed.
 */
bool record_is_of_part(int fd);

uint64_t stat_mtime_ns(const struct stat *st);

/* Reads the file *@fd, as long as that is there. */
struct source source_of_fd(int *fd);

#endif
