/* SPDX-License-Identifier: MIT */
#include "engine/content/content.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/wait.h"
#include "engine/content/copy.h"

#define DIRECT_ALIGN 4096u

/* --- the table --- */

uint64_t hash_inode(const struct inode_id *id)
{
	return (id->ino ^ (uint64_t)id->dev << 40) * 0x9E3779B97F4A7C15ull;
}

static size_t bucket_of(const struct contents *all, const struct inode_id *id)
{
	return (hash_inode(id) >> 20) % all->nr_buckets;
}

int contents_create(struct contents **out, struct cache *cache, struct backing *backing)
{
	struct contents *all = calloc(1, sizeof(*all));

	*out = all;
	if (!all)
		return -ENOMEM;
	all->cache = cache;
	all->backing = backing;
	list_init(&all->parked);
	all->nr_buckets = cache->nr_chunks < 1024 ? 1024 : cache->nr_chunks;
	all->hash = calloc(all->nr_buckets, sizeof(*all->hash));
	if (all->hash)
		return 0;
	free(all);
	*out = NULL;
	return -ENOMEM;
}

/*
 * Takes @ct out of the table if nobody refers to it and the cache holds nothing of it: then the
 * caller frees it, without the lock. Else NULL.
 */
static struct content *detach_if_unused_locked(struct content *ct)
{
	struct contents *all = ct->all;
	struct content **p;

	if (ct->refs || ct->nr_submitted || !list_empty(&ct->dirty) || !list_empty(&ct->clean))
		return NULL;
	for (p = &all->hash[bucket_of(all, &ct->id)]; *p != ct;)
		p = &(*p)->next_in_hash;
	*p = ct->next_in_hash;
	list_del(&ct->parked);
	all->nr--;
	return ct;
}

static void content_free(struct content *ct)
{
	if (!ct)
		return;
	if (ct->fd >= 0)
		close(ct->fd);
	if (ct->direct_fd >= 0)
		close(ct->direct_fd);
	places_free(&ct->tensors);
	digest_destroy(ct->digest);
	free(ct);
}

/* @ck, of which nothing is wanted any more, goes back unless somebody still uses it. */
static void drop_if_unused_locked(struct content *ct, struct chunk *ck)
{
	if (!ck->users && ck->state != CHUNK_FLYING && ck->lo == ck->hi)
		cache_give_back(ct->all->cache, ck);
}

/* Forgets the bytes in @ck. */
static void empty_chunk_locked(struct content *ct, struct chunk *ck)
{
	ck->lo = ck->hi = ck->dirty_lo = ck->dirty_hi = 0;
	drop_if_unused_locked(ct, ck);
}

static void empty_list_locked(struct content *ct, struct list *list)
{
	struct list *l, *tmp;

	list_for_each_safe (l, tmp, list)
		empty_chunk_locked(ct, container_of(l, struct chunk, mine));
}

/* The end of a copy into or out of @ck. */
static void unuse_locked(struct content *ct, struct chunk *ck)
{
	ck->users--;
	drop_if_unused_locked(ct, ck);
	if (!ck->writers)
		waitq_wake_all(&ct->settled);
	if (ck->users)
		return;
	if (ck->state == CHUNK_READY)
		waitq_wake(&ct->all->cache->work);
	if (cache_pressed(ct->all->cache))
		cache_serve_waiting(ct->all->cache);
}

void contents_destroy(struct contents *all)
{
	size_t i;

	if (!all)
		return;
	for (i = 0; i < all->nr_buckets; i++) {
		while (all->hash[i]) {
			struct content *ct = all->hash[i];

			all->hash[i] = ct->next_in_hash;
			content_free(ct);
		}
	}
	free(all->hash);
	free(all);
}

void contents_end(struct contents *all)
{
	struct content *ct;
	size_t i;
	LOCK_SCOPE(&all->cache->lock);

	all->ending = true;
	for (i = 0; i < all->nr_buckets; i++)
		for (ct = all->hash[i]; ct; ct = ct->next_in_hash)
			waitq_wake_all(&ct->settled);
}

static bool same_id(const struct inode_id *a, const struct inode_id *b)
{
	return a->ino == b->ino && a->dev == b->dev && a->btime_ns == b->btime_ns;
}

/* Referenced, or NULL. */
static struct content *find_locked(struct contents *all, const struct inode_id *id)
{
	struct content *ct = all->hash[bucket_of(all, id)];

	while (ct && !same_id(&ct->id, id))
		ct = ct->next_in_hash;
	if (ct && ct->orphan && !ct->refs)
		return NULL; /* its bytes are gone */
	if (ct && ct->refs++ == 0)
		list_del(&ct->parked);
	return ct;
}

static void insert_locked(struct contents *all, struct content *ct)
{
	struct content **bucket = &all->hash[bucket_of(all, &ct->id)];

	ct->next_in_hash = *bucket;
	*bucket = ct;
	all->nr++;
}

/* Not yet to be found. */
static struct content *content_make(struct contents *all, int fd, const struct inode_id *id,
				    uint64_t size, const struct caller *owner, bool staged)
{
	struct content *ct = calloc(1, sizeof(*ct));

	if (!ct) {
		close(fd);
		return NULL;
	}
	ct->all = all;
	ct->id = *id;
	ct->owner = *owner;
	ct->staged = staged;
	ct->fd = fd;
	ct->direct_fd = -1;
	ct->size = ct->backing_end = size;
	ct->refs = 1;
	list_init(&ct->dirty);
	list_init(&ct->clean);
	list_init(&ct->promises);
	list_init(&ct->parked);
	waitq_init(&ct->settled, &all->cache->lock);
	if (staged) {
		ct->digest = digest_create();
		if (feature(&all->backing->features, FEATURE_ODIRECT))
			ct->direct_fd = backing_reopen(all->backing, fd, O_RDWR | O_DIRECT);
	}
	return ct;
}

