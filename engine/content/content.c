/* SPDX-License-Identifier: MIT */
#include "engine/content/content.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/content/content_inside.h"

static size_t bucket_of(const struct contents *all, const struct inode_id *id)
{
	return (hash_inode(id) >> 20) % all->nr_buckets;
}

int contents_create(struct contents **out, struct cache *cache, struct backing *backing,
		    const struct content_events *events)
{
	struct contents *all = calloc(1, sizeof(*all));

	*out = all;
	if (!all)
		return -ENOMEM;
	all->cache = cache;
	all->backing = backing;
	all->events = *events;
	list_init(&all->parked);
	list_init(&all->digesting);
	all->nr_buckets = cache->nr_chunks < 1024 ? 1024 : cache->nr_chunks;
	all->hash = calloc(all->nr_buckets, sizeof(*all->hash));
	if (all->hash)
		return 0;
	free(all);
	*out = NULL;
	return -ENOMEM;
}

/*
 * Takes @ct out of the table if it has no reference and no chunk. The caller then frees it without
 * the lock. Returns NULL otherwise.
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

/*
 * Returns a new reference, or NULL. Skips a staged content that has failed: if its file has got its
 * name nevertheless, the backing has its bytes.
 */
static struct content *find_locked(struct contents *all, const struct inode_id *id)
{
	struct content *ct = all->hash[bucket_of(all, id)];

	while (ct && (!same_inode(&ct->id, id) || (ct->staged && ct->error)))
		ct = ct->next_in_hash;
	if (ct && ct->orphan && !ct->refs)
		return NULL; /* its bytes are dropped */
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

/* Makes a content that the table does not have yet. */
static struct content *content_make(struct contents *all, int fd, const struct inode_id *id,
				    uint64_t size, const struct caller *owner, bool staged)
{
	struct backing b = backing_for(all->backing, owner);
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
		if (feature(b.features, FEATURE_ODIRECT))
			ct->direct_fd = backing_reopen(&b, fd, O_RDWR | O_DIRECT);
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

	/*
	 * The ordinary content is empty now. The staged one comes before it in the bucket and hides
	 * it.
	 */
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
		content_free(ct); /* another thread was faster */
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
				content_empty_list_locked(ct, &ct->dirty);
				content_empty_list_locked(ct, &ct->clean);
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

void content_orphan(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	ct->orphan = true;
}
