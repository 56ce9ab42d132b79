/* SPDX-License-Identifier: MIT */
#include "engine/content/filed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 16 /* a power of two */

/* --- labels: 10^4 labels of 10^5 files --- */

struct label {
	struct table_node node;
	char text[];
};

/* NULL: no memory. */
static const char *keep_label(struct filed_files *files, const char *text)
{
	uint64_t hash = hash_text(0, text);
	struct label *label;
	struct list *l;

	if (!files->labels.buckets && table_init(&files->labels))
		return NULL;
	table_for_each (l, &files->labels, hash) {
		label = container_of(l, struct label, node.link);
		if (!strcmp(label->text, text))
			return label->text;
	}
	label = malloc(sizeof(*label) + strlen(text) + 1);
	if (!label)
		return NULL;
	strcpy(label->text, text);
	table_add(&files->labels, &label->node, hash);
	return label->text;
}

static void free_labels(struct table *labels)
{
	size_t i;

	for (i = 0; i < labels->nr_buckets; i++)
		while (!list_empty(&labels->buckets[i])) {
			struct label *label =
				container_of(labels->buckets[i].next, struct label, node.link);

			table_del(labels, &label->node);
			free(label);
		}
	table_finish(labels);
}

/* --- by inode --- */

/* The slot of the last entry of @id, or the free one for it. */
static uint32_t *last_of(const struct filed_files *files, const struct inode_id *id)
{
	size_t mask = 2 * files->room - 1, i = hash_inode(id) >> 32;

	for (;; i++) {
		uint32_t *last = &files->last[i & mask];

		if (!*last || same_inode(&files->list[*last - 1].id, id))
			return last;
	}
}

static bool grow(struct filed_files *files)
{
	size_t room = files->room ? 2 * files->room : FIRST_ROOM, i;
	struct filed *more = realloc(files->list, room * sizeof(*more));
	uint32_t *last = calloc(2 * room, sizeof(*last));

	if (more)
		files->list = more;
	if (!more || !last) {
		free(last);
		return false;
	}
	free(files->last);
	files->last = last;
	files->room = room;
	for (i = 0; i < files->nr; i++)
		*last_of(files, &files->list[i].id) = (uint32_t)i + 1;
	return true;
}

const struct filed *filed_find(const struct filed_files *files, const struct inode_id *id)
{
	uint32_t last = files->nr ? *last_of(files, id) : 0;

	return last ? &files->list[last - 1] : NULL;
}

/* --- all of them --- */

void filed_add(struct filed_files *files, const struct filed *f)
{
	const char *node = f->node ? keep_label(files, f->node) : NULL;
	struct filed *added;

	if ((f->node && !node) || (files->nr == files->room && !grow(files))) {
		tensor_map_put(f->tensors);
		return; /* its file is read again */
	}
	added = &files->list[files->nr];
	*added = *f;
	added->node = node;
	added->order = (uint32_t)files->nr++;
	*last_of(files, &f->id) = (uint32_t)files->nr;
}

int filed_copy(const struct filed_files *files, struct filed **out, size_t *nr)
{
	size_t i;

	*nr = files->nr;
	*out = calloc(*nr + 1, sizeof(**out));
	if (!*out) {
		*nr = 0;
		return -ENOMEM;
	}
	if (*nr)
		memcpy(*out, files->list, *nr * sizeof(**out));
	for (i = 0; i < *nr; i++)
		tensor_map_get((*out)[i].tensors);
	return 0;
}

void filed_free(struct filed *f, size_t nr)
{
	while (nr)
		tensor_map_put(f[--nr].tensors);
	free(f);
}

void filed_finish(struct filed_files *files)
{
	filed_free(files->list, files->nr);
	free(files->last);
	free_labels(&files->labels);
	*files = (struct filed_files){0};
}
