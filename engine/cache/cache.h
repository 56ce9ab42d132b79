/* SPDX-License-Identifier: MIT */
/*
 * The bounded cache: memory that is locked and faulted in once, cut into chunks of chunk_size
 * bytes, each of which holds one aligned piece of one file's content (K6).
 *
 * A chunk is free, or belongs to a content, and is then
 *   partial  holds bytes that the backing has not, and may get more
 *   ready    the same, and is due to be flushed
 *   flying   is being written to the backing; nobody changes its bytes
 *   clean    holds only what the backing has too; the oldest are taken when room is needed, so
 *            that what was saved last stays longest and a restart on this node reads memory
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
 * A flying chunk becomes clean, whatever becomes of its content: the kernel is reading its bytes.
 *
 * Only writers take room. Who finds none waits in one queue, first come first served, but for
 * users who hold as much as one may (cache_per_uid). Nobody who waits holds a chunk, and a flush
 * needs no room, so the queue always moves as long as the backing does.
 *
 * A free chunk is cold until it has memory. A few threads fault cold chunks in, a huge page at a
 * time. Nobody waits for these threads: a writer that takes a cold chunk faults it by its own copy,
 * and memory for sessions is taken from cold chunks first, since that memory is the session's own.
 * The whole range is locked from the start (MLOCK_ONFAULT), so a page is locked when it is faulted.
 *
 * One mutex guards the state of all chunks and contents; it is held for moments, never across a
 * system call or a copy: who copies holds the chunk by `users`.
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
#define CACHE_FAULTERS_MAX 4 /* more threads do not fault memory faster */

struct content;

enum chunk_state { CHUNK_FREE, CHUNK_PARTIAL, CHUNK_READY, CHUNK_FLYING, CHUNK_CLEAN };
extern const struct machine chunk_machine;

struct chunk {
	/* all: cache lock */
	struct list queue; /* of its state; alone while flying */
	/* of its content: dirty ones in the order in which they turned so, or clean */
	struct list mine;
	struct chunk *next_in_hash;
	struct content *content;
	uint64_t index;		     /* of chunk_size bytes in the content */
	uint32_t lo, hi;	     /* bytes that are here */
	uint32_t dirty_lo, dirty_hi; /* those that the backing has not; equal: none */
	unsigned users;		     /* who copy in or out of it */
	unsigned writers;	     /* those who copy in */
	enum chunk_state state;
	bool cold;	   /* free, in the queue of cold chunks: no thread has faulted it yet */
	bool faulting;	   /* a thread faults it; it may be taken, but not be lent, meanwhile */
	uid_t uid;	   /* who is charged for it */
	uint64_t turned;   /* when it became dirty, as counted by cache->turns */
	uint64_t since_ns; /* the same by the clock */
};

struct cache_limits {
	size_t size, chunk_size;
	size_t per_uid; /* 0: no limit */
	unsigned stall_timeout_s;
	bool lock;	   /* in memory, where allowed */
	unsigned faulters; /* threads that fault it in; 0: by the processors that there are */
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
	size_t nr_free; /* those in `free` and in `cold` */
	size_t nr_cold, nr_dirty, nr_flying, nr_clean, nr_lent, nr_waiting;
	struct list waiting; /* struct claim */
	uint64_t turns;
	uint64_t absorbed; /* bytes copied in by writers */
	struct waitq work; /* for the flusher: something is ready, or room is wanted */
	bool ending;
	char not_locked[256]; /* why, "" if it is locked or was not asked to be */
	uint64_t stalls, stalled_ns, longest_stall_ns;
	struct list charges;  /* what each uid holds, only if per_uid */
	struct waitq chilled; /* for the threads that fault: there are cold chunks */
	struct waitq settled; /* chunks are no longer `faulting` */
	struct worker faulters[CACHE_FAULTERS_MAX];
	unsigned nr_faulters; /* const after create */
};

/*
 * Takes the address space, locks it, and starts the threads that fault it in. All chunks can be
 * used at once. Returns 0 or -errno with @e filled.
 */
int cache_create(struct cache **out, const struct cache_limits *limits, struct error *e);
void cache_destroy(struct cache *c);

/*
 * The most that a cache may be here: the host's memory, or less where a cgroup says so.
 * *@limit_path (owned by the caller) is the file that says it.
 */
uint64_t cache_memory_limit(char **limit_path);
#define CACHE_MEMORY_OF_HOST "/proc/meminfo"

/* What of the host's memory is free, or could be made so. UINT64_MAX: not known. */
uint64_t cache_memory_available(void);

/* What host_cache_size is when it is not given: 1/8 of that, at most 16 GiB. */
size_t cache_default_size(void);

/* --- all of these: with the cache's lock held --- */

struct chunk *cache_find(struct cache *c, const struct content *content, uint64_t index);

/*
 * A free chunk for @uid, if need be after waiting for its turn (the lock is dropped meanwhile).
 * Returns 0, -EINTR (the call was given up), -ETIMEDOUT (stall_timeout_s passed).
 */
int cache_claim(struct cache *c, uid_t uid, struct chunk **out);

/* The same, but NULL instead of waiting, or of taking what others may want in a moment. */
struct chunk *cache_claim_spare(struct cache *c, uid_t uid);

/*
 * Takes up to @nr chunks for memory that is lent to a program instead: what they had of the host's
 * is given back to it. Cold chunks come first, then clean ones if need be; waits for no room.
 * Returns how many; each is charged to @uid until cache_unlend, which leaves them cold. Both are
 * called without the lock: the host takes its time.
 */
unsigned cache_lend(struct cache *c, uid_t uid, struct chunk **chunks, unsigned nr);
void cache_unlend(struct cache *c, struct chunk **chunks, unsigned nr);

/* Makes a claimed chunk that of (@content, @index): empty, partial. */
void cache_bind(struct cache *c, struct chunk *ck, struct content *content, uint64_t index);

/* Moves a bound chunk between the states; @who: the function that asks for it. */
void cache_set_state_by(struct cache *c, struct chunk *ck, enum chunk_state state, const char *who);
#define cache_set_state(c, ck, state) cache_set_state_by(c, ck, state, __func__)

/* A claimed or bound chunk that nobody uses goes back, to the next in the queue if there is one. */
void cache_give_back(struct cache *c, struct chunk *ck);

/* Gives clean chunks to those who wait. After chunks became clean, or unused. */
void cache_serve_waiting(struct cache *c);

static inline char *chunk_data(const struct cache *c, const struct chunk *ck)
{
	return c->memory + (size_t)(ck - c->chunks) * c->chunk_size;
}

/* Are writers waiting for room, so that also partial chunks must go? */
static inline bool cache_pressed(const struct cache *c)
{
	return !list_empty(&c->waiting);
}

/*
 * Takes the lock itself. Bytes: {size, chunk_size, free, untouched (a part of free: cold), faulted
 * (the rest), dirty, flying, clean, lent, waiting, ...}.
 */
json_t *cache_to_json(struct cache *c);

#endif
