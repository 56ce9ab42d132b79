/* SPDX-License-Identifier: MIT */
/*
 * Bytes out of the cache, on top of the backing's; reads wait for promised bytes. No thread holds
 * the lock of the cache across a copy. Bytes read from the backing are not cached.
 */
#include <string.h>

#include "engine/content/content_inside.h"

/*
 * Reads the beginning of a stretch in one chunk. Returns the number of bytes, or -errno; never 0.
 */
static ssize_t read_part(struct content *ct, int fd, char *buf, uint64_t off, size_t len)
{
	struct backing b = content_backing(ct);
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
		memcpy(buf, ck->memory + a, n);
		LOCK_SCOPE(&c->lock);
		content_unuse_locked(ct, ck);
		return (ssize_t)n;
	}
	got = backing_read(&b, fd, buf, n, (off_t)off);
	if (got < 0)
		return got;
	memset(buf + got, 0, n - (size_t)got); /* a hole at the end of the backing's file */
	/* Or bytes that were cached at the start, and that an error has dropped since. */
	return ct->staged && content_error(ct) ? content_error(ct) : (ssize_t)n;
}

ssize_t content_read(struct content *ct, int fd, void *buf, size_t len, uint64_t off)
{
	size_t chunk = ct->all->cache->chunk_size, done = 0;
	uint64_t size;
	{
		LOCK_SCOPE(&ct->all->cache->lock);
		int err = content_await_promised_locked(ct, off, len);

		if (err)
			return err; /* some of the bytes are lost */
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
		content_unuse_locked(p->content, p->chunks[--p->nr]);
}

size_t content_pin(struct content *ct, size_t len, uint64_t off, struct content_pins *p)
{
	struct cache *c = ct->all->cache;
	size_t done = 0;
	LOCK_SCOPE(&c->lock);

	*p = (struct content_pins){.content = ct};
	if ((ct->error && ct->staged) || off >= ct->size ||
	    content_is_promised_locked(ct, off, len))
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
		p->bytes[p->nr] = (struct iovec){ck->memory + a, n};
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

uint64_t content_cached_bytes(const struct list *chunks)
{
	uint64_t sum = 0;
	struct list *l;

	list_for_each (l, chunks) {
		const struct chunk *ck = container_of(l, struct chunk, mine);

		sum += ck->hi - ck->lo;
	}
	return sum;
}

bool content_serves_reads(struct content *ct)
{
	uint64_t cached;
	LOCK_SCOPE(&ct->all->cache->lock);

	if (!list_empty(&ct->dirty) || !list_empty(&ct->promises))
		return true;
	cached = content_cached_bytes(&ct->clean);
	return cached && cached >= ct->size;
}

bool content_covers(struct content *ct, uint64_t off, size_t len)
{
	struct cache *c = ct->all->cache;
	uint64_t i;
	LOCK_SCOPE(&c->lock);

	if (content_is_promised_locked(ct, off, len))
		return true;
	if (list_empty(&ct->dirty) && list_empty(&ct->clean))
		return false;
	for (i = off / c->chunk_size; i * c->chunk_size < off + len; i++)
		if (cache_find(c, ct, i))
			return true;
	return false;
}