struct content *content_create(struct contents *all, int fd, const struct inode_id *id,
			       uint64_t size, const struct caller *owner, bool staged)
{
	struct content *ct = content_make(all, fd, id, size, owner, staged);

	if (!ct)
		return NULL;
	LOCK_SCOPE(&all->cache->lock);
	insert_locked(all, ct);
	return ct;
}

struct content *content_stage_in_place(struct contents *all, int fd, const struct inode_id *id,
				       uint64_t size, const struct caller *owner)
{
	struct content *ct = content_find(all, id), *other;
	int err = ct && !ct->staged ? content_settle(ct) : 0;

	/* An ordinary one, with nothing in it any more, is no longer found: ours comes before it. */
	if (!ct || !ct->staged) {
		content_put(ct);
		if (err) {
			close(fd);
			return NULL;
		}
		ct = content_make(all, fd, id, size, owner, true);
		if (!ct)
			return NULL;
		lock_take(&all->cache->lock);
		other = find_locked(all, id);
		if (other && !other->staged && --other->refs == 0)
			list_append(&all->parked, &other->parked);
		if (!other || !other->staged)
			insert_locked(all, ct);
		lock_drop(&all->cache->lock);
		if (!other || !other->staged)
			return ct;
		content_free(ct); /* somebody else was quicker */
		ct = other;
	} else {
		close(fd);
	}
	LOCK_SCOPE(&all->cache->lock);
	ct->published = false;
	return ct;
}

bool contents_any(struct contents *all)
{
	LOCK_SCOPE(&all->cache->lock);
	return all->nr;
}

struct content *content_find(struct contents *all, const struct inode_id *id)
{
	LOCK_SCOPE(&all->cache->lock);
	return find_locked(all, id);
}

void content_get(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	ct->refs++;
}

void content_put(struct content *ct)
{
	struct content *unused = NULL;

	if (!ct)
		return;
	{
		LOCK_SCOPE(&ct->all->cache->lock);
		if (--ct->refs == 0) {
			if (ct->orphan) {
				empty_list_locked(ct, &ct->dirty);
				empty_list_locked(ct, &ct->clean);
			}
			unused = detach_if_unused_locked(ct);
			if (!unused)
				list_append(&ct->all->parked, &ct->parked);
		}
	}
	content_free(unused);
}

void contents_sweep(struct contents *all)
{
	struct content *unused;

	do {
		struct list *l, *tmp;

		unused = NULL;
		{
			LOCK_SCOPE(&all->cache->lock);
			list_for_each_safe (l, tmp, &all->parked) {
				unused = detach_if_unused_locked(
					container_of(l, struct content, parked));
				if (unused)
					break;
			}
		}
		content_free(unused);
	} while (unused);
}

/* --- waiting --- */

/* Waits for a landing. -EINTR: the call was given up, or all ends. -ETIMEDOUT. */
static int wait_until_landing_locked(struct content *ct, uint64_t deadline_ns)
{
	return ct->all->ending ? -EINTR : wait_on(&ct->settled, deadline_ns);
}

static int wait_for_landing(struct content *ct)
{
	return wait_until_landing_locked(ct, CLOCK_NEVER);
}

/* Is any of these bytes still to come? */
static bool is_promised_locked(const struct content *ct, uint64_t off, uint64_t len)
{
	const struct list *l = ct->promises.prev;

	for (; l != &ct->promises; l = l->prev) {
		const struct promise *p = container_of(l, const struct promise, link);

		if (p->off + p->len <= off)
			break; /* and so do those before it */
		if (p->off < off || p->off - off < len)
			return true;
	}
	return false;
}

/* They are in the order of the file, in which they mostly come, and no two overlap. */
static void add_promise_locked(struct content *ct, struct promise *p)
{
	struct list *at = ct->promises.prev;

	while (at != &ct->promises && container_of(at, struct promise, link)->off > p->off)
		at = at->prev;
	list_push(at, &p->link);
}

/* Drops the lock while waiting. 0, -EINTR, or the error by which they will not come. */
static int await_promised_locked(struct content *ct, uint64_t off, uint64_t len)
{
	int err = 0;

	while (!err && !ct->error && is_promised_locked(ct, off, len))
		err = wait_for_landing(ct);
	return err ? err : ct->staged ? ct->error : 0;
}

/* --- writing --- */

static bool is_dirty(const struct chunk *ck)
{
	return ck->dirty_lo < ck->dirty_hi;
}

/* A chunk that turns dirty goes behind those that did before. */
static void turn_dirty_locked(struct content *ct, struct chunk *ck)
{
	struct cache *c = ct->all->cache;

	ck->turned = ++c->turns;
	ck->since_ns = clock_mono_ns();
	list_del(&ck->mine);
	list_append(&ct->dirty, &ck->mine);
	if (ck->state == CHUNK_CLEAN)
		cache_set_state(c, ck, CHUNK_PARTIAL);
}

/* Has @ck flushed as soon as it can be. */
static void make_ready_locked(struct cache *c, struct chunk *ck)
{
	if (ck->state == CHUNK_PARTIAL)
		cache_set_state(c, ck, CHUNK_READY);
}

/*
 * Drops the lock while waiting. The chunk of @index, new or old, that nobody flushes. *made: it was
 * made by this call and is empty.
 */
