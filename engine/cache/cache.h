/* SPDX-License-Identifier: MIT */
/*
 * The bounded cache: memory that is locked and faulted in once, cut into chunks of chunk_size
 * bytes. Each chunk holds one aligned piece of one file's content.
 *
 * A chunk is free, or belongs to a content, and is then
 *   partial  has bytes that the backing lacks, and may get more
 *   ready    the same, and due to be flushed
 *   flying   being written to the backing; no thread changes its bytes
 *   clean    has only bytes that the backing has too. The oldest is taken when room is needed, so
 *            the latest save stays longest, and a restart on this node reads memory
 *
 *       FREE ----- cache_bind -----------------------------------> PARTIAL
 *       PARTIAL -- written to its end, hurried, or old (a) ------> READY
 *       READY ---- content_take_off_locked -----------------------------> FLYING
 *       PARTIAL -- the same, while writers wait for room --------> FLYING
 *       FLYING --- content_landed -------------------------------> CLEAN
 *       CLEAN ---- written to (b) -------------------------------> PARTIAL
 *       PARTIAL, READY -- what was dirty is cut off (c) ---------> CLEAN
 *       PARTIAL, READY, CLEAN -- cache_give_back, or its room is taken (d) --> FREE
 *
 *   (a) make_ready (content_write.c), age (flush.c)   (b) turn_dirty   (c) trim_chunk   (d) unbind
 *
 * A flying chunk always becomes clean, also if its content fails, because the kernel reads its
 * bytes until it lands.
 *
 * Only writers take room. A writer that finds none waits in one queue, first come first served,
 * except users at their limit (cache_per_uid). No thread in it holds a chunk, and a flush needs no
 * room, so the queue moves as long as the backing does.
 *
 * A free chunk is cold until it has memory. A few threads fault cold chunks in, a huge page at a
 * time. No thread waits for them: a writer that takes a cold chunk faults it by its own copy. The
 * whole range is locked from the start (MLOCK_ONFAULT), so a page is locked when it is faulted.
 *
 * Chunks that are lent to a session (loan.h) have memory that the session shares. Cold chunks are
 * lent first. A lent chunk is bound and flushed as any other, but never stays clean: it goes back
 * to its loan.
 *
 * One mutex guards the state of all chunks and contents. A thread holds it for moments, never
 * across a system call or a copy: a thread that copies pins the chunk by `users`.
 */
#ifndef ENGINE_CACHE_CACHE_H
#define ENGINE_CACHE_CACHE_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/base/list.h"
#include "engine/base/machine.h"
#include "engine/base/message.h"
#include "engine/base/wait.h"
#include "engine/base/worker.h"

#define CACHE_CHUNK_DEFAULT ((size_t)1 << 20)
#define CACHE_CHUNK_MIN	    ((size_t)64 << 10)
/* a piece of the digest is a whole number of chunks */
#define CACHE_CHUNK_MAX	   ((size_t)8 << 20)
#define CACHE_CHUNKS_MIN   8
#define CACHE_FAULTERS_MAX 4 /* more threads do not fault memory in faster */

struct content;
struct loan;

enum chunk_state { CHUNK_FREE, CHUNK_PARTIAL, CHUNK_READY, CHUNK_FLYING, CHUNK_CLEAN };
extern const struct machine chunk_machine;

struct chunk {
	/* all: cache lock */
	struct list queue; /* of its state; on no list while flying */
	/* of its content: dirty ones in the order in which they became so, or clean ones */
	struct list mine;
	struct chunk *next_in_hash;
	char *memory;	   /* of chunk_size bytes: its own, or a slot of @loan */
	struct loan *loan; /* NULL: it is not lent */
	struct content *content;
	uint64_t index;		     /* of chunk_size bytes in the content */
	uint32_t lo, hi;	     /* the bytes that are here */
	uint32_t dirty_lo, dirty_hi; /* those that the backing lacks; equal: none */
	unsigned users;		     /* threads that copy in or out */
	unsigned writers;	     /* threads that copy in */
	enum chunk_state state;
	bool cold;	   /* free, and not faulted yet; in `cold` */
	bool faulting;	   /* a thread faults it in: it may be taken, but not lent */
	uid_t uid;	   /* the user charged for it */
	uint64_t turned;   /* value of cache->turns when it became dirty */
	uint64_t since_ns; /* the same by the monotonic clock */
};

