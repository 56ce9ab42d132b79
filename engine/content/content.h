/* SPDX-License-Identifier: MIT */
/*
 * The content of one file that is being written: the bytes in the cache on top of those of the
 * backing. Readers see both as one file.
 *
 * A content is STAGED or ORDINARY. STAGED is the file of a unit: its inode on the backing is
 * private until it is published. Its bytes are digested as they pass, and stay cached after the
 * flush. ORDINARY is written behind, in place. Only written bytes go to the backing, since other
 * nodes may write beside them; the cache drops them once the backing has them.
 *
 * The kernel's inode lock serializes writes, truncations and the like of one file, except the
 * O_TRUNC of an open and the pages of mappings. Reads, flushes and closes run concurrently.
 *
 * Operations that the cache cannot do are done on the backing, between content_settle (which
 * empties the cache of the file) and content_reload.
 */
#ifndef ENGINE_CONTENT_CONTENT_H
#define ENGINE_CONTENT_CONTENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "engine/backing/backing.h"
#include "engine/backing/inode.h"
#include "engine/base/wait.h"
#include "engine/cache/cache.h"
#include "engine/content/digest.h"
#include "engine/content/tensors.h"

/* A save that found no room on the backing: since when, and the ticket of its request. */
struct shortage {
	uint64_t since_ns, ticket;
};

struct content {
	struct contents *all;  /* const */
	struct inode_id id;    /* const */
	struct caller owner;   /* const: the user as which it is flushed */
	bool staged;	       /* const */
	struct digest *digest; /* const: NULL if not staged */
	int fd;		       /* const while referenced: read and write, through the page cache */
	/* cache lock */
	struct content *next_in_hash;
	unsigned refs;
	struct list parked;	      /* on contents->parked while refs is 0 and chunks remain */
	int direct_fd;		      /* O_DIRECT, -1: none */
	uint64_t size, backing_end;   /* of the file; the end of possible bytes on the backing */
	uint64_t written_ns;	      /* wall clock of the last write; 0: none */
	uint64_t ctime_ns;	      /* published: the backing's at that moment */
	bool orphan;		      /* has no name: its bytes go with the last reference */
	bool published;		      /* staged, but now an ordinary file of the backing */
	struct list dirty, clean;     /* chunks */
	struct list promises;	      /* bytes that will come */
	bool by_handle;		      /* it has had promises */
	struct tensor_places tensors; /* of captured and of promised bytes */
	unsigned nr_submitted;	      /* chunks that the flush engine refers to */
	unsigned nr_writing;	      /* between content_begin_write and content_end_write */
	bool cutting;		      /* content_truncate: writers wait to begin */
	bool unsynced;		      /* the last sync failed: flushed bytes may be lost */
	int error;		      /* the first of a flush: -errno; until content_error_told */
	struct waitq settled;
};

static inline bool content_is_staged(const struct content *ct)
{
	return ct->staged;
}

/* Its descriptor, for reading and writing through the page cache; valid while referenced. */
static inline int content_fd(const struct content *ct)
{
	return ct->fd;
}

/* What the rooms above are told. Each is called without locks. */
struct content_events {
	/* A flush of the file has failed for good. */
	void (*failed)(void *arg, const struct inode_id *id, int err);
	/* The same for want of room. True: try again. It does not wait. */
	bool (*full)(void *arg, const struct inode_id *id, struct shortage *s);
	/* A staged content has no dirty bytes left. */
	void (*rested)(void *arg);
	void *arg;
};

/* All contents of a mount, by inode. */
struct contents {
	struct cache *cache;	      /* const */
	struct backing *backing;      /* const */
	struct content_events events; /* const */
	struct content **hash;	      /* cache lock */
	size_t nr_buckets, nr;
	struct list parked;    /* contents that only the cache holds */
	bool ending;	       /* cache lock: nothing waits any more */
	struct list digesting; /* cache lock: flights that threads digest */
};

/* @events may come from any thread from here on until contents_destroy. 0 or -ENOMEM. */
int contents_create(struct contents **out, struct cache *cache, struct backing *backing,
		    const struct content_events *events);
void contents_destroy(struct contents *all);

/* The end of the mount: from now on waits for the backing in this module return -EINTR. */
void contents_end(struct contents *all);

/*
 * The content of the inode behind @fd, which has @size bytes. It takes over @fd (readable and
 * writable), also on failure. The caller gets a reference. NULL without memory.
 */
struct content *content_create(struct contents *all, int fd, const struct inode_id *id,
			       uint64_t size, const struct caller *owner, bool staged);

/*
 * The same, staged, for an existing file that is to be written in place. A staged content of that
 * inode is used again, and is private again. NULL: no memory, or the inode's ordinary content could
 * not be written back.
 */
