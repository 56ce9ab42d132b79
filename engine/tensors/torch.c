/* SPDX-License-Identifier: MIT */
#include "engine/tensors/torch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"

#define NESTED_MAX 8 /* a parameter of a subclass of a tensor */

static int bad(const char **why, const char *text)
{
	*why = text;
	return -EBADMSG;
}

/* The members have the name of the file before them. Sets tf->prefix. */
static const struct zip_member *find_pickle(struct torch_file *tf)
{
	for (size_t i = 0; i < tf->zip.nr; i++) {
		const struct zip_member *m = &tf->zip.list[i];
		size_t len = strlen(m->name);

		if (!path_ends(m->name, "/data.pkl") || len - 8 >= sizeof(tf->prefix))
			continue;
		memcpy(tf->prefix, m->name, len - 8);
		tf->prefix[len - 8] = '\0';
		return m;
	}
	return NULL;
}

/* Files of hosts whose numbers begin with the high byte say so. */
static int check_order(struct torch_file *tf, const char **why)
{
	char name[sizeof(tf->prefix) + 16], order[8] = "";
	const struct zip_member *m;
	uint64_t at;
	int err;

	snprintf(name, sizeof(name), "%sbyteorder", tf->prefix);
	m = zip_find(&tf->zip, name);
	if (!m || m->size >= sizeof(order))
		return 0;
	err = zip_data(&tf->part, m, &at, why);
	if (!err)
		err = tree_read(&tf->part, order, (size_t)m->size, at);
	if (!err && !strcmp(order, "big"))
		err = bad(why, "its numbers are big-endian");
	return err;
}

int torch_open(struct torch_file *tf, struct tree *t, const struct tree_file *f, uint64_t at,
	       uint64_t size, const char **why)
{
	const struct zip_member *m;
	uint64_t data;
	int err;

	*tf = (struct torch_file){0};
	tree_part(&tf->part, t, f, at, size);
	*why = "it is cut off";
	err = zip_open(&tf->zip, &tf->part, why);
	if (err)
		return err;
	m = find_pickle(tf);
	if (!m || !m->stored)
		err = bad(why, "it is a zip file without the data.pkl of torch.save");
	if (!err)
		err = check_order(tf, why);
	if (!err)
		err = zip_data(&tf->part, m, &data, why);
	if (!err)
		err = tree_load(&tf->part, data, m->size, TORCH_PICKLE_MAX, &tf->data);
	if (err == -EFBIG)
		err = bad(why, "its data.pkl is too large");
	if (!err)
		err = pickle_read(tf->data, (size_t)m->size, &tf->pickle, NULL, why);
	if (err)
		torch_close(tf);
	return err;
}

void torch_close(struct torch_file *tf)
{
	pickle_free(tf->pickle);
	free(tf->data);
	zip_close(&tf->zip);
	tf->pickle = NULL;
	tf->data = NULL;
}

/* --- what stands in the pickle --- */

bool torch_numbers(const struct pickle *p, pickle_ref r, uint64_t *list, unsigned *nr)
{
	size_t n;

	if (pickle_is_global(p, pickle_callee(p, r), "torch", "Size"))
		r = pickle_item(p, pickle_args(p, r), 0);
	if (pickle_kind(p, r) != PICKLE_TUPLE && pickle_kind(p, r) != PICKLE_LIST)
		return false;
	n = pickle_nr(p, r);
	if (n > TYPE_DIMS)
		return false;
	*nr = (unsigned)n;
	for (unsigned i = 0; i < n; i++) {
		int64_t value;

		if (!pickle_int(p, pickle_item(p, r, i), &value) || value < 0)
			return false;
		list[i] = (uint64_t)value;
	}
	return true;
}

const char *torch_dtype(const struct pickle *p, pickle_ref r)
{
	char name[300];

	if (!pickle_is_global(p, r, "torch", NULL))
		return NULL;
	pickle_global(p, r, name, sizeof(name));
	return type_of_torch(name + 6, strlen(name + 6));
}

static const char *storage_dtype(const struct pickle *p, pickle_ref r)
{
	char name[300];

	if (!pickle_is_global(p, r, "torch", NULL))
		return NULL;
	pickle_global(p, r, name, sizeof(name));
	return type_of_storage(name + 6, strlen(name + 6));
}

static bool is_true(const struct pickle *p, pickle_ref r)
{
	int64_t value;

	return pickle_int(p, r, &value) && value;
}

/*
 * Goes from what wraps a tensor to the call that rebuilds it. 0: @r stands for no tensor. Sets
 * *@requires_grad if a parameter wraps it that does.
 */
static pickle_ref unwrap(const struct pickle *p, pickle_ref r, pickle_ref *args,
			 bool *requires_grad)
{
	pickle_ref callee = pickle_callee(p, r);

	*args = pickle_args(p, r);
	for (unsigned i = 0; i < NESTED_MAX; i++) {
		if (pickle_is_global(p, callee, "torch._utils", "_rebuild_parameter") ||
		    pickle_is_global(p, callee, "torch._utils", "_rebuild_parameter_with_state")) {
			*requires_grad |= is_true(p, pickle_item(p, *args, 1));
			r = pickle_item(p, *args, 0);
			callee = pickle_callee(p, r);
			*args = pickle_args(p, r);
		} else if (pickle_is_global(p, callee, "torch._tensor", "_rebuild_from_type_v2")) {
			callee = pickle_item(p, *args, 0);
			*args = pickle_item(p, *args, 2);
		} else {
			return callee;
		}
	}
	return 0;
}

