/* SPDX-License-Identifier: MIT */
/*
 * The content of one file that is being written: what the cache holds of it over what the backing
 * has. Reads see both as one.
 *
 * A content is STAGED (the file of a unit: nobody else knows its inode on the backing until it is
 * published; digested as it passes; kept in the cache after the flush) or ORDINARY (written behind,
 * in place; no byte but those written goes to the backing, since other nodes may write beside them;
 * gone from the cache once the backing has it).
 *
 * The kernel keeps writes, truncations and the like of one file apart by its inode lock, but for
 * the O_TRUNC of an open and the pages of mappings; reads, flushes and closes run beside them.
 *
 * Everything that cannot be done in the cache is done on the backing, between content_settle
 * (which empties the cache of the file) and content_reload.
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
#include "engine/base/wait.h"
#include "engine/cache/cache.h"
#include "engine/content/digest.h"
#include "engine/content/tensors.h"

/* Identity of an inode on the backing. */
struct inode_id {
	dev_t dev;
	uint64_t ino;
	uint64_t btime_ns; /* 0 where the backing does not tell */
};

uint64_t hash_inode(const struct inode_id *id);

/* Who found no room on the backing, and has asked for some: since when, and for what. */
struct shortage {
	uint64_t since_ns, ticket;
};

struct content {
	struct contents *all;  /* const */
	struct inode_id id;    /* const */
	struct caller owner;   /* const: for whom it is flushed */
	bool staged;	       /* const */
	struct digest *digest; /* const: NULL if not staged */
	int fd;		       /* const while referenced: read and write, through the page cache */
	/* cache lock */
	struct content *next_in_hash;
	unsigned refs;
	struct list parked;	      /* on contents->parked while refs is 0 and chunks are left */
	int direct_fd;		      /* O_DIRECT, -1: none */
	uint64_t size, backing_end;   /* of the file; up to where the backing may have bytes */
	uint64_t written_ns;	      /* wall clock of the last write; 0: none */
	uint64_t ctime_ns;	      /* published: that of the backing then */
	bool orphan;		      /* has no name: with the last reference its bytes go, too */
	bool published;		      /* staged, and now a file of the backing like any other */
	struct list dirty, clean;     /* chunks */
	struct list promises;	      /* bytes that will come */
	bool by_handle;		      /* there were some */
	struct tensor_places tensors; /* of which tensors bytes are captured, or will be */
	unsigned nr_submitted;	      /* chunks that the flush engine still refers to */
	unsigned nr_writing;	      /* between content_begin_write and content_end_write */
	bool cutting;		      /* content_truncate: others wait to begin */
	bool unsynced;		      /* the last sync failed: what was flushed may be lost */
	int error; /* the first that a flush met: -errno; until content_error_told */
	struct waitq settled;
};

/* All contents of a mount, by inode. */
struct contents {
	struct cache *cache;	 /* const */
	struct backing *backing; /* const */
	struct content **hash;	 /* cache lock */
	size_t nr_buckets, nr;
	struct list parked; /* contents that only the cache still holds */
	bool ending;	    /* cache lock: nothing is waited for any more */
	/* Called, without locks, when a flush of @ct failed for good. */
	void (*failed)(void *arg, const struct inode_id *id, int err);
	/*
	 * The same where it fails for want of room: is it worth another try? It waits for nothing.
	 */
	bool (*full)(void *arg, const struct inode_id *id, struct shortage *s);
	/* Called, without locks, when nothing of a staged content is dirty any more. */
	void (*rested)(void *arg);
	void *arg;
};

int contents_create(struct contents **out, struct cache *cache, struct backing *backing);
void contents_destroy(struct contents *all);

/* The end of the mount: what waits for the backing here gets -EINTR from now on. */
void contents_end(struct contents *all);

/*
 * The content of the inode behind @fd (taken over, also on failure; readable and writable),
 * which has @size bytes. Referenced. NULL without memory.
 */
struct content *content_create(struct contents *all, int fd, const struct inode_id *id,
			       uint64_t size, const struct caller *owner, bool staged);