static int chunk_for_writing_locked(struct content *ct, uint64_t index, struct chunk **out)
{
	struct cache *c = ct->all->cache;
	uint64_t limit = c->limits.stall_timeout_s * NSEC_PER_SEC, start = clock_mono_ns();
	struct chunk *spare = NULL;
	int err = 0;

	for (;;) {
		struct chunk *ck = ct->error ? NULL : cache_find(c, ct, index);

		if (ct->error)
			err = ct->error;
		if (!err && !ck && spare) {
			ck = take_ptr(spare);
			cache_bind(c, ck, ct, index);
			turn_dirty_locked(ct, ck);
		}
		/* One at a time: pages of a mapping come several at once. */
		if (ck && ck->state != CHUNK_FLYING && !ck->writers) {
			*out = ck;
			break;
		}
		if (err)
			break;
		err = ck ? wait_until_landing_locked(ct, start + limit)
			 : cache_claim(c, ct->owner.uid, &spare);
	}
	if (spare)
		cache_give_back(c, spare);
	return err;
}

/* Reads [@off, @off + @len) of the backing into @to, zeros where it has none. Without locks. */
static int fill(struct content *ct, char *to, size_t len, uint64_t off, uint64_t backing_end)
{
	ssize_t n = 0;

	if (off < backing_end)
		n = backing_read(ct->all->backing, ct->fd, to, len, (off_t)off);
	if (n < 0)
		return (int)n;
	memset(to + n, 0, len - (size_t)n);
	return 0;
}

/*
 * Drops the lock meanwhile. Makes the present bytes of @ck reach up to [a, b): what lies between
 * comes from the backing. The bytes of an ordinary file between are somebody else's: there the
 * chunk is flushed first (-EAGAIN: look again).
 */
static int close_gap_locked(struct content *ct, struct chunk *ck, uint32_t a, uint32_t b)
{
	struct cache *c = ct->all->cache;
	uint64_t base = ck->index * c->chunk_size, backing_end = ct->backing_end;
	uint32_t from, to;
	int err;

	if (ck->lo == ck->hi || (a <= ck->hi && b >= ck->lo))
		return 0;
	if (!ct->staged) {
		make_ready_locked(c, ck);
		err = wait_for_landing(ct);
		return err ? err : -EAGAIN;
	}
	from = a > ck->hi ? ck->hi : b;
	to = a > ck->hi ? a : ck->lo;
	ck->users++;
	ck->writers++;
	lock_drop(&c->lock);
	err = fill(ct, chunk_data(c, ck) + from, to - from, base + from, backing_end);
	lock_take(&c->lock);
	ck->writers--;
	if (!err && ct->error)
		err = ct->error;
	if (err) {
		unuse_locked(ct, ck);
		return err;
	}
	if (ck->lo == ck->hi) { /* emptied meanwhile */
		unuse_locked(ct, ck);
		return -EAGAIN;
	}
	ck->users--;
	ck->lo = from < ck->lo ? from : ck->lo;
	ck->hi = to > ck->hi ? to : ck->hi;
	return 0;
}

/* [a, b) was copied into @ck. */
static void note_written_locked(struct content *ct, struct chunk *ck, uint32_t a, uint32_t b)
{
	struct cache *c = ct->all->cache;
	uint64_t end = ck->index * c->chunk_size + b;

	if (ck->lo == ck->hi) {
		ck->lo = a;
		ck->hi = b;
	}
	ck->lo = a < ck->lo ? a : ck->lo;
	ck->hi = b > ck->hi ? b : ck->hi;
	if (!is_dirty(ck)) {
		if (ck->state == CHUNK_CLEAN)
			turn_dirty_locked(ct, ck);
		ck->dirty_lo = a;
		ck->dirty_hi = b;
	}
	ck->dirty_lo = a < ck->dirty_lo ? a : ck->dirty_lo;
	ck->dirty_hi = b > ck->dirty_hi ? b : ck->dirty_hi;
	if (end > ct->size)
		ct->size = end;
	/* Written to its end: no more is likely to come. */
	if (ck->dirty_hi == c->chunk_size || cache_pressed(c))
		make_ready_locked(c, ck);
}

static int write_part(struct content *ct, const char *buf, uint64_t index, uint32_t a, uint32_t b)
{
	struct cache *c = ct->all->cache;
	struct chunk *ck = NULL;
	int err;
	LOCK_SCOPE(&c->lock);

	do {
		err = chunk_for_writing_locked(ct, index, &ck);
		if (!err)
			err = close_gap_locked(ct, ck, a, b);
	} while (err == -EAGAIN);
	if (err)
		return err;
	ck->users++;
	ck->writers++;
	lock_drop(&c->lock);
	copy_into_cache(chunk_data(c, ck) + a, buf, b - a);
	lock_take(&c->lock);
	ck->writers--;
	if (!ct->error)
		note_written_locked(ct, ck, a, b);
	unuse_locked(ct, ck);
	return ct->error;
}

int content_begin_write(struct content *ct)
{
	int err = 0;
	LOCK_SCOPE(&ct->all->cache->lock);

	while (ct->cutting && !err)
		err = wait_for_landing(ct);
	ct->nr_writing += !err;
	return err;
}

void content_end_write(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);

	if (--ct->nr_writing == 0)
		waitq_wake_all(&ct->settled);
}