struct content *content_stage_in_place(struct contents *all, int fd, const struct inode_id *id,
				       uint64_t size, const struct caller *owner);

/* True if there is any content. */
bool contents_any(struct contents *all);

/* The content of inode @id with a new reference, or NULL. */
struct content *content_find(struct contents *all, const struct inode_id *id);
void content_get(struct content *ct);
/* Drops a reference. A content lives on while chunks of it are in the cache. */
void content_put(struct content *ct);

/* Frees contents without references whose last chunk has left the cache. Called now and then. */
void contents_sweep(struct contents *all);

/*
 * Copies @len bytes into the cache, waiting for room. Returns the number of bytes (fewer only if an
 * error follows a part; the next call returns it), or -errno: the error of an earlier flush,
 * -EINTR, -ETIMEDOUT (no room for stall_timeout_s).
 */
ssize_t content_write(struct content *ct, const void *buf, size_t len, uint64_t off);

/*
 * A place in the cache for bytes that are expected next, so that the daemon can receive them there:
 * behind the last written bytes of @content in their chunk, and in chunks without a content. Bytes
 * there belong to no content until content_take_landed. The holder of a place blocks the flush of
 * its first chunk and other writers to it. So it holds a place only for moments, and waits for
 * nothing meanwhile.
 */
#define LANDING_PIECES 9
struct content_landing {
	struct content *content; /* NULL: none */
	uint64_t off;
	struct chunk *chunks[LANDING_PIECES];
	struct iovec bytes[LANDING_PIECES];
	unsigned nr;
};

/*
 * A place for @len bytes at @off of an unpublished content, whose reference it takes over on
 * success. False: there is none without waiting.
 */
bool content_land(struct content *ct, uint64_t off, size_t len, struct content_landing *l);

/* Copies the first @len bytes out of the place into @buf. */
void content_copy_landed(const struct content_landing *l, void *buf, size_t len);

/*
 * As content_write for the first @len bytes in the place. False: the content has changed, so the
 * caller must copy the bytes out and write them. The caller still has to give the place back.
 */
bool content_take_landed(struct content_landing *l, size_t len);

/* Gives the place back. Accepts an empty one. */
void content_leave(struct content_landing *l);

/* Reads until @len or the end of the file. Bytes that are not cached come from @fd. */
ssize_t content_read(struct content *ct, int fd, void *buf, size_t len, uint64_t off);

/*
 * The same without a copy, if all bytes are cached in at most CONTENT_PINS chunks. They stay in
 * place until content_unpin. Returns their number, or 0: use content_read.
 */
#define CONTENT_PINS 18
struct content_pins {
	struct content *content;
	struct chunk *chunks[CONTENT_PINS];
	struct iovec bytes[CONTENT_PINS];
	unsigned nr;
};
size_t content_pin(struct content *ct, size_t len, uint64_t off, struct content_pins *p);
void content_unpin(struct content_pins *p);

/*
 * Bytes of a staged content that will come from a tensor whose capture is pending. The file has its
 * size already. Reading them, writing over them, and cutting or syncing the file wait until they
 * have come.
 */
struct promise {
	struct list link; /* content->promises */
	uint64_t off, len;
};

/*
 * Registers @p, whose off and len are set and which stays in place until content_kept. Waits for
 * other promises of these bytes. Returns 0 or -errno. The file does not grow before
 * content_promised, which the caller may omit.
 */
int content_promise(struct content *ct, struct promise *p);

/*
 * The promise is certain, as far as is known now: the file gets its size. @at: the tensor of the
 * bytes, for content_tensors; NULL: none to record.
 */
void content_promised(struct content *ct, const struct promise *p, const struct tensor_place *at);

/* The tensors of the captured bytes, without those overwritten since. Referenced; NULL: none. */
struct tensor_map *content_tensors(struct content *ct);

/* For a content that starts with bytes written by handle: sets their tensors; NULL: none. */
void content_set_tensors(struct content *ct, const struct tensor_map *m);

/* As content_write, for a part of a promise. The time of writing remains that of the promise. */
ssize_t content_keep(struct content *ct, const void *buf, size_t len, uint64_t off);

/*
 * The same for bytes in @ck, a chunk of a loan that its session has filled (cache/loan.h) or one
 * claimed: @pieces of chunk @index of the file, in order. 1: @ck belongs to the file now.
 * 0: it cannot, use content_keep. Or -errno as content_keep; -ETIMEDOUT: the backing stands still.
 */
struct content_piece {
	uint32_t lo, hi; /* in the chunk */
};
int content_adopt(struct content *ct, struct chunk *ck, uint64_t index,
		  const struct content_piece *pieces, unsigned nr);

