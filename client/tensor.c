/* SPDX-License-Identifier: MIT */
#include "client/tensor.h"

#include <stdlib.h>
#include <string.h>

#include "client/session.h"

#define SLOTS_FIRST 256 /* a power of 2 */

static size_t slot_of(const struct ckpt_tensors *ts, uint64_t id)
{
	/* Ids are often addresses: the high bits of a product spread them. */
	return (id * 0x9e3779b97f4a7c15ull >> 32) & (ts->nr_slots - 1);
}

struct ckpt_tensor *ckpt_tensors_find_locked(const struct ckpt_tensors *ts, uint64_t id)
{
	struct ckpt_tensor *t = ts->nr_slots ? ts->slots[slot_of(ts, id)] : NULL;

	while (t && t->info.id != id)
		t = t->next;
	return t;
}

static int grow_locked(struct ckpt_tensors *ts)
{
	struct ckpt_tensors old = *ts;

	if (ts->nr < ts->nr_slots)
		return 0;
	ts->nr_slots = old.nr_slots ? old.nr_slots * 2 : SLOTS_FIRST;
	ts->slots = calloc(ts->nr_slots, sizeof(struct ckpt_tensor *));
	if (!ts->slots) {
		*ts = old;
		return -ENOMEM;
	}
	for (size_t i = 0; i < old.nr_slots; i++)
		for (struct ckpt_tensor *t = old.slots[i], *next; t; t = next) {
			struct ckpt_tensor **slot = &ts->slots[slot_of(ts, t->info.id)];

			next = t->next;
			t->next = *slot;
			*slot = t;
		}
	free(old.slots);
	return 0;
}

int ckpt_tensors_insert_locked(struct ckpt_tensors *ts, struct ckpt_tensor *t)
{
	int err = grow_locked(ts);

	if (err)
		return err;
	t->next = ts->slots[slot_of(ts, t->info.id)];
	ts->slots[slot_of(ts, t->info.id)] = t;
	ts->nr++;
	ts->bytes += t->info.bytes;
	return 0;
}

void ckpt_tensors_remove_locked(struct ckpt_tensors *ts, struct ckpt_tensor *t)
{
	struct ckpt_tensor **at = &ts->slots[slot_of(ts, t->info.id)];

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	ts->nr--;
	ts->bytes -= t->info.bytes;
	ckpt_tensor_put_locked(t);
}

void ckpt_tensor_put_locked(struct ckpt_tensor *t)
{
	if (--t->refs == 0)
		free(t);
}

struct ckpt_tensor *ckpt_tensor_get(struct ckptfs_session *s, uint64_t id)
{
	struct ckpt_tensor *t;

	pthread_mutex_lock(&s->lock);
	t = ckpt_tensors_find_locked(&s->tensors, id);
	if (t)
		t->refs++;
	pthread_mutex_unlock(&s->lock);
	return t;
}

void ckpt_tensors_free(struct ckpt_tensors *ts)
{
	for (size_t i = 0; i < ts->nr_slots; i++)
		while (ts->slots[i])
			ckpt_tensors_remove_locked(ts, ts->slots[i]);
	free(ts->slots);
}

struct ckpt_tensor *ckpt_tensor_create(const struct ckptfs_tensor_info *i)
{
	size_t size = strlen(i->name) + 1;
	struct ckpt_tensor *t = calloc(1, sizeof(*t) + size);

	if (!t)
		return NULL;
	t->refs = 1;
	t->info = *i;
	for (unsigned d = i->ndim; d < 8; d++)
		t->info.global_shape[d] = t->info.shard_offset[d] = t->info.shard_shape[d] = 0;
	memcpy(t->name, i->name, size);
	strcpy(t->dtype, i->dtype ? i->dtype : "U8");
	t->info.name = t->name;
	t->info.dtype = t->dtype;
	return t;
}