ssize_t content_keep(struct content *ct, const void *buf, size_t len, uint64_t off)
{
	size_t chunk = ct->all->cache->chunk_size, done = 0;
	int err = content_begin_write(ct);

	if (err)
		return err;
	while (done < len && !err) {
		uint64_t at = off + done;
		uint32_t a = (uint32_t)(at % chunk);
		size_t n = chunk - a < len - done ? chunk - a : len - done;

		err = write_part(ct, (const char *)buf + done, at / chunk, a, a + (uint32_t)n);
		if (!err)
			done += n;
	}
	{
		LOCK_SCOPE(&ct->all->cache->lock);
		ct->all->cache->absorbed += done;
	}
	content_end_write(ct);
	if (err == -ETIMEDOUT && ct->staged)
		content_fail(ct, err); /* the cache is better used for others */
	return done ? (ssize_t)done : err;
}

ssize_t content_write(struct content *ct, const void *buf, size_t len, uint64_t off)
{
	ssize_t n;
	{
		LOCK_SCOPE(&ct->all->cache->lock);
		n = list_empty(&ct->promises) ? 0 : await_promised_locked(ct, off, len);
	}
	if (!n)
		n = content_keep(ct, buf, len, off);
	if (n > 0) {
		LOCK_SCOPE(&ct->all->cache->lock);
		ct->written_ns = clock_wall_ns();
		places_cut(&ct->tensors, off, (uint64_t)n);
	}
	return n;
}

int content_promise(struct content *ct, struct promise *p)
{
	int err = 0;
	LOCK_SCOPE(&ct->all->cache->lock);

	while (!err && ct->cutting)
		err = wait_for_landing(ct);
	if (!err)
		err = await_promised_locked(ct, p->off, p->len);
	if (err)
		return err;
	add_promise_locked(ct, p);
	ct->by_handle = true;
	return 0;
}

bool content_by_handle(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);

	return ct->by_handle;
}

void content_promised(struct content *ct, const struct promise *p, const struct tensor_place *at)
{
	LOCK_SCOPE(&ct->all->cache->lock);

	if (at)
		places_add(&ct->tensors, at);
	else
		places_cut(&ct->tensors, p->off, p->len);
	if (p->off + p->len > ct->size)
		ct->size = p->off + p->len;
	ct->written_ns = clock_wall_ns();
}

struct tensor_map *content_tensors(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	return places_map(&ct->tensors);
}

void content_set_tensors(struct content *ct, const struct tensor_map *m)
{
	LOCK_SCOPE(&ct->all->cache->lock);

	if (!ct->by_handle && m) /* else it knows better */
		places_set(&ct->tensors, m);
	ct->by_handle = true;
}

void content_kept(struct content *ct, struct promise *p)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	list_del(&p->link);
	waitq_wake_all(&ct->settled);
}

uint64_t content_promised_bytes(struct content *ct)
{
	uint64_t sum = 0;
	struct list *l;
	LOCK_SCOPE(&ct->all->cache->lock);

	list_for_each (l, &ct->promises)
		sum += container_of(l, struct promise, link)->len;
	return sum;
}

int content_await(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	int err = await_promised_locked(ct, 0, UINT64_MAX);

	return err ? err : ct->error;
}

/* --- landing --- */

static bool is_bound(const struct content_landing *l, unsigned piece)
{
	return l->chunks[piece]->content;
}

static void leave_locked(struct content_landing *l)
{
	while (l->nr) {
		struct chunk *ck = l->chunks[--l->nr];

		if (is_bound(l, l->nr)) {
			ck->writers--;
			unuse_locked(l->content, ck);
		} else {
			cache_give_back(l->content->all->cache, ck);
		}
	}
}

bool content_land(struct content *ct, uint64_t off, size_t len, struct content_landing *l)
{
	struct cache *c = ct->all->cache;
	size_t done = 0;
	LOCK_SCOPE(&c->lock);

	*l = (struct content_landing){.content = ct, .off = off};
	while (done < len && l->nr < LANDING_PIECES) {
		uint32_t a = (uint32_t)((off + done) % c->chunk_size);
		size_t n = c->chunk_size - a < len - done ? c->chunk_size - a : len - done;
		struct chunk *ck = cache_find(c, ct, (off + done) / c->chunk_size);

		if (ck && (l->nr || ck->state != CHUNK_PARTIAL || ck->writers || ck->hi != a))
			break;
		if (ck) {
			ck->users++;
			ck->writers++;
		} else {
			ck = a ? NULL : cache_claim_spare(c, ct->owner.uid);
		}
		if (!ck)
			break;
		l->chunks[l->nr] = ck;
		l->bytes[l->nr++] = (struct iovec){chunk_data(c, ck) + a, n};
		done += n;
	}
	if (done == len && !ct->error && !ct->published && list_empty(&ct->promises))
		return true;
	leave_locked(l);
	l->content = NULL;
	return false;
}

void content_copy_landed(const struct content_landing *l, void *buf, size_t len)
{
	size_t done = 0;
	unsigned i;

	for (i = 0; i < l->nr && done < len; i++) {
		size_t n = l->bytes[i].iov_len < len - done ? l->bytes[i].iov_len : len - done;

		memcpy((char *)buf + done, l->bytes[i].iov_base, n);
		done += n;
	}
}

/* Is each piece still for where it was to be? */
static bool still_fits_locked(const struct content_landing *l)
{
	struct content *ct = l->content;
	struct cache *c = ct->all->cache;
	uint64_t off = l->off;
	unsigned i;

	for (i = 0; i < l->nr; i++) {
		struct chunk *ck = l->chunks[i];

		if (is_bound(l, i) ? ck->lo == ck->hi || ck->hi != off % c->chunk_size
				   : cache_find(c, ct, off / c->chunk_size) != NULL)
			return false;
		off += l->bytes[i].iov_len;
	}
	return !ct->error && !ct->cutting && list_empty(&ct->promises);
}

