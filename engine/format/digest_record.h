/* SPDX-License-Identifier: MIT */
/*
 * The digest record of a file: its digest, its size, and the time of the last write in nanoseconds.
 * Only this module writes and reads its text, in C; client/python/ckptfs/resume.py reads it, too.
 *
 *	user.ckptfs.xxh3              4f64c6c36836832295929931b75a6d9f 5000 1795743127935845755
 *	.ckptfs/digests/1000/2f       the same and a newline: of inode 0x2f, which user 1000 owns
 *
 * recorded.h tells where a file has which of these. No state and no lock.
 */
#ifndef ENGINE_FORMAT_DIGEST_RECORD_H
#define ENGINE_FORMAT_DIGEST_RECORD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DIGEST_XATTR "user.ckptfs.xxh3"
#define DIGEST_HEX   33 /* 32 digits as xxhsum -H128 prints them, and the NUL */

/* The length of the longest record, with its NUL, and of the text of a record file. */
#define DIGEST_RECORD_MAX    (DIGEST_HEX + 1 + 20 + 1 + 20)
#define DIGEST_FILE_TEXT_MAX (DIGEST_RECORD_MAX + 1)

/*
 * Format returns the length, or -EINVAL: @hex is no digest, or @size is too small. Parse accepts
 * only such a record. Otherwise it returns -EINVAL and fills nothing in.
 */
int digest_record_format(char *buf, size_t size, const char *hex, uint64_t fsize,
			 uint64_t mtime_ns);
int digest_record_parse(const char *text, size_t len, char hex[DIGEST_HEX], uint64_t *fsize,
			uint64_t *mtime_ns);

/* The name of the record file of @inode, and of the directory for the files of @owner. */
#define DIGEST_FILE_MAX 20
void digest_file_dir(char name[DIGEST_FILE_MAX], uid_t owner);
void digest_file_name(char name[DIGEST_FILE_MAX], uint64_t inode);

/* The length of the record in the text of a record file; -EINVAL: the text is no record. */
int digest_file_check(const char *text, size_t len);

#endif