/*
 * The same, staged, of a file that is there already and is to be written in its place: the one
 * there is, if any, which is not known to others after all. NULL: no memory, or what is ordinary
 * about it cannot be written back.
 */
struct content *content_stage_in_place(struct contents *all, int fd, const struct inode_id *id,
				       uint64_t size, const struct caller *owner);

/* Is there any? */
bool contents_any(struct contents *all);

/* That of inode @id if there is one, referenced. */
struct content *content_find(struct contents *all, const struct inode_id *id);
void content_get(struct content *ct);
/* It lives on as long as chunks of it are in the cache. */
void content_put(struct content *ct);

/* Frees contents that nobody refers to and whose last chunk has left the cache. Now and then. */
void contents_sweep(struct contents *all);

/*
 * Copies @len bytes into the cache, waiting for room. Returns how many (fewer only by an error
 * after a part, which the next call returns), or -errno: what an earlier flush met, -EINTR,
 * -ETIMEDOUT (no room for stall_timeout_s).
 */
ssize_t content_write(struct content *ct, const void *buf, size_t len, uint64_t off);

/*
 * A place in the cache for bytes that are expected next, so that they can be received right there:
 * behind the end of the chunk that @content was last written to, and in chunks that belong to
 * nobody yet. What is put there is nobody's until content_take_landed. Whoever has a place holds up
 * the flush, and other writers, of its first chunk: only for moments, and without waiting for
 * anything.
 */
#define LANDING_PIECES 3
struct content_landing {
	struct content *content; /* NULL: none */
	uint64_t off;
	struct chunk *chunks[LANDING_PIECES];
	struct iovec bytes[LANDING_PIECES];
	unsigned nr;
};

/*
 * A place for @len bytes at @off of a content that is not published, whose reference it takes over
 * on success. False: there is none without waiting.
 */
bool content_land(struct content *ct, uint64_t off, size_t len, struct content_landing *l);

/* Copies the first @len bytes out of it, to where they belong instead. */
void content_copy_landed(const struct content_landing *l, void *buf, size_t len);

/*
 * As content_write of the first @len bytes, which are there. False: things have changed, they must
 * be copied out and written. The place is not given back.
 */
bool content_take_landed(struct content_landing *l, size_t len);

/* Gives the place back. Also for an empty one. */
void content_leave(struct content_landing *l);

/* Reads until @len or the end of the file. What is not cached is read from @fd. */
ssize_t content_read(struct content *ct, int fd, void *buf, size_t len, uint64_t off);

/*
 * The same without a copy, if all of it is cached in CONTENT_PINS chunks or fewer: then the bytes
 * stay where they are until content_unpin. Returns how many there are, or 0: content_read it.
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
 * Bytes of a staged content that will come, from a tensor that is still to be captured: the file
 * has its size already; who reads them, writes over them, cuts or syncs the file waits until they
 * are there.
 */
struct promise {
	struct list link; /* content->promises */
	uint64_t off, len;
};

/*
 * @p, whose off and len are set and which stays where it is, until content_kept. 0 or -errno; waits
 * for others of these bytes. Until content_promised the file has not grown by it, and may be left
 * so.
 */
int content_promise(struct content *ct, struct promise *p);

/*
 * It will come, for all that is known now: the file has its size. @at: what of which tensor it is,
 * to be told by content_tensors; NULL: that does not matter.
 */
void content_promised(struct content *ct, const struct promise *p, const struct tensor_place *at);

/*
 * Of what is captured: what of which tensors, but for what was written over. Referenced; NULL:
 * nothing.
 */
struct tensor_map *content_tensors(struct content *ct);

/*
 * For one that begins anew with bytes that were written by handle: what of which tensors; NULL: of
 * none.
 */
void content_set_tensors(struct content *ct, const struct tensor_map *m);

/* As content_write, of a part of what was promised; it counts as written when it was promised. */
ssize_t content_keep(struct content *ct, const void *buf, size_t len, uint64_t off);

/* Was any of it promised, ever? */
bool content_by_handle(struct content *ct);

