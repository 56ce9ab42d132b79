/* SPDX-License-Identifier: MIT */
/*
 * Tensors that a session has registered. What programs send is checked here. The lock of the
 * session is held. A tensor outlives its registration while a capture refers to it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/capture/session.h"
#include "engine/tensors/types.h"

/* Programs use small numbers, or addresses, as ids. */
static uint64_t hash_id(uint64_t id)
{
	return id * 0x9E3779B97F4A7C15ull;
}

struct tensor *tensor_find_locked(struct session *s, uint64_t id)
{
	struct list *l;

	table_for_each (l, &s->tensors, hash_id(id)) {
		struct tensor *t = container_of(l, struct tensor, node.link);

		if (t->layout.id == id)
			return t;
	}
	return NULL;
}

/* True if @text is of printable characters without spaces and ends within @size. */
static bool is_word(const char *text, size_t size)
{
	size_t i;

	for (i = 0; i < size && text[i] > ' ' && text[i] < 0x7f; i++)
		;
	return i < size && !text[i];
}

/* True if the shard lies in its tensor. */
static bool is_shard(const struct ckptfs_tensor *t)
{
	unsigned i;

	for (i = 0; i < t->ndim; i++)
		if (t->global_shape[i] > INT64_MAX || t->shard_shape[i] > t->global_shape[i] ||
		    t->shard_offset[i] > t->global_shape[i] - t->shard_shape[i])
			return false;
	return true;
}

/* True if the shard has as many bytes as its elements take, or if their type is unknown. */
static bool has_its_size(const struct ckptfs_tensor *t)
{
	const char *type = type_of_safetensors(t->dtype, strlen(t->dtype));
	uint64_t nr = 1, bytes;

	for (unsigned i = 0; i < t->ndim; i++)
		if (__builtin_mul_overflow(nr, t->shard_shape[i], &nr))
			return false;
	return !t->ndim || !type || (type_bytes(type, nr, &bytes) && bytes == t->bytes);
}

static bool is_valid(const struct ckptfs_tensor *t)
{
	return t->id && t->ndim <= 8 && is_shard(t) && is_word(t->dtype, sizeof(t->dtype)) &&
	       has_its_size(t) && t->kind <= CKPTFS_OBJECT && t->memory <= CKPTFS_CUDA_MANAGED &&
	       !t->flags && !t->reserved && t->name_len && t->name_len <= CKPTFS_NAME_MAX &&
	       t->bytes <= INT64_MAX;
}

static bool same_tensor(const struct tensor *a, const struct tensor *b)
{
	return !memcmp(&a->layout, &b->layout, sizeof(a->layout)) && !strcmp(a->name, b->name);
}

/* *@out: the new tensor; NULL if the same one is registered already. */
static int register_one_locked(struct session *s, const struct ckptfs_register *r, unsigned i,
			       size_t at, struct tensor **out)
{
	struct ckptfs_tensor layout;
	struct tensor *t, *old;
	int err;

	memcpy(&layout, r->data + i * sizeof(layout), sizeof(layout));
	if (!is_valid(&layout) || layout.name_len > r->bytes - at ||
	    memchr(r->data + at, 0, layout.name_len))
		return -EINVAL;
	t = tensor_make(&layout, (const char *)r->data + at);
	if (!t)
		return -ENOMEM;
	old = tensor_find_locked(s, layout.id);
	if (!old && s->tensors.nr < CKPTFS_TENSORS_MAX) {
		table_add(&s->tensors, &t->node, hash_id(layout.id));
		*out = t;
		return 0;
	}
	err = !old ? -ENOSPC : same_tensor(old, t) ? 0 : -EEXIST;
	free(t);
	return err;
}

int captures_register(struct captures *cs, uid_t uid, const struct ckptfs_register *r)
{
	struct tensor *made[CKPTFS_TENSORS_BYTES / sizeof(struct ckptfs_tensor)] = {NULL};
	size_t at = r->nr * sizeof(struct ckptfs_tensor);
	unsigned i;
	int err = 0;
	SESSION_SCOPE(s, cs, uid, r->session);

	if (r->nr > ARRAY_SIZE(made) || r->bytes > sizeof(r->data) || r->bytes < at)
		return -EINVAL;
	for (i = 0; i < r->nr && !err; i++) {
		err = register_one_locked(s, r, i, at, &made[i]);
		if (!err)
			at += ((const struct ckptfs_tensor *)(const void *)r->data)[i].name_len;
	}
	if (!err && at != r->bytes)
		err = -EINVAL;
	for (i = 0; err && i < r->nr; i++) {
		if (!made[i])
			continue;
		table_del(&s->tensors, &made[i]->node);
		tensor_put(made[i]);
	}
	return err;
}

int captures_unregister(struct captures *cs, uid_t uid, const struct ckptfs_unregister *u)
{
	unsigned i;
	SESSION_SCOPE(s, cs, uid, u->session);

	if (u->nr > CKPTFS_IDS_MAX || u->reserved)
		return -EINVAL;
	for (i = 0; i < u->nr; i++)
		if (!tensor_find_locked(s, u->ids[i]))
			return -EBADF;
	for (i = 0; i < u->nr; i++) {
		struct tensor *t = tensor_find_locked(s, u->ids[i]);

		if (!t)
			continue; /* named twice */
		table_del(&s->tensors, &t->node);
		tensor_put(t);
	}
	return 0;
}