/* True if any of its bytes were ever promised. */
bool content_by_handle(struct content *ct);

/* Ends the promise: its bytes have come, or never will (then the content has failed first). */
void content_kept(struct content *ct, struct promise *p);

/* The number of promised bytes. */
uint64_t content_promised_bytes(struct content *ct);

/* Waits until all bytes promised now have come. Returns 0, -EINTR, or the sticking error. */
int content_await(struct content *ct);

/* Truncates or extends the file, as the user of @b. Returns 0 or -errno. */
int content_truncate(struct content *ct, struct backing *b, uint64_t size);

/*
 * Extends the file on the backing to the content's size, whatever has been written back so far.
 * Returns 0, -EINTR or -errno.
 */
int content_show_size(struct content *ct);

/*
 * Waits until the bytes that are dirty now have been given to the backing. Returns 0, the sticking
 * error, or -EINTR. After a failed content_sync it writes the whole file again, since earlier bytes
 * may be lost. If the whole file is no longer cached, the content fails for good.
 */
int content_write_back(struct content *ct);

/* Makes all bytes that are dirty now due for the flush. */
void content_hurry(struct content *ct);

/* True if nothing is dirty or promised, and no thread is writing. */
bool content_rests(struct content *ct);

/* Writes back and makes the file durable. */
int content_sync(struct content *ct);

/* Writes back, then drops the content's bytes from the cache, before operations on the backing. */
int content_settle(struct content *ct);

/* Around a write to the backing past the cache: no truncation runs meanwhile. 0 or -EINTR. */
int content_begin_write(struct content *ct);
void content_end_write(struct content *ct);

/* Updates size and digest after a write to the backing past the cache. */
void content_wrote_past(struct content *ct, uint64_t off, uint64_t len);

/* The same after another change on the backing, to a settled content; takes the backing's size. */
void content_reload(struct content *ct, uint64_t off, uint64_t len);

/* Drops the content's bytes from the cache, unflushed ones too: they are no longer needed. */
void content_discard(struct content *ct);

/*
 * The file has lost its last name. Processes that have it open can go on; with the last reference
 * its bytes are dropped.
 */
void content_orphan(struct content *ct);

/* Drops cached bytes that the backing has too. */
void content_forget(struct content *ct);

/* The sticking error, or 0. */
int content_error(struct content *ct);

/*
 * A program that wrote to the content was told of the error. That clears the error of an ordinary
 * file, whose lost bytes have left the cache by then. A unit has failed by it for good.
 */
void content_error_told(struct content *ct);

/* Records an error as a flush does. */
void content_fail(struct content *ct, int err);

/* Puts size, times and blocks as programs shall see them over the backing's values in @stx. */
void content_overlay(struct content *ct, struct statx *stx);

/* True if reads go through the cache: it has bytes that the backing lacks, or the whole file. */
bool content_serves_reads(struct content *ct);

/* Others know the file from now on; @stx is its last state on the backing. */
void content_published(struct content *ct, const struct statx *stx);

/* True if it is staged and not published yet. */
bool content_is_pending(struct content *ct);

/* Called at each open: drops cached bytes if the backing's file has changed since publishing. */
void content_refresh(struct content *ct);

/* Sets the time of change for programs, in place of the time of the last write. */
void content_set_mtime(struct content *ct, uint64_t wall_ns);

uint64_t content_size(struct content *ct);
/* The number of unflushed bytes. */
uint64_t content_dirty_bytes(struct content *ct);

/* True if bytes in [off, off + len) may be cached or are promised. */
bool content_covers(struct content *ct, uint64_t off, size_t len);

/* A source (base/source.h) for digests and structure checks. */
ssize_t content_source_read(void *content, void *buf, size_t len, uint64_t off);

/* --- for the flush engine --- */

struct flight {
	struct list digesting; /* contents->digesting, while a thread digests it */
	struct content *content;
	struct chunk *chunk;
	char *data;
	size_t len;
	uint64_t off;
	bool direct;
	uint32_t dirty_lo, dirty_hi; /* of the chunk at take-off */
};

/*
 * Takes off the next due chunk that can be digested now: a piece of a file is digested in order, so
 * by one thread at a time, and so is a file with tensors. Returns false if there is none.
 */
bool content_take_off_locked(struct cache *c, struct flight *f);

/* True if content_take_off_locked would find one. */
bool content_any_due_locked(struct cache *c);

/* Digests the bytes in flight. Called without locks, by several threads at once. */
void content_digest(struct flight *f);

/* Ends a flight, with 0 or the final error. Takes the lock. */
void content_landed(struct flight *f, int err);

#endif
