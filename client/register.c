/* SPDX-License-Identifier: MIT */
/* Tensors are registered and unregistered: checked here, and told to the daemon in batches. */
#include <stdlib.h>
#include <string.h>

#include "client/cuda_driver.h"
#include "client/session.h"

static int check(struct ckptfs_session *s, const struct ckptfs_tensor_info *i)
{
	size_t name_len = i->name ? strlen(i->name) : 0;

	if (!i->id || !name_len)
		return ckpt_error(s, -EINVAL, "a tensor needs an id other than 0, and a name");
	if (name_len > CKPTFS_TENSORS_BYTES - sizeof(struct ckptfs_tensor))
		return ckpt_error(s, -ENAMETOOLONG, "the name of tensor %llu has %zu bytes",
				  (unsigned long long)i->id, name_len);
	if (i->ndim > 8)
		return ckpt_error(s, -EINVAL, "%s: has %u dimensions; 8 is the most", i->name,
				  i->ndim);
	if (i->dtype && (!*i->dtype || strlen(i->dtype) > 15))
		return ckpt_error(s, -EINVAL, "%s: '%s' is no dtype", i->name, i->dtype);
	if ((unsigned)i->kind > CKPTFS_OBJECT || (unsigned)i->memory > CKPTFS_CUDA_MANAGED)
		return ckpt_error(s, -EINVAL, "%s: is of no kind that there is", i->name);
	if (ckpt_session_device(s, i->memory)->ops == &ckpt_device_cuda && !cuda_driver())
		return ckpt_error(s, -EOPNOTSUPP,
				  "%s: lies on a device that libckptfs cannot use here: %s",
				  i->name, cuda_driver_missing());
	return 0;
}

static bool same(const struct ckpt_tensor *a, const struct ckpt_tensor *b)
{
	const struct ckptfs_tensor_info *x = &a->info, *y = &b->info;

	return x->kind == y->kind && x->memory == y->memory && x->ndim == y->ndim &&
	       x->bytes == y->bytes && !x->eager == !y->eager && !strcmp(x->name, y->name) &&
	       !strcmp(x->dtype, y->dtype) &&
	       !memcmp(x->global_shape, y->global_shape, sizeof(x->global_shape)) &&
	       !memcmp(x->shard_offset, y->shard_offset, sizeof(x->shard_offset)) &&
	       !memcmp(x->shard_shape, y->shard_shape, sizeof(x->shard_shape));
}

static void describe(const struct ckpt_tensor *t, struct ckptfs_tensor *to)
{
	const struct ckptfs_tensor_info *i = &t->info;

	*to = (struct ckptfs_tensor){.id = i->id,
				     .bytes = i->bytes,
				     .ndim = i->ndim,
				     .kind = i->kind,
				     .memory = i->memory,
				     .name_len = strlen(t->name)};
	memcpy(to->global_shape, i->global_shape, sizeof(to->global_shape));
	memcpy(to->shard_offset, i->shard_offset, sizeof(to->shard_offset));
	memcpy(to->shard_shape, i->shard_shape, sizeof(to->shard_shape));
	memcpy(to->dtype, t->dtype, sizeof(to->dtype));
}

/* Fills in as many of @t as one ioctl takes, and returns their number. */
static size_t fill(struct ckptfs_register *r, struct ckpt_tensor *const *t, size_t n)
{
	size_t nr = 0, bytes = 0, at;

	while (nr < n) {
		size_t more = sizeof(struct ckptfs_tensor) + strlen(t[nr]->name);

		if (bytes + more > sizeof(r->data))
			break;
		bytes += more;
		nr++;
	}
	at = nr * sizeof(struct ckptfs_tensor);
	for (size_t i = 0; i < nr; i++) {
		struct ckptfs_tensor one;

		describe(t[i], &one);
		memcpy(r->data + i * sizeof(one), &one, sizeof(one));
		memcpy(r->data + at, t[i]->name, one.name_len);
		at += one.name_len;
	}
	r->nr = nr;
	r->bytes = bytes;
	return nr;
}

static int tell_gone(struct ckptfs_session *s, struct ckpt_tensor *const *t, size_t n)
{
	struct ckptfs_unregister u = {.session = s->id};
	int err = 0;

	for (size_t i = 0; i < n && !err; i += u.nr) {
		u.nr = n - i < CKPTFS_IDS_MAX ? n - i : CKPTFS_IDS_MAX;
		for (size_t j = 0; j < u.nr; j++)
			u.ids[j] = t[i + j]->info.id;
		err = ckpt_session_ioctl(s->ctl, CKPTFS_IOC_UNREGISTER, &u);
	}
	return err;
}