bool content_take_landed(struct content_landing *l, size_t len)
{
	struct content *ct = l->content;
	struct cache *c = ct->all->cache;
	size_t done = 0;
	unsigned i;
	LOCK_SCOPE(&c->lock);

	if (!still_fits_locked(l))
		return false;
	for (i = 0; i < l->nr && done < len; i++) {
		uint32_t a = (uint32_t)((l->off + done) % c->chunk_size);
		size_t n = l->bytes[i].iov_len < len - done ? l->bytes[i].iov_len : len - done;
		struct chunk *ck = l->chunks[i];

		if (!is_bound(l, i)) {
			cache_bind(c, ck, ct, (l->off + done) / c->chunk_size);
			turn_dirty_locked(ct, ck);
			ck->users++;
			ck->writers++;
		}
		note_written_locked(ct, ck, a, a + (uint32_t)n);
		done += n;
	}
	ct->written_ns = clock_wall_ns();
	places_cut(&ct->tensors, l->off, done);
	c->absorbed += done;
	leave_locked(l);
	return true;
}

void content_leave(struct content_landing *l)
{
	struct content *ct = l->content;

	if (!ct)
		return;
	{
		LOCK_SCOPE(&ct->all->cache->lock);
		leave_locked(l);
	}
	l->content = NULL;
	content_put(ct);
}

/* --- reading --- */

/* Reads the beginning of a stretch that lies in one chunk. Returns how much, 1 or more, or -errno. */
static ssize_t read_part(struct content *ct, int fd, char *buf, uint64_t off, size_t len)
{
	struct cache *c = ct->all->cache;
	uint64_t index = off / c->chunk_size;
	uint32_t a = (uint32_t)(off % c->chunk_size);
	struct chunk *ck;
	size_t n = len;
	ssize_t got;
	{
		LOCK_SCOPE(&c->lock);
		ck = cache_find(c, ct, index);
		if (ck && a >= ck->lo && a < ck->hi) {
			n = ck->hi - a < len ? ck->hi - a : len;
			ck->users++;
		} else {
			if (ck && a < ck->lo && ck->lo < ck->hi && ck->lo - a < len)
				n = ck->lo - a;
			ck = NULL;
		}
	}
	if (ck) {
		memcpy(buf, chunk_data(c, ck) + a, n);
		LOCK_SCOPE(&c->lock);
		unuse_locked(ct, ck);
		return (ssize_t)n;
	}
	got = backing_read(ct->all->backing, fd, buf, n, (off_t)off);
	if (got < 0)
		return got;
	memset(buf + got, 0, n - (size_t)got); /* a hole that the backing does not reach */
	/* Or what was cached when this began, and has gone with an error. */
	return ct->staged && content_error(ct) ? content_error(ct) : (ssize_t)n;
}

ssize_t content_read(struct content *ct, int fd, void *buf, size_t len, uint64_t off)
{
	size_t chunk = ct->all->cache->chunk_size, done = 0;
	uint64_t size;
	{
		LOCK_SCOPE(&ct->all->cache->lock);
		int err = await_promised_locked(ct, off, len);

		if (err)
			return err; /* some of it is lost */
		size = ct->size;
	}
	if (off >= size)
		return 0;
	if (len > size - off)
		len = size - off;
	while (done < len) {
		uint64_t at = off + done;
		size_t n = chunk - at % chunk < len - done ? chunk - at % chunk : len - done;
		ssize_t r = read_part(ct, fd, (char *)buf + done, at, n);

		if (r < 0)
			return done ? (ssize_t)done : r;
		done += (size_t)r;
	}
	return (ssize_t)done;
}

static void unpin_locked(struct content_pins *p)
{
	while (p->nr)
		unuse_locked(p->content, p->chunks[--p->nr]);
}

size_t content_pin(struct content *ct, size_t len, uint64_t off, struct content_pins *p)
{
	struct cache *c = ct->all->cache;
	size_t done = 0;
	LOCK_SCOPE(&c->lock);

	*p = (struct content_pins){.content = ct};
	if ((ct->error && ct->staged) || off >= ct->size || is_promised_locked(ct, off, len))
		return 0;
	if (len > ct->size - off)
		len = ct->size - off;
	while (done < len) {
		uint64_t at = off + done;
		struct chunk *ck = cache_find(c, ct, at / c->chunk_size);
		uint32_t a = (uint32_t)(at % c->chunk_size);
		size_t n = c->chunk_size - a < len - done ? c->chunk_size - a : len - done;

		if (!ck || p->nr == CONTENT_PINS || a < ck->lo || a + n > ck->hi) {
			unpin_locked(p);
			return 0;
		}
		p->bytes[p->nr] = (struct iovec){chunk_data(c, ck) + a, n};
		p->chunks[p->nr++] = ck;
		ck->users++;
		done += n;
	}
	return done;
}

void content_unpin(struct content_pins *p)
{
	LOCK_SCOPE(&p->content->all->cache->lock);
	unpin_locked(p);
}

ssize_t content_source_read(void *content, void *buf, size_t len, uint64_t off)
{
	struct content *ct = content;

	return content_read(ct, ct->fd, buf, len, off);
}

/* --- as one with the backing --- */

/* Where @ck is to be cut for a file of @size bytes. */
static uint32_t cut_of(const struct content *ct, const struct chunk *ck, uint64_t size)
{
	size_t chunk = ct->all->cache->chunk_size;
	uint64_t base = ck->index * chunk;

	return size <= base ? 0 : size - base < chunk ? (uint32_t)(size - base) : UINT32_MAX;
}