/* The state of a tensor that wraps others. 0: @r is none, or another class of tensor. */
static pickle_ref wrapped_state(const struct pickle *p, pickle_ref r)
{
	pickle_ref callee = pickle_callee(p, r), args = pickle_args(p, r);

	for (unsigned i = 0; i < NESTED_MAX; i++) {
		if (pickle_is_global(p, callee, "torch._tensor", "_rebuild_from_type_v2"))
			return pickle_is_global(p, pickle_item(p, args, 0), "torch._utils",
						"_rebuild_wrapper_subclass")
				       ? pickle_item(p, args, 3)
				       : 0;
		if (!pickle_is_global(p, callee, "torch._utils", "_rebuild_parameter"))
			return 0;
		r = pickle_item(p, args, 0);
		callee = pickle_callee(p, r);
		args = pickle_args(p, r);
	}
	return 0;
}

pickle_ref torch_local_part(const struct torch_file *tf, pickle_ref r, size_t nr)
{
	const struct pickle *p = tf->pickle;
	pickle_ref state = wrapped_state(p, r), local = pickle_get(p, state, "_local_tensor");

	if (!local) /* a class with slots has (None, dict) */
		local = pickle_get(p, pickle_item(p, state, 1), "_local_tensor");
	if (local)
		return nr ? 0 : local;
	/* The state of a ShardedTensor is (shards, metadata, ...). */
	return pickle_attribute(p, pickle_item(p, pickle_item(p, state, 0), nr), "tensor");
}

static bool is_row_major(const struct torch_tensor *t)
{
	uint64_t step = 1;

	for (unsigned i = t->ndim; i-- > 0;) {
		if (t->shape[i] != 1 && t->stride[i] != step)
			return false;
		if (__builtin_mul_overflow(step, t->shape[i], &step))
			return false;
	}
	return true;
}

/* Sets t->at and t->bytes: @id is ("storage", class, key, place, elements). */
static int locate(struct torch_file *tf, struct torch_tensor *t, pickle_ref id, const char **why)
{
	const struct pickle *p = tf->pickle;
	char name[sizeof(tf->prefix) + 80];
	const struct zip_member *m;
	uint64_t nr, data, skip;
	const char *key;
	size_t len;
	int err;

	t->storage = pickle_item(p, id, 2);
	key = pickle_text(p, t->storage, &len);
	if (!pickle_is_text(p, pickle_item(p, id, 0), "storage") || !key || len > 64)
		return bad(why, "its storage has a form that ckptfs does not know");
	snprintf(name, sizeof(name), "%sdata/%.*s", tf->prefix, (int)len, key);
	m = zip_find(&tf->zip, name);
	if (!m || !m->stored)
		return bad(why, m ? "its storage is compressed" : "its storage is missing");
	if (!shape_volume(t->shape, t->ndim, &nr) || !type_bytes(t->dtype, nr, &t->bytes) ||
	    !type_bytes(t->dtype, t->first, &skip))
		return bad(why, "it is too large to be true");
	if (t->bytes && !is_row_major(t))
		return bad(why, "its elements are not in row-major order");
	if (t->bytes && (skip > m->size || t->bytes > m->size - skip))
		return bad(why, "it reaches beyond its storage");
	err = zip_data(&tf->part, m, &data, why);
	t->at = tf->part.at + data + skip;
	return err;
}

/* Reads the arguments (storage, first, size, stride, ...) of a call of _rebuild_tensor*. */
static int read_plain(struct torch_file *tf, pickle_ref args, bool has_dtype,
		      struct torch_tensor *t, const char **why)
{
	const struct pickle *p = tf->pickle;
	pickle_ref id = pickle_id(p, pickle_item(p, args, 0));
	unsigned nr_strides;
	int64_t first;

	t->dtype = has_dtype ? torch_dtype(p, pickle_item(p, args, 6))
			     : storage_dtype(p, pickle_item(p, id, 1));
	if (!t->dtype)
		return bad(why, "its elements have a type that ckptfs does not know");
	if (!pickle_int(p, pickle_item(p, args, 1), &first) || first < 0 ||
	    !torch_numbers(p, pickle_item(p, args, 2), t->shape, &t->ndim) ||
	    !torch_numbers(p, pickle_item(p, args, 3), t->stride, &nr_strides) ||
	    nr_strides != t->ndim)
		return bad(why, "its shape has a form that ckptfs does not know");
	t->first = (uint64_t)first;
	t->requires_grad |= is_true(p, pickle_item(p, args, 4));
	if (pickle_nr_pairs(p, pickle_item(p, args, has_dtype ? 7 : 6)))
		return bad(why, "its elements are conjugated or negated when they are read");
	return locate(tf, t, id, why);
}

int torch_tensor(struct torch_file *tf, pickle_ref r, struct torch_tensor *out, const char **why)
{
	const struct pickle *p = tf->pickle;
	pickle_ref args, callee;
	char name[300];

	*out = (struct torch_tensor){0};
	callee = unwrap(p, r, &args, &out->requires_grad);
	if (pickle_is_global(p, callee, "torch._utils", "_rebuild_tensor") ||
	    pickle_is_global(p, callee, "torch._utils", "_rebuild_tensor_v2"))
		return read_plain(tf, args, false, out, why);
	if (pickle_is_global(p, callee, "torch._utils", "_rebuild_tensor_v3"))
		return read_plain(tf, args, true, out, why);
	pickle_global(p, callee, name, sizeof(name));
	if (!strncmp(name, "torch._utils._rebuild_", 22) || strstr(name, "DTensor"))
		return bad(why, "it is no plain tensor: its class has a form of its own");
	if (pickle_id(p, r))
		return bad(why, "it is a storage without a shape");
	return 1;
}
