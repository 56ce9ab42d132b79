/* SPDX-License-Identifier: MIT */
#include "client/plan.h"

#include <stdlib.h>
#include <string.h>

#include "client/dtype.h"
#include "client/header.h"
#include "client/json.h"
#include "client/session.h"

int ckpt_plan_check_text(struct ckptfs_session *s, const char *path, const char *what)
{
	if (!what || !ckpt_utf8(what, strlen(what)))
		return ckpt_error(s, -EINVAL, "%s: names, keys and values are texts in UTF-8",
				  path);
	return 0;
}

/* A tensor without dimensions is a scalar or a row. */
static int lay_row(const struct ckptfs_tensor_info *i, unsigned bits, struct ckpt_layout *l)
{
	if (i->bytes > UINT64_MAX / 8 || i->bytes * 8 % bits)
		return -EINVAL;
	if (i->bytes * 8 == bits)
		return 0;
	l->ndim = 1;
	l->shape[0] = l->global_shape[0] = i->bytes * 8 / bits;
	return 0;
}

static int lay_part(const struct ckptfs_tensor_info *i, unsigned bits, struct ckpt_layout *l)
{
	uint64_t bytes, end;

	l->ndim = i->ndim;
	for (unsigned d = 0; d < i->ndim; d++) {
		l->shape[d] = i->shard_shape[d];
		l->global_shape[d] = i->global_shape[d];
		l->shard_offset[d] = i->shard_offset[d];
		if (__builtin_add_overflow(l->shard_offset[d], l->shape[d], &end) ||
		    end > l->global_shape[d])
			return -ERANGE;
		l->part |= l->shape[d] != l->global_shape[d];
	}
	return ckpt_dtype_bytes(bits, l->shape, l->ndim, &bytes) || bytes != i->bytes ? -EINVAL : 0;
}

int ckpt_layout_init(struct ckpt_layout *l, struct ckptfs_session *s, const char *path,
		     const struct ckptfs_tensor_info *i)
{
	unsigned bits;
	int err = ckpt_plan_check_text(s, path, i->name);

	if (err)
		return err;
	*l = (struct ckpt_layout){.info = i, .dtype = i->dtype ? i->dtype : "U8"};
	bits = ckpt_dtype_bits(l->dtype);
	if (!bits)
		return ckpt_error(s, -EINVAL,
				  "%s: %s: safetensors knows no type '%s'; U8 takes any bytes",
				  path, i->name, l->dtype);
	if (i->ndim > 8 || !strcmp(i->name, CKPT_HEADER_METADATA))
		return ckpt_error(s, -EINVAL,
				  "%s: %s: has %u dimensions, of which 8 are the most, or a name "
				  "that safetensors uses itself",
				  path, i->name, i->ndim);
	err = i->ndim ? lay_part(i, bits, l) : lay_row(i, bits, l);
	if (err == -ERANGE)
		return ckpt_error(
			s, -EINVAL,
			"%s: %s: shard_offset and shard_shape are no part of global_shape", path,
			i->name);
	if (err)
		return ckpt_error(
			s, -EINVAL,
			"%s: %s: %llu bytes are no %s of the shape that it is said to have", path,
			i->name, (unsigned long long)i->bytes, l->dtype);
	l->align = i->bytes & -i->bytes;
	if (!l->align || l->align > CKPT_PLAN_PAGE)
		l->align = CKPT_PLAN_PAGE;
	return 0;
}

/* The most aligned first: then the sizes of all before a tensor are multiples of its alignment. */
static int by_alignment(const void *a, const void *b)
{
	const struct ckpt_layout *x = a, *y = b;

	if (x->align != y->align)
		return x->align > y->align ? -1 : 1;
	return strcmp(x->info->name, y->info->name);
}

void ckpt_layouts_sort(struct ckpt_layout *all, size_t n)
{
	qsort(all, n, sizeof(*all), by_alignment);
}
