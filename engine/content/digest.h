/* SPDX-License-Identifier: MIT */
/*
 * The digest of a file, as commit files and the xattr below hold it (ckptfs-format(5), DIGESTS). A
 * file of at most 8 MiB has its XXH3-128. A larger file has the XXH3-128 of the 16-byte canonical
 * digests of its consecutive 8 MiB pieces, one behind the other. So pieces are digested as they
 * pass, in any order. Only pieces that were rewritten, or did not pass in order, are read again.
 *
 * A digest knows a prefix of each piece: all 8 MiB, or the bytes that its stream has taken so far.
 * A change inside the prefix forgets it; a change behind it does not matter.
 */
#ifndef ENGINE_CONTENT_DIGEST_H
#define ENGINE_CONTENT_DIGEST_H

#include <stdbool.h>

#include "engine/base/source.h"
#include "engine/format/digest_record.h"

#define DIGEST_PIECE ((size_t)8 << 20)
/* Pieces that pass at a time: one of each thread that digests, and those that stand half. */
#define DIGEST_STREAMS 8

/*
 * The digest of a file that is being written. Any thread may call its functions. It takes 20 bytes
 * per piece, and at most DIGEST_STREAMS streams of 640 bytes.
 */
struct digest;

struct digest *digest_create(void); /* NULL: no memory */
void digest_destroy(struct digest *d);

/* Call both once a change is visible through the source; overlapping changes in their order. */

/*
 * From here on these bytes are a tensor, or a part of one, and get a digest of their own, the
 * XXH3-128: known once they have passed in order, unless they change again.
 */
void digest_expect(struct digest *d, uint64_t off, uint64_t len);
bool digest_of_expected(struct digest *d, uint64_t off, uint64_t len, char hex[DIGEST_HEX]);

/*
 * Records that these bytes were written. Parts may have any size and alignment, and may come out of
 * order or twice. DIGEST_STREAMS pieces at a time are digested here, if each passes in order from
 * its start. Several threads may feed different pieces at once, and hash them without the lock; the
 * digest of a tensor is taken with the lock. Without memory the digest remembers less, and
 * digest_finish reads more.
 */
void digest_feed(struct digest *d, uint64_t off, const void *data, size_t len);

/*
 * Records another change of these bytes: a truncation (from the new size on), a punched hole, a
 * write that nobody saw. @len may be UINT64_MAX: to the end.
 */
void digest_spoil(struct digest *d, uint64_t off, uint64_t len);

/*
 * The digest of the file, which now has @size bytes. Reads unknown pieces through @src (one call at
 * a time); *@reread_pieces (if not NULL) gets their number. Returns 0 or -errno; -EIO: the file
 * ends before @size. Changes reported meanwhile may be missing in @hex, but not in that of the next
 * call.
 */
int digest_finish(struct digest *d, uint64_t size, const struct source *src,
		  unsigned *reread_pieces, char hex[DIGEST_HEX]);

/*
 * The digest of a whole file, which @threads threads read; all of them call @src. @progress (may be
 * NULL) gets the number of bytes done so far, from any of the threads, one call at a time. Returns
 * 0 or -errno; -EIO: the file ends before @size.
 */
int digest_of_source(const struct source *src, uint64_t size, unsigned threads,
		     void (*progress)(void *arg, uint64_t bytes), void *arg, char hex[DIGEST_HEX]);

#endif