/* All of it has come, or will not: then the content fails first. */
void content_kept(struct content *ct, struct promise *p);

/* Of what is promised: how much. */
uint64_t content_promised_bytes(struct content *ct);

/* Waits until all that is promised now has come. 0, -EINTR, or the sticking error. */
int content_await(struct content *ct);

/* Cuts or extends it, as whom @b says. 0 or -errno. */
int content_truncate(struct content *ct, struct backing *b, uint64_t size);

/*
 * What looks at the backing sees the size that it has here, whatever of it was written back. 0,
 * -EINTR or -errno.
 */
int content_show_size(struct content *ct);

/*
 * Waits until what is dirty now was given to the backing. 0, the sticking error, or -EINTR. After a
 * content_sync that failed that is all of the file: what was given before may be lost. If not all
 * of it is cached any more, it fails for good.
 */
int content_write_back(struct content *ct);

/* Has all that is dirty now flushed as soon as it can be. */
void content_hurry(struct content *ct);

/* Is nothing dirty, and nobody writing? */
bool content_rests(struct content *ct);

/* Writes back, and makes it durable. */
int content_sync(struct content *ct);

/* Write back, then drop everything from the cache, for operations on the backing itself. */
int content_settle(struct content *ct);

/* Around a write to the backing beside the cache: nothing is cut meanwhile. 0 or -EINTR. */
int content_begin_write(struct content *ct);
void content_end_write(struct content *ct);

/* Bytes were written to the backing beside the cache: size and digest follow. */
void content_wrote(struct content *ct, uint64_t off, uint64_t len);

/* The same after any other change there, to a settled content: the size is the backing's. */
void content_reload(struct content *ct, uint64_t off, uint64_t len);

/* Drops what is in the cache, unflushed bytes too: nobody will miss them. */
void content_discard(struct content *ct);

/*
 * No name leads to it any more: who has it open goes on with it, after that nobody misses its
 * bytes.
 */
void content_orphan(struct content *ct);

/* Drops what is cached of it and is on the backing too. */
void content_forget(struct content *ct);

/* The sticking error. */
int content_error(struct content *ct);

/*
 * A program that wrote to it was told. That is enough for an ordinary file, whose lost bytes are
 * gone from the cache by now; a unit has failed by it for good.
 */
void content_error_told(struct content *ct);

/* Notes an error as a flush does. */
void content_fail(struct content *ct, int err);

/* Size, time of change and blocks as programs shall see them, over what the backing says. */
void content_overlay(struct content *ct, struct statx *stx);

/* Do reads go through the cache: for bytes that only it has, or since it has all of them? */
bool content_serves_reads(struct content *ct);

/* It is known to others from now on, on the backing last changed as @stx says. */
void content_published(struct content *ct, const struct statx *stx);

/* Staged, and not known to others yet? */
bool content_is_pending(struct content *ct);

/*
 * At each open: drops from the cache what has been changed on the backing since it was published.
 */
void content_refresh(struct content *ct);

/* The time of change that programs shall see, in place of that of the last write. */
void content_set_mtime(struct content *ct, uint64_t wall_ns);

uint64_t content_size(struct content *ct);
/* Of unflushed bytes. */
uint64_t content_dirty_bytes(struct content *ct);

/* Are there cached bytes in [off, off + len)? */
bool content_covers(struct content *ct, uint64_t off, size_t len);

/* As a source for digests and structure checks. */
ssize_t content_source_read(void *content, void *buf, size_t len, uint64_t off);

/* --- for the flush engine --- */

struct flight {
	struct content *content;
	struct chunk *chunk;
	char *data;
	size_t len;
	uint64_t off;
	bool direct;
	uint32_t dirty_lo, dirty_hi; /* of the chunk, when it took off */
};

/* Takes the next chunk that is due into the air; false: none. */
bool content_take_off_locked(struct cache *c, struct flight *f);

/* Digests what flies. Without locks. */
void content_digest(struct flight *f);

/* The chunk has landed, with 0 or the error for good. Takes the lock. */
void content_landed(struct flight *f, int err);

#endif