struct cache_limits {
	size_t size, chunk_size;
	size_t per_uid; /* 0: no limit */
	unsigned stall_timeout_s;
	bool lock;	   /* in memory, where permitted */
	unsigned faulters; /* threads that fault memory in; 0: by the number of processors */
};

struct cache {
	struct lock lock;
	/* const */
	size_t chunk_size, nr_chunks;
	struct cache_limits limits;
	char *memory;
	struct chunk *chunks;
	/* lock */
	struct chunk **hash;
	struct list free, cold, partial, ready, clean;
	size_t nr_free; /* chunks in `free` and in `cold` */
	size_t nr_cold, nr_dirty, nr_flying, nr_clean, nr_waiting;
	size_t nr_loaned;    /* chunks of loans; of these: */
	size_t nr_lent;	     /* of sessions that go on */
	size_t nr_returning; /* idle ones of closed loans, which get memory of their own soon */
	struct list loans;   /* closed ones */
	struct list waiting; /* struct claim */
	uint64_t turns;
	uint64_t absorbed; /* bytes that writers copied in */
	struct waitq work; /* for the flusher: a chunk is ready, or room is wanted */
	bool ending;
	char not_locked[256]; /* why; "": locked, or not requested */
	uint64_t stalls, stalled_ns, longest_stall_ns;
	struct list charges;  /* the chunks of each uid, only if per_uid */
	struct waitq chilled; /* for the threads that fault: there are cold chunks */
	struct waitq settled; /* chunks are no longer `faulting` */
	struct worker faulters[CACHE_FAULTERS_MAX];
	unsigned nr_faulters; /* const after create */
};

/*
 * Reserves and locks the address space, and starts the threads that fault it in. All chunks are
 * usable at once. Returns 0 or -errno with @e filled.
 */
int cache_create(struct cache **out, const struct cache_limits *limits, struct error *e);
void cache_destroy(struct cache *c);

/*
 * The largest possible cache on this host: the host's memory, or the limit of a cgroup if that is
 * less. *@limit_path (owned by the caller) is the file with that limit.
 */
uint64_t cache_memory_limit(char **limit_path);
#define CACHE_MEMORY_OF_HOST "/proc/meminfo"

/* The host's memory that is free or could be freed. UINT64_MAX: unknown. */
uint64_t cache_memory_available(void);

/* The default of host_cache_size: 1/8 of cache_memory_limit, at most 16 GiB. */
size_t cache_default_size(void);

/* --- called with the cache's lock held, unless they say otherwise --- */

struct chunk *cache_find(struct cache *c, const struct content *content, uint64_t index);

/*
 * A free chunk for @uid. If none is free, drops the lock and waits for the caller's turn. Returns
 * 0, -EINTR (the call was interrupted), -ETIMEDOUT (stall_timeout_s passed).
 */
int cache_claim(struct cache *c, uid_t uid, struct chunk **out);

/* Returns NULL instead of waiting, or of taking what writers may soon need. */
struct chunk *cache_claim_spare(struct cache *c, uid_t uid);

/* Binds a claimed chunk to (@content, @index): empty and partial. */
void cache_bind(struct cache *c, struct chunk *ck, struct content *content, uint64_t index);

/* Changes the state of a bound chunk; @who: the function that requests it. */
void cache_set_state_by(struct cache *c, struct chunk *ck, enum chunk_state state, const char *who);
#define cache_set_state(c, ck, state) cache_set_state_by(c, ck, state, __func__)

/* Returns an unused chunk, claimed or bound; it goes to the next waiting thread, if any. */
void cache_give_back(struct cache *c, struct chunk *ck);

/* Gives chunks to waiting threads. Called after chunks became clean or unused. */
void cache_serve_waiting(struct cache *c);

/* The number of chunks that are never lent. */
static inline size_t cache_reserve(const struct cache *c)
{
	return c->nr_chunks < 32 ? 2 : c->nr_chunks / 16;
}

/* True if writers wait for room, so that partial chunks must be flushed too. */
static inline bool cache_pressed(const struct cache *c)
{
	return !list_empty(&c->waiting);
}

/* Takes the lock. The bytes of all chunks that are not flushed. */
uint64_t cache_unflushed_bytes(struct cache *c);

/*
 * Takes the lock. In bytes: {size, chunk_size, free, untouched (cold, a part of free), faulted (the
 * rest), dirty, flying, clean, lent, waiting, ...}.
 */
json_t *cache_to_json(struct cache *c);

#endif
