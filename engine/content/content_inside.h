/* SPDX-License-Identifier: MIT */
/*
 * What the files of content.h share. content.c: the table, the life of contents, their errors.
 * content_write.c, content_read.c: bytes in and out. content_land.c: bytes received where they
 * stay. content_promise.c: bytes that will come. content_cut.c: the size. content_sync.c: write
 * back. content_attr.c: attributes. content_flight.c: for the flush engine. Every field and list
 * is under the lock of the cache, and what ends in _locked is called with it held.
 */
#ifndef ENGINE_CONTENT_CONTENT_INSIDE_H
#define ENGINE_CONTENT_CONTENT_INSIDE_H

#include "engine/content/content.h"

static inline bool chunk_is_dirty(const struct chunk *ck)
{
	return ck->dirty_lo < ck->dirty_hi;
}

/* Forgets the bytes in @ck. content.c, as the next two */
void content_empty_chunk_locked(struct content *ct, struct chunk *ck);
void content_empty_list_locked(struct content *ct, struct list *list);
/* The end of a copy into or out of @ck. */
void content_unuse_locked(struct content *ct, struct chunk *ck);

/* Waits for a landing. -EINTR: the call was given up, or all ends. -ETIMEDOUT. content_promise.c */
int content_wait_until_landing_locked(struct content *ct, uint64_t deadline_ns);
/* The same, with the lock of the cache, without a deadline. content_promise.c */
int content_wait_for_landing(struct content *ct);

/* True if any of these bytes is still to come. content_promise.c */
bool content_is_promised_locked(const struct content *ct, uint64_t off, uint64_t len);
/*
 * Drops the lock while waiting. 0, -EINTR, or the error by which they will not come.
 * content_promise.c
 */
int content_await_promised_locked(struct content *ct, uint64_t off, uint64_t len);

/* A chunk that turns dirty goes behind those that did before. content_write.c */
void content_turn_dirty_locked(struct content *ct, struct chunk *ck);
/* Has @ck flushed as soon as it can be. content_write.c */
void content_make_ready_locked(struct cache *c, struct chunk *ck);
/* [a, b) was copied into @ck. content_write.c */
void content_note_written_locked(struct content *ct, struct chunk *ck, uint32_t a, uint32_t b);

/* Of the chunks of one content, on its list. content_read.c */
uint64_t content_cached_bytes(const struct list *chunks);

/* For what the content itself needs: the rights of a program were judged at its open. */
static inline struct backing content_backing(const struct content *ct)
{
	return backing_for(ct->all->backing, &ct->owner);
}

#endif