/* Cuts what is cached of @ck, which does not fly, at @size. */
static void trim_chunk_locked(struct content *ct, struct chunk *ck, uint64_t size)
{
	struct cache *c = ct->all->cache;
	uint32_t cut = cut_of(ct, ck, size);

	if (ck->hi <= cut)
		return;
	if (ck->lo >= cut) {
		empty_chunk_locked(ct, ck);
		return;
	}
	ck->hi = cut;
	if (ck->dirty_hi > cut)
		ck->dirty_hi = cut;
	if (ck->state != CHUNK_CLEAN && !is_dirty(ck)) {
		ck->dirty_lo = ck->dirty_hi = 0;
		list_del(&ck->mine);
		list_append(&ct->clean, &ck->mine);
		cache_set_state(c, ck, CHUNK_CLEAN);
	}
}

/* Does anything fly that is to be cut? */
static bool cuts_flying_locked(const struct content *ct, uint64_t size)
{
	struct list *l;

	list_for_each (l, &ct->dirty) {
		const struct chunk *ck = container_of(l, struct chunk, mine);

		if (ck->state == CHUNK_FLYING && ck->hi > cut_of(ct, ck, size))
			return true;
	}
	return false;
}

static void trim_list(struct content *ct, struct list *list, uint64_t size)
{
	struct list *l, *tmp;

	list_for_each_safe (l, tmp, list)
		trim_chunk_locked(ct, container_of(l, struct chunk, mine), size);
}

/* Drops the lock while waiting. Keeps other writers away; all or nothing is cut. */
static int begin_cut_locked(struct content *ct, uint64_t size)
{
	int err = 0;

	ct->cutting = true;
	while (!err && (ct->nr_writing || cuts_flying_locked(ct, size)))
		err = wait_for_landing(ct);
	return err || !ct->staged ? err : ct->error;
}

static void end_cut_locked(struct content *ct)
{
	ct->cutting = false;
	waitq_wake_all(&ct->settled);
}

static int cut_on_backing(struct content *ct, uint64_t size)
{
	int err = backing_ftruncate(ct->all->backing, ct->fd, (off_t)size);

	if (!err && ct->digest)
		digest_spoil(ct->digest, size, UINT64_MAX - size);
	return err;
}

int content_truncate(struct content *ct, uint64_t size)
{
	struct cache *c = ct->all->cache;
	int err;
	LOCK_SCOPE(&c->lock);

	/* What was promised comes before it, as that was said before. */
	while (ct->cutting || (!ct->error && !list_empty(&ct->promises)))
		if (wait_for_landing(ct))
			return -EINTR;
	err = begin_cut_locked(ct, size);
	if (!err) {
		trim_list(ct, &ct->clean, size);
		trim_list(ct, &ct->dirty, size);
		waitq_wake_all(&ct->settled); /* what was cut off is waited for in vain */
		lock_drop(&c->lock);
		err = cut_on_backing(ct, size);
		lock_take(&c->lock);
	}
	if (!err) {
		ct->size = size;
		places_cut(&ct->tensors, size, UINT64_MAX - size);
		if (ct->backing_end > size)
			ct->backing_end = size;
		ct->written_ns = clock_wall_ns();
	}
	end_cut_locked(ct);
	return err;
}

int content_show_size(struct content *ct)
{
	struct backing *b = ct->all->backing;
	struct cache *c = ct->all->cache;
	struct statx stx;
	uint64_t size;
	int err = 0;
	LOCK_SCOPE(&c->lock);

	while (ct->cutting)
		if (wait_for_landing(ct))
			return -EINTR;
	/* Meanwhile nobody makes it longer, whose bytes that might cut off. */
	err = begin_cut_locked(ct, UINT64_MAX);
	size = ct->size;
	if (!err) {
		lock_drop(&c->lock);
		err = backing_stat(b, ct->fd, &stx);
		if (!err && stx.stx_size < size)
			err = backing_ftruncate(b, ct->fd, (off_t)size);
		lock_take(&c->lock);
	}
	end_cut_locked(ct);
	return err;
}

void content_error_told(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	if (!ct->staged && list_empty(&ct->dirty))
		ct->error = 0;
}

/* Is anything left that turned dirty up to @turn? They are in that order. */
static bool dirty_since_locked(const struct content *ct, uint64_t turn)
{
	return !list_empty(&ct->dirty) &&
	       container_of(ct->dirty.next, struct chunk, mine)->turned <= turn;
}

/* Has what turned dirty up to @turn flushed. */
static void hurry_locked(struct content *ct, uint64_t turn)
{
	struct list *l;

	list_for_each (l, &ct->dirty) {
		struct chunk *ck = container_of(l, struct chunk, mine);

		if (ck->turned > turn)
			break;
		make_ready_locked(ct->all->cache, ck);
	}
}

static uint64_t cached_bytes(const struct list *chunks)
{
	uint64_t sum = 0;
	struct list *l;

	list_for_each (l, chunks) {
		const struct chunk *ck = container_of(l, struct chunk, mine);

		sum += ck->hi - ck->lo;
	}
	return sum;
}

/* Makes all of the file, which must be cached, dirty again. */
static int redo_locked(struct content *ct)
{
	struct list *l, *tmp;

	if (cached_bytes(&ct->clean) + cached_bytes(&ct->dirty) < ct->size)
		return -EIO;
	list_for_each_safe (l, tmp, &ct->clean) {
		struct chunk *ck = container_of(l, struct chunk, mine);

		if (ck->lo == ck->hi)
			continue;
		turn_dirty_locked(ct, ck);
		ck->dirty_lo = ck->lo;
		ck->dirty_hi = ck->hi;
	}
	ct->unsynced = false;
	return 0;
}

