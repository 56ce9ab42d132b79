/* SPDX-License-Identifier: MIT */
/*
 * The digest record of a single file, for verbs: an extended attribute of the file, or a record
 * file where the backing has no attributes. Only reads; has no lock.
 */
#ifndef FS_RECORD_H
#define FS_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "engine/base/source.h"
#include "engine/content/digest.h"
#include "engine/format/digest_record.h"

struct record {
	char hex[DIGEST_HEX]; /* "": none */
	uint64_t size, mtime_ns;
};

/* 0. -ENODATA: there is none. -EINVAL: it is no record. Else -errno. */
int record_read(int fd, struct record *r);

/* True if it is of the file as it is now. */
bool record_is_of(const struct record *r, const struct stat *st);

/* In a mount: true if the file is a save that has no name yet. */
bool record_is_awaited(int fd);

/*
 * In a mount: true if the file, which has a record, is a part of a checkpoint that is not
 * committed.
 */
bool record_is_of_part(int fd);

uint64_t stat_mtime_ns(const struct stat *st);

/* Reads from the descriptor *@fd, which must outlive the source. */
struct source source_of_fd(int *fd);

#endif
