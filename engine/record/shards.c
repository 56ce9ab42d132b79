/* SPDX-License-Identifier: MIT */
#include "engine/record/shards.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"

#define FIRST_ROOM 64

static int add(struct shards *s, const struct tensor_place *place, const char *path)
{
	if (s->nr == s->room) {
		size_t room = s->room ? 2 * s->room : FIRST_ROOM;
		struct shard *more = realloc(s->list, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		s->list = more;
		s->room = room;
	}
	tensor_get(place->tensor);
	s->list[s->nr++] = (struct shard){.place = *place, .path = path};
	return 0;
}

int shards_add(struct shards *s, const struct tensor_map *m, const char *path)
{
	int err = 0;
	size_t i;

	for (i = 0; i < m->nr && !err; i++)
		err = add(s, &m->list[i], path);
	return err;
}

void shards_free(struct shards *s)
{
	while (s->nr)
		tensor_put(s->list[--s->nr].place.tensor);
	free(s->list);
	*s = (struct shards){0};
}

/* --- to and from the commit file --- */

struct commit_tensor shard_line(const struct shard *s)
{
	static const enum commit_tensor_kind kinds[] = {[CKPTFS_STORAGE] = COMMIT_STORAGE,
							[CKPTFS_TENSOR] = COMMIT_TENSOR,
							[CKPTFS_OBJECT] = COMMIT_OBJECT};
	const struct ckptfs_tensor *l = &s->place.tensor->layout;

	return (struct commit_tensor){
		.name = s->place.tensor->name,
		.path = s->path,
		.dtype = l->dtype,
		.kind = kinds[l->kind],
		.ndim = l->ndim,
		.shape = (const uint64_t *)l->global_shape,
		.offset = (const uint64_t *)l->shard_offset,
		.length = (const uint64_t *)l->shard_shape,
		.from = s->place.from,
		.bytes = s->place.bytes,
		.at = s->place.at,
		.xxh3 = *s->place.xxh3 ? s->place.xxh3 : NULL,
	};
}

struct tensor_place shard_place(const struct commit_tensor *t)
{
	struct tensor_place p = {.at = t->at, .from = t->from, .bytes = t->bytes};

	snprintf(p.xxh3, sizeof(p.xxh3), "%s", t->xxh3 ? t->xxh3 : "");
	return p;
}

static int in_order(const void *a, const void *b)
{
	struct commit_tensor x = shard_line(a), y = shard_line(b);

	return commit_tensor_compare(&x, &y);
}

int shards_write(struct shards *s, struct commit_writer *w)
{
	int err = 0;
	size_t i;

	if (s->nr)
		qsort(s->list, s->nr, sizeof(*s->list), in_order);
	for (i = 0; i < s->nr && !err; i++) {
		struct commit_tensor t = shard_line(&s->list[i]);

		err = commit_writer_add_tensor(w, &t);
	}
	return err;
}

struct tensor *shard_tensor(const struct commit_tensor *t)
{
	static const enum ckptfs_kind kinds[] = {[COMMIT_STORAGE] = CKPTFS_STORAGE,
						 [COMMIT_TENSOR] = CKPTFS_TENSOR,
						 [COMMIT_OBJECT] = CKPTFS_OBJECT};
	struct ckptfs_tensor l = {
		.ndim = t->ndim, .kind = kinds[t->kind], .name_len = (__u32)strlen(t->name)};
	unsigned i;

	strncpy(l.dtype, t->dtype, sizeof(l.dtype) - 1);
	for (i = 0; i < t->ndim; i++) {
		l.global_shape[i] = t->shape[i];
		l.shard_offset[i] = t->offset[i];
		l.shard_shape[i] = t->length[i];
	}
	return tensor_make(&l, t->name);
}

/* --- what unchanged files had --- */

struct inheriting {
	struct shards *shards;
	const struct commit_entry *entries;
	size_t nr;
	bool *same; /* for each entry */
	struct backing *b;
	int fd;
};

static int by_path(const void *key, const void *entry)
{
	return strcmp(key, ((const struct commit_entry *)entry)->path);
}

/* The index of the entry of @path, or @in->nr. */
static size_t find(const struct inheriting *in, const char *path)
{
	const struct commit_entry *e =
		in->nr ? bsearch(path, in->entries, in->nr, sizeof(*e), by_path) : NULL;

	return e ? (size_t)(e - in->entries) : in->nr;
}

static int note_same(void *inheriting, const struct commit_entry *old)
{
	struct inheriting *in = inheriting;
	size_t i = find(in, old->path);

	if (i < in->nr && old->kind == COMMIT_IS_FILE && in->entries[i].kind == COMMIT_IS_FILE)
		in->same[i] = !strcmp(in->entries[i].xxh3, old->xxh3);
	return 0;
}

static int take_over(void *inheriting, const struct commit_tensor *t)
{
	struct inheriting *in = inheriting;
	struct tensor_place place = shard_place(t);
	size_t i = find(in, t->path);
	int err;

	if (i == in->nr || !in->same[i])
		return 0;
	place.tensor = shard_tensor(t);
	err = place.tensor ? add(in->shards, &place, in->entries[i].path) : -ENOMEM;
	tensor_put(place.tensor);
	return err;
}

static ssize_t read_old(void *inheriting, void *buf, size_t len, uint64_t off)
{
	struct inheriting *in = inheriting;

	return backing_read(in->b, in->fd, buf, len, (off_t)off);
}

int shards_inherit(struct shards *s, struct backing *b, int unit,
		   const struct commit_entry *entries, size_t nr)
{
	__cleanup_fd int pin = backing_pin(b, unit, COMMIT_FILE);
	__cleanup_fd int fd = pin < 0 ? pin : backing_reopen(b, pin, O_RDONLY | O_NONBLOCK);
	struct inheriting in = {.shards = s, .entries = entries, .nr = nr, .b = b, .fd = fd};
	struct source src = {.read = read_old, .arg = &in};
	__cleanup_free bool *same = in.same = calloc(nr + 1, sizeof(bool));
	size_t own = s->nr, i;
	struct error e;
	int err;

	if (!same)
		return -ENOMEM;
	if (fd < 0)
		return 0;
	err = commit_read(&src, COMMIT_FILE, NULL, note_same, &in, &e);
	for (i = 0; i < own; i++)
		same[find(&in, s->list[i].path)] = false;
	if (!err)
		err = commit_read_tensors(&src, COMMIT_FILE, take_over, &in, &e);
	return err == -ENOMEM ? err : 0;
}
