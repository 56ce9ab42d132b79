/* SPDX-License-Identifier: MIT */
/*
 * An array of elements in row-major order, whose bytes can be read in any stretches. It is one of
 *
 *	stored	a tensor of the checkpoint (gather.h)
 *	joined	parts of other arrays, put together: a slice, a row taken out, axes in another order
 *	rounded	another array in BF16 (round.h)
 *
 * So what a view shows is arrays over arrays, and nothing is copied until it is read. All arrays of
 * a view are made once, and freed together. Any threads read them.
 */
#ifndef ENGINE_VIEWS_ARRAY_H
#define ENGINE_VIEWS_ARRAY_H

#include "engine/tensors/index.h"
#include "engine/views/gather.h"

struct array;

/* All arrays of a view; all zeros: none. */
struct arrays {
	struct array *first;
	size_t nr;
};

void arrays_destroy(struct arrays *all);

/* The functions that make an array return 0 or -ENOMEM. */

/* Of @t, which is complete and has bytes. The other arguments are those of gather_create. */
int array_stored(struct array **out, struct arrays *all, const struct index_tensor *t,
		 size_t (*path_nr)(const void *arg, const char *path), const void *arg);

/* The numbers of @from, whose elements are of @dtype (round_can), in BF16. */
int array_rounded(struct array **out, struct arrays *all, const struct array *from,
		  const char *dtype);

/* An array of @bytes, which @nr calls of array_add_part fill. */
int array_joined(struct array **out, struct arrays *all, uint64_t bytes, size_t nr);

/* An axis of a part: so many steps; a step is so many bytes in the source, and in the array. */
struct array_axis {
	uint64_t length, from, to;
};

/*
 * Takes a part of @from into @a. Its first element is at the byte @at_from there, and at @at_to in
 * @a. @axes are in the order of @a: what is further out is first.
 */
int array_add_part(struct array *a, const struct array *from, uint64_t at_from, uint64_t at_to,
		   unsigned element, const struct array_axis *axes, unsigned nr);

/* Reads the bytes [off, off + len) of the array. 0 or -errno. */
int array_read(const struct array *a, void *buf, size_t len, uint64_t off,
	       const struct view_source *src);

/*
 * As view_each_path; a path may come more than once, but arrays that were @seen are left out. That
 * has a place for each array of the view.
 */
int array_each_path(const struct array *a, bool *seen, int (*one)(void *arg, size_t path),
		    void *arg);

#endif
