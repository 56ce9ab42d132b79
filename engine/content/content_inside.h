/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files behind content.h. content.c: the table, and the life of contents.
 * content_drop.c: bytes that leave, and errors.
 * content_write.c, content_read.c: bytes in and out. content_land.c: bytes received in place.
 * content_adopt.c: chunks that were filled elsewhere.
 * content_promise.c: bytes that will come. content_cut.c: the size. content_sync.c: write back.
 * content_attr.c: attributes. content_flight.c: for the flush engine. The lock of the cache guards
 * every field and list; the caller of a function ending in _locked holds it.
 */
#ifndef ENGINE_CONTENT_CONTENT_INSIDE_H
#define ENGINE_CONTENT_CONTENT_INSIDE_H

#include "engine/content/content.h"

static inline bool chunk_is_dirty(const struct chunk *ck)
{
	return ck->dirty_lo < ck->dirty_hi;
}

/* Forgets the bytes in @ck. content_drop.c, like the next two */
void content_empty_chunk_locked(struct content *ct, struct chunk *ck);
void content_empty_list_locked(struct content *ct, struct list *list);
/* Ends a copy into or out of @ck. */
void content_unuse_locked(struct content *ct, struct chunk *ck);

/*
 * Waits for a landing. -EINTR: the call was interrupted, or the mount ends. -ETIMEDOUT.
 * content_promise.c
 */
int content_wait_until_landing_locked(struct content *ct, uint64_t deadline_ns);
/* The same without a deadline; the caller holds the lock of the cache. content_promise.c */
int content_wait_for_landing(struct content *ct);

/* True if any of these bytes is still to come. content_promise.c */
bool content_is_promised_locked(const struct content *ct, uint64_t off, uint64_t len);
/*
 * Waits for promised bytes; drops the lock meanwhile. Returns 0, -EINTR, or the error because of
 * which they will not come. content_promise.c
 */
int content_await_promised_locked(struct content *ct, uint64_t off, uint64_t len);

/* Moves a chunk that becomes dirty behind those that are dirty already. content_write.c */
void content_turn_dirty_locked(struct content *ct, struct chunk *ck);
/* Makes @ck due for the flush. content_write.c */
void content_make_ready_locked(struct cache *c, struct chunk *ck);
/* Records that [a, b) was copied into @ck. content_write.c */
void content_note_written_locked(struct content *ct, struct chunk *ck, uint32_t a, uint32_t b);

/* The cached bytes in @chunks, a list of one content. content_read.c */
uint64_t content_cached_bytes(const struct list *chunks);

/* For the content's own calls: the kernel judged the rights of a program at its open. */
static inline struct backing content_backing(const struct content *ct)
{
	return backing_for(ct->all->backing, &ct->owner);
}

#endif