int content_write_back(struct content *ct)
{
	int err = 0;
	{
		LOCK_SCOPE(&ct->all->cache->lock);
		uint64_t turn;

		err = await_promised_locked(ct, 0, UINT64_MAX);
		if (!err && ct->unsynced && !ct->error)
			err = redo_locked(ct);
		turn = ct->all->cache->turns;
		if (!err && !ct->error)
			hurry_locked(ct, turn);
		while (!err && !ct->error && dirty_since_locked(ct, turn))
			err = wait_for_landing(ct);
		if (ct->error)
			return ct->error;
	}
	if (err && err != -EINTR)
		content_fail(ct, err);
	return err;
}

void content_hurry(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	hurry_locked(ct, ct->all->cache->turns);
}

bool content_rests(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	return list_empty(&ct->dirty) && list_empty(&ct->promises) && !ct->nr_writing;
}

int content_sync(struct content *ct)
{
	int err = content_write_back(ct);

	if (err)
		return err;
	err = backing_sync(ct->all->backing, ct->fd, false);
	if (err) {
		LOCK_SCOPE(&ct->all->cache->lock);
		ct->unsynced = true;
	}
	return err;
}

int content_settle(struct content *ct)
{
	int err = content_write_back(ct);
	LOCK_SCOPE(&ct->all->cache->lock);

	empty_list_locked(ct, &ct->clean);
	return err;
}

void content_wrote(struct content *ct, uint64_t off, uint64_t len)
{
	if (ct->digest)
		digest_spoil(ct->digest, off, len);
	LOCK_SCOPE(&ct->all->cache->lock);
	places_cut(&ct->tensors, off, len);
	ct->written_ns = clock_wall_ns();
	if (off + len > ct->size)
		ct->size = off + len;
	if (off + len > ct->backing_end)
		ct->backing_end = off + len;
}

void content_reload(struct content *ct, uint64_t off, uint64_t len)
{
	struct statx stx;
	int err = backing_stat(ct->all->backing, ct->fd, &stx);

	if (ct->digest)
		digest_spoil(ct->digest, off, len);
	LOCK_SCOPE(&ct->all->cache->lock);
	places_cut(&ct->tensors, off, len);
	ct->written_ns = clock_wall_ns();
	if (!err)
		ct->size = ct->backing_end = stx.stx_size;
}

void content_discard(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	empty_list_locked(ct, &ct->dirty);
	empty_list_locked(ct, &ct->clean);
	waitq_wake_all(&ct->settled);
}

void content_orphan(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	ct->orphan = true;
}

void content_forget(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	empty_list_locked(ct, &ct->clean);
}

int content_error(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	return ct->error;
}

void content_fail(struct content *ct, int err)
{
	bool first;
	{
		LOCK_SCOPE(&ct->all->cache->lock);
		first = !ct->error;
		if (first)
			ct->error = err;
		empty_list_locked(ct, &ct->dirty);
		if (ct->staged)
			empty_list_locked(ct, &ct->clean);
		waitq_wake_all(&ct->settled);
	}
	if (first && ct->all->failed)
		ct->all->failed(ct->all->arg, &ct->id, err);
}

static struct statx_timestamp timestamp(uint64_t ns)
{
	return (struct statx_timestamp){.tv_sec = (int64_t)(ns / NSEC_PER_SEC),
					.tv_nsec = (uint32_t)(ns % NSEC_PER_SEC)};
}

static uint64_t dirty_bytes_locked(const struct content *ct)
{
	uint64_t sum = 0;
	struct list *l;

	list_for_each (l, &ct->dirty) {
		const struct chunk *ck = container_of(l, struct chunk, mine);

		sum += ck->dirty_hi - ck->dirty_lo;
	}
	return sum;
}

/* False: the backing knows all, and better. */
static bool overlay_locked(const struct content *ct, struct statx *stx)
{
	if ((!ct->staged || ct->published) && list_empty(&ct->dirty))
		return false;
	if ((ct->staged && !ct->published) || ct->size > stx->stx_size)
		stx->stx_size = ct->size;
	if (ct->written_ns) {
		stx->stx_mtime = timestamp(ct->written_ns);
		if (ct->written_ns >
		    (uint64_t)stx->stx_ctime.tv_sec * NSEC_PER_SEC + stx->stx_ctime.tv_nsec)
			stx->stx_ctime = stx->stx_mtime;
	}
	stx->stx_blocks += (dirty_bytes_locked(ct) + 511) / 512;
	return true;
}

void content_overlay(struct content *ct, struct statx *stx)
{
	struct statx fresh;
	{
		LOCK_SCOPE(&ct->all->cache->lock);
		if (overlay_locked(ct, stx))
			return;
	}
	/* Flushed by now; but @stx may have been asked for before that. */
	if (!backing_stat(ct->all->backing, ct->fd, &fresh))
		*stx = fresh;
}

bool content_serves_reads(struct content *ct)
{
	uint64_t cached;
	LOCK_SCOPE(&ct->all->cache->lock);

	if (!list_empty(&ct->dirty) || !list_empty(&ct->promises))
		return true;
	cached = cached_bytes(&ct->clean);
	return cached && cached >= ct->size;
}

static uint64_t stamp_ns(struct statx_timestamp t)
{
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + t.tv_nsec;
}

