/* SPDX-License-Identifier: MIT */
/*
 * The digest of a file, as commit files and the xattr below hold it (DESIGN 4, "xxh3"): of at most
 * 8 MiB, its XXH3-128; of more, the XXH3-128 of the 16-byte canonical digests of its consecutive
 * 8 MiB pieces, one behind the other. So pieces are digested as they pass, in any order, and only
 * those are read again that were rewritten or did not pass in order.
 *
 * What a digest knows of a piece is the digest of its first so many bytes: of all 8 MiB, or of what
 * its stream has taken so far. A change below that forgets it, one behind it does not matter.
 */
#ifndef ENGINE_CONTENT_DIGEST_H
#define ENGINE_CONTENT_DIGEST_H

#include "engine/base/source.h"

#define DIGEST_PIECE ((size_t)8 << 20)
#define DIGEST_HEX   33 /* 32 digits as xxhsum -H128 prints them, and the NUL */
#define DIGEST_XATTR "user.ckptfs.xxh3"

/* The text of the longest record, with its NUL. */
#define DIGEST_RECORD_MAX (DIGEST_HEX + 1 + 20 + 1 + 20)

/*
 * The digest of a file that is being written. All of it may be called from any thread. Takes 20
 * bytes a piece, and four streams of 640 bytes.
 */
struct digest;

struct digest *digest_create(void); /* NULL: no memory */
void digest_destroy(struct digest *d);

/*
 * Both of these come when the change can be seen through the source, and those that overlap in the
 * order in which they took place.
 */

/*
 * These bytes were written. Parts may come in any size and alignment, out of order or twice; those
 * of up to four pieces at a time that come in order, each from its piece's start, are digested
 * here. Without memory less is remembered, and more read in digest_finish.
 */
void digest_feed(struct digest *d, uint64_t off, const void *data, size_t len);

/*
 * These bytes changed otherwise: a truncation (from the new size on), a punched hole, a write
 * that nobody saw. @len may be UINT64_MAX: to the end.
 */
void digest_spoil(struct digest *d, uint64_t off, uint64_t len);

/*
 * The digest of the file, which now has @size bytes. Reads through @src (one call at a time) what
 * is not known; *@reread_pieces (if not NULL) says how many pieces that were. 0 or -errno; -EIO
 * where the file ends before @size. What is fed or spoiled meanwhile may or may not be in @hex, but
 * will be in that of the next call.
 */
int digest_finish(struct digest *d, uint64_t size, const struct source *src,
		  unsigned *reread_pieces, char hex[DIGEST_HEX]);

/*
 * The digest of a whole file, read by @threads threads; @src is called from all of them. @progress
 * (may be NULL) gets the number of bytes done so far, one call at a time, from any of them. 0 or
 * -errno; -EIO where the file ends before @size.
 */
int digest_of_source(const struct source *src, uint64_t size, unsigned threads,
		     void (*progress)(void *arg, uint64_t bytes), void *arg, char hex[DIGEST_HEX]);

/*
 * The record in the xattr: "<xxh3> <size> <mtime_ns>". Format returns its length, or -EINVAL: @hex
 * is no digest, or @size too small. Parse takes nothing but such a record, and fills nothing in
 * otherwise (-EINVAL).
 */
int digest_record_format(char *buf, size_t size, const char *hex, uint64_t fsize,
			 uint64_t mtime_ns);
int digest_record_parse(const char *text, size_t len, char hex[DIGEST_HEX], uint64_t *fsize,
			uint64_t *mtime_ns);

#endif
