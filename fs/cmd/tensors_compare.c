/* SPDX-License-Identifier: MIT */
/*
 * What of a checkpoint is there more than once: tensors that several ranks have saved with the same
 * bytes, and those that have not changed since another checkpoint (AdaCheck: redundancy over ranks
 * and over iterations).
 */
#include "fs/cmd/tensors.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "fs/cmd/cmd.h"
#include "fs/show.h"

/* All tensors of one name: the copies that several files have of it. */
struct copies {
	const char *name;
	struct index_tensor **list; /* by digest */
	size_t nr, distinct, unchanged;
	uint64_t bytes, needed; /* of all; of each content once */
};

static int by_name(const void *a, const void *b)
{
	const struct index_tensor *x = *(struct index_tensor *const *)a;
	const struct index_tensor *y = *(struct index_tensor *const *)b;
	int order = strverscmp(x->name, y->name);

	if (order)
		return order;
	if (!x->digest || !y->digest)
		return !x->digest - !y->digest;
	return strcmp(x->digest, y->digest);
}

/* True if @old has the tensor with the same bytes. */
static bool is_unchanged(const struct index *old, const struct index_tensor *t)
{
	const struct index_tensor *was = old ? index_find(old, t->scope, t->name) : NULL;

	return was && was->digest && t->digest && !strcmp(was->digest, t->digest) &&
	       !strcmp(was->dtype, t->dtype) && was->ndim == t->ndim &&
	       !memcmp(was->shape, t->shape, t->ndim * sizeof(*t->shape));
}

/* Sums up the tensors from list[0] on that have its name. */
static struct copies gather(struct index_tensor **list, size_t nr, const struct index *old)
{
	struct copies c = {.name = list[0]->name, .list = list};

	for (; c.nr < nr && !strcmp(list[c.nr]->name, c.name); c.nr++) {
		const struct index_tensor *t = list[c.nr], *before = c.nr ? list[c.nr - 1] : NULL;
		bool is_copy =
			before && before->digest && t->digest && !strcmp(before->digest, t->digest);

		c.bytes += index_bytes(t);
		c.needed += is_copy ? 0 : index_bytes(t);
		c.distinct += !is_copy;
		c.unchanged += is_unchanged(old, t);
	}
	return c;
}

static const char *over_ranks(const struct copies *c)
{
	return c->nr == 1 || c->distinct == c->nr ? "none" : c->distinct == 1 ? "full" : "part";
}

static const char *since(const struct copies *c)
{
	return !c->unchanged ? "changed" : c->unchanged == c->nr ? "unchanged" : "part";
}

static json_t *to_json(const struct copies *c, bool compared)
{
	json_t *o = json_pack("{s:o, s:I, s:s, s:I, s:I}", "name", json_text(c->name), "copies",
			      (json_int_t)c->nr, "redundant", over_ranks(c), "bytes",
			      (json_int_t)c->bytes, "needed", (json_int_t)c->needed);

	if (compared)
		json_object_set_new(o, "since", json_string(since(c)));
	return o;
}

static void print(const struct copies *c, bool compared)
{
	char size[SHOW_MAX], spare[SHOW_MAX], name[PATH_MAX];

	show_size(size, (double)c->bytes);
	show_size(spare, (double)(c->bytes - c->needed));
	printf("%10s %10s %6zu  %-4s  %-9s  %s\n", size, spare, c->nr, over_ranks(c),
	       compared ? since(c) : "-", show_name(name, sizeof(name), c->name));
}

struct sums {
	uint64_t bytes, spare, unchanged;
};

static void add_up(struct sums *s, const struct copies *c, const struct index *old)
{
	s->bytes += c->bytes;
	s->spare += c->bytes - c->needed;
	for (size_t i = 0; i < c->nr; i++)
		s->unchanged += is_unchanged(old, c->list[i]) ? index_bytes(c->list[i]) : 0;
}

static void print_sums(const struct sums *s, const struct index *old)
{
	char all[SHOW_MAX], spare[SHOW_MAX], same[SHOW_MAX];

	show_size(all, (double)s->bytes);
	show_size(spare, (double)s->spare);
	show_size(same, (double)s->unchanged);
	printf("%s in all; %s are copies of what another rank has saved", all, spare);
	if (old)
		printf("; %s have not changed since the other checkpoint", same);
	putchar('\n');
}

int tensors_compare(const struct index *ix, const struct index *old, bool json)
{
	__cleanup_free struct index_tensor **list = calloc(ix->nr + 1, sizeof(*list));
	json_t *all = json ? json_array() : NULL, *o;
	struct sums sums = {0};
	size_t nr = 0;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < ix->nr; i++)
		if (!ix->tensors[i]->alias) /* tied tensors have one copy of their bytes */
			list[nr++] = ix->tensors[i];
	if (nr)
		qsort(list, nr, sizeof(*list), by_name);
	if (!json && nr)
		printf("%10s %10s %6s  %-4s  %-9s  %s\n", "SIZE", "SPARE", "COPIES", "RANKS",
		       "SINCE", "NAME");
	for (size_t i = 0; i < nr;) {
		struct copies c = gather(list + i, nr - i, old);

		add_up(&sums, &c, old);
		if (json)
			json_array_append_new(all, to_json(&c, old));
		else
			print(&c, old);
		i += c.nr;
	}
	if (!json) {
		print_sums(&sums, old);
		return 0;
	}
	o = json_pack("{s:I, s:I, s:I, s:o}", "bytes", (json_int_t)sums.bytes, "redundant_bytes",
		      (json_int_t)sums.spare, "unchanged_bytes", (json_int_t)sums.unchanged,
		      "tensors", all);
	put_json(o);
	json_decref(o);
	return 0;
}