void content_published(struct content *ct, const struct statx *stx)
{
	int fd;
	{
		LOCK_SCOPE(&ct->all->cache->lock);
		ct->published = true;
		ct->written_ns = stamp_ns(stx->stx_mtime);
		ct->ctime_ns = stamp_ns(stx->stx_ctime);
		fd = ct->nr_submitted ? -1 : take_fd(&ct->direct_fd); /* little will fly any more */
	}
	if (fd >= 0)
		close(fd);
}

bool content_is_pending(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	return ct->staged && !ct->published;
}

void content_refresh(struct content *ct)
{
	uint64_t size, written_ns, mtime_ns, ctime_ns;
	struct statx stx;
	{
		LOCK_SCOPE(&ct->all->cache->lock);
		if (!ct->published || !list_empty(&ct->dirty))
			return;
		size = ct->size;
		written_ns = ct->written_ns;
		ctime_ns = ct->ctime_ns;
	}
	if (backing_stat(ct->all->backing, ct->fd, &stx)) {
		content_forget(ct); /* whatever this is now */
		return;
	}
	mtime_ns = stamp_ns(stx.stx_mtime);
	if (stx.stx_size == size && mtime_ns == written_ns && stamp_ns(stx.stx_ctime) == ctime_ns)
		return;
	LOCK_SCOPE(&ct->all->cache->lock);
	if (ct->size != size || ct->written_ns != written_ns || !list_empty(&ct->dirty))
		return; /* by ourselves, right now */
	empty_list_locked(ct, &ct->clean);
	ct->size = ct->backing_end = stx.stx_size;
	ct->written_ns = mtime_ns;
	ct->ctime_ns = stamp_ns(stx.stx_ctime);
}

void content_set_mtime(struct content *ct, uint64_t wall_ns)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	ct->written_ns = wall_ns;
}

uint64_t content_size(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	return ct->size;
}

uint64_t content_dirty_bytes(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	return dirty_bytes_locked(ct);
}

bool content_covers(struct content *ct, uint64_t off, size_t len)
{
	struct cache *c = ct->all->cache;
	uint64_t i;
	LOCK_SCOPE(&c->lock);

	if (is_promised_locked(ct, off, len))
		return true;
	if (list_empty(&ct->dirty) && list_empty(&ct->clean))
		return false;
	for (i = off / c->chunk_size; i * c->chunk_size < off + len; i++)
		if (cache_find(c, ct, i))
			return true;
	return false;
}

/* --- flights --- */

/* The oldest of @queue that nobody is writing into. */
static struct chunk *first_due_locked(struct list *queue)
{
	struct list *l;

	list_for_each (l, queue) {
		struct chunk *ck = container_of(l, struct chunk, queue);

		if (!ck->writers && is_dirty(ck))
			return ck;
	}
	return NULL;
}

/*
 * O_DIRECT where whole blocks are at hand; the tail of a file, and odd pieces of one that is
 * written in pieces, go through the page cache.
 */
static void choose_range(const struct cache *c, struct flight *f)
{
	struct content *ct = f->content;
	struct chunk *ck = f->chunk;
	uint32_t lo = ck->dirty_lo & ~(DIRECT_ALIGN - 1);
	uint32_t hi = (ck->dirty_hi + DIRECT_ALIGN - 1) & ~(DIRECT_ALIGN - 1);

	f->direct = ct->direct_fd >= 0 && lo >= ck->lo && hi <= ck->hi;
	if (!f->direct) {
		lo = ck->dirty_lo;
		hi = ck->dirty_hi;
	}
	f->data = chunk_data(c, ck) + lo;
	f->len = hi - lo;
	f->off = ck->index * c->chunk_size + lo;
}

bool content_take_off_locked(struct cache *c, struct flight *f)
{
	struct chunk *ck = first_due_locked(&c->ready);

	if (!ck && cache_pressed(c))
		ck = first_due_locked(&c->partial);
	if (!ck)
		return false;
	*f = (struct flight){.content = ck->content,
			     .chunk = ck,
			     .dirty_lo = ck->dirty_lo,
			     .dirty_hi = ck->dirty_hi};
	ck->content->nr_submitted++;
	cache_set_state(c, ck, CHUNK_FLYING);
	choose_range(c, f);
	return true;
}

void content_digest(struct flight *f)
{
	struct cache *c = f->content->all->cache;
	struct chunk *ck = f->chunk;

	/* Nobody changes the bytes of a chunk that flies; but it may be emptied meanwhile. */
	if (f->content->digest)
		digest_feed(f->content->digest, ck->index * c->chunk_size + f->dirty_lo,
			    chunk_data(c, ck) + f->dirty_lo, f->dirty_hi - f->dirty_lo);
}

void content_landed(struct flight *f, int err)
{
	struct content *ct = f->content;
	struct contents *all = ct->all;
	struct cache *c = all->cache;
	struct chunk *ck = f->chunk;
	bool rests;

	if (err)
		content_fail(ct, err);
	lock_take(&c->lock);
	ct->nr_submitted--;
	if (f->off + f->len > ct->backing_end)
		ct->backing_end = f->off + f->len;
	ck->dirty_lo = ck->dirty_hi = 0;
	list_del(&ck->mine);
	list_append(&ct->clean, &ck->mine);
	cache_set_state(c, ck, CHUNK_CLEAN);
	rests = ct->staged && list_empty(&ct->dirty);
	if (!ct->staged || ct->error || (ct->orphan && !ct->refs))
		empty_chunk_locked(ct, ck);
	waitq_wake_all(&ct->settled);
	if (cache_pressed(c))
		cache_serve_waiting(c);
	lock_drop(&c->lock);
	if (rests && all->rested)
		all->rested(all->arg);
}
