/* SPDX-License-Identifier: MIT */
/*
 * A view: the files of a checkpoint in another form, whose bytes are gathered from its files when
 * they are read. Nothing is copied (ByteCheckpoint, 3.3: resharding when a checkpoint is loaded).
 * It is made in steps, each a file here:
 *
 *	spec	what is asked for, in words
 *	choose	the tensors of the index that are asked for and can be shown
 *	map	these under other names, split, joined and regrouped
 *	form	the files: safetensors with an index, a file for each rank (layout) or each tensor
 *
 * A view is made once and does not change. Any threads read it at a time.
 */
#ifndef ENGINE_VIEWS_VIEW_H
#define ENGINE_VIEWS_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/tensors/index.h"
#include "engine/views/array.h"
#include "engine/views/source.h"
#include "engine/views/spec.h"

/* A tensor as it is shown. */
struct view_tensor {
	const char *name, *dtype;
	unsigned ndim;
	const uint64_t *shape;
	uint64_t bytes;
	const struct array *array;    /* NULL: it has no bytes */
	const char *problem;	      /* why it cannot be shown; NULL when it is */
	const struct index_tensor *t; /* which it was; NULL: a map has made it of several */
};

/* A stretch of a file: a text or a tensor. */
struct view_segment {
	uint64_t at, bytes;
	const char *text;
	const struct view_tensor *tensor; /* NULL: text */
};

struct view_file {
	const char *name;
	uint64_t size;
	struct view_segment *segments; /* in their order, without gaps */
	size_t nr;
};

#define VIEW_NOTE "note: "

struct view {
	struct index *ix; /* its memory has what is in the view, too */
	struct view_spec spec;
	struct arrays arrays;
	size_t nr_tensors;	 /* that are shown; slices of one are one */
	size_t bytes;		 /* of memory, beside the index, at least */
	struct view_file *files; /* by name */
	size_t nr_files;
	/*
	 * A text: what is asked for and not shown, and the reason, in lines. Those that begin with
	 * VIEW_NOTE are of what is not missed.
	 */
	char *why;
	size_t why_size, nr_not_shown;
	/* the files of the checkpoint that have its bytes */
	const char **paths;
	size_t nr_paths;
};

/*
 * Files that say more about a view: maps, layouts, config.json. @read sets *@text to the text of
 * the file @name, for free(). 0; -ENOENT: there is none; or -errno.
 */
struct view_beside {
	int (*read)(void *arg, const char *name, char **text);
	void *arg;
};

/*
 * Makes the view of the checkpoint that @ix describes, which it takes over, also if it fails. 0;
 * -EINVAL with @why: the spec, or a file that it names, is wrong; -ENOMEM.
 */
int view_create(struct view **out, struct index *ix, const char *spec,
		const struct view_beside *beside, char why[SPEC_WHY_MAX]);
void view_destroy(struct view *v); /* accepts NULL */

/* The number of the file with that name; -1: there is none. */
int view_find(const struct view *v, const char *name);

/* Calls @one with each path that has bytes of that file, until one returns an error. */
int view_each_path(const struct view *v, size_t file, int (*one)(void *arg, size_t path),
		   void *arg);

/* Reads the bytes [off, off + len) of a file; returns how many there are, or -errno. */
ssize_t view_read(const struct view *v, size_t file, void *buf, size_t len, uint64_t off,
		  const struct view_source *src);

#endif