static int tell_new(struct ckptfs_session *s, struct ckpt_tensor *const *t, size_t n)
{
	struct ckptfs_register r = {.session = s->id};

	for (size_t told = 0; told < n;) {
		size_t nr = fill(&r, t + told, n - told);
		int err = ckpt_session_ioctl(s->ctl, CKPTFS_IOC_REGISTER, &r);

		if (err) {
			tell_gone(s, t, told);
			return ckpt_error(
				s, err,
				"%s: the daemon does not take it, or one of the %zu behind it: %s",
				t[told]->name, nr - 1, strerror(-err));
		}
		told += nr;
	}
	return 0;
}

/*
 * Puts them into the table, so that an id that comes twice in this call is seen. *nr: the new ones.
 */
static int take_locked(struct ckptfs_session *s, const struct ckptfs_tensor_info *infos, size_t n,
		       struct ckpt_tensor **new, size_t *nr)
{
	for (size_t i = 0; i < n; i++) {
		struct ckpt_tensor *t = ckpt_tensor_create(&infos[i]), *old;
		int err;

		if (!t)
			return -ENOMEM;
		old = ckpt_tensors_find_locked(&s->tensors, t->info.id);
		if (old) {
			bool unchanged = same(old, t);

			free(t);
			if (unchanged)
				continue;
			return ckpt_error(
				s, -EEXIST, "%s: id %llu is that of %s, or had another layout",
				infos[i].name, (unsigned long long)infos[i].id, old->name);
		}
		if (s->tensors.nr >= CKPTFS_TENSORS_MAX) {
			free(t);
			return ckpt_error(s, -ENOSPC, "%s: %d tensors are registered already",
					  infos[i].name, CKPTFS_TENSORS_MAX);
		}
		err = ckpt_tensors_insert_locked(&s->tensors, t);
		if (err) {
			free(t);
			return err;
		}
		new[(*nr)++] = t;
	}
	return 0;
}

int ckptfs_register(struct ckptfs_session *s, const struct ckptfs_tensor_info *infos, size_t n)
{
	struct ckpt_tensor **new;
	int err = ckpt_session_enter(s);
	size_t nr = 0;

	for (size_t i = 0; i < n && !err; i++)
		err = check(s, &infos[i]);
	if (err || !n)
		return err;
	new = calloc(n, sizeof(struct ckpt_tensor *));
	if (!new)
		return -ENOMEM;
	pthread_mutex_lock(&s->tensors_order);
	pthread_mutex_lock(&s->lock);
	err = take_locked(s, infos, n, new, &nr);
	ckpt_session_touch_locked(s, s->tensors.bytes);
	pthread_mutex_unlock(&s->lock);
	if (!err)
		err = tell_new(s, new, nr);
	if (err) {
		pthread_mutex_lock(&s->lock);
		for (size_t i = 0; i < nr; i++)
			ckpt_tensors_remove_locked(&s->tensors, new[i]);
		pthread_mutex_unlock(&s->lock);
	}
	pthread_mutex_unlock(&s->tensors_order);
	free(new);
	return err;
}

/* --- unregistering --- */

/* Marks them, so that an id that comes twice in one call is seen. */
static int mark_leaving_locked(struct ckptfs_session *s, const uint64_t *ids, size_t n,
			       struct ckpt_tensor **gone)
{
	for (size_t i = 0; i < n; i++) {
		gone[i] = ckpt_tensors_find_locked(&s->tensors, ids[i]);
		if (gone[i] && !gone[i]->leaving) {
			gone[i]->leaving = 1;
			continue;
		}
		while (i-- > 0)
			gone[i]->leaving = 0;
		return -EBADF;
	}
	return 0;
}

int ckptfs_unregister(struct ckptfs_session *s, const uint64_t *ids, size_t n)
{
	struct ckpt_tensor **gone;
	int err = ckpt_session_enter(s);

	if (err || !n)
		return err;
	gone = calloc(n, sizeof(struct ckpt_tensor *));
	if (!gone)
		return -ENOMEM;
	pthread_mutex_lock(&s->tensors_order);
	pthread_mutex_lock(&s->lock);
	err = mark_leaving_locked(s, ids, n, gone);
	pthread_mutex_unlock(&s->lock);
	if (err) {
		ckpt_error(s, err, "one of the ids is of no tensor that is registered");
	} else {
		err = tell_gone(s, gone, n);
		pthread_mutex_lock(&s->lock);
		for (size_t i = 0; i < n; i++) {
			gone[i]->leaving = 0;
			if (!err)
				ckpt_tensors_remove_locked(&s->tensors, gone[i]);
		}
		pthread_mutex_unlock(&s->lock);
		if (err)
			ckpt_error(s, err, "the daemon does not unregister: %s", strerror(-err));
	}
	pthread_mutex_unlock(&s->tensors_order);
	free(gone);
	return err;
}
