/* SPDX-License-Identifier: MIT */
/*
 * A view: the files of a checkpoint in another form, whose bytes are gathered from its files when
 * they are read. Nothing is copied (ByteCheckpoint, 3.3: resharding when a checkpoint is loaded).
 * The files are those that Hugging Face writes: model.safetensors, or several with an index.
 *
 * A view is made once and does not change. Any threads read it at a time.
 */
#ifndef ENGINE_VIEWS_VIEW_H
#define ENGINE_VIEWS_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/tensors/index.h"
#include "engine/views/spec.h"

/* A tensor that is shown. */
struct view_tensor {
	const struct index_tensor *t;
	const char *name, *dtype; /* in the view */
	uint64_t bytes;		  /* in the view */
	uint64_t at;		  /* in its file */
	struct gather *gather;	  /* where its bytes are; NULL: it has none */
};

struct view_file {
	char name[64];
	uint64_t size;
	char *head; /* the bytes at its start: a header of safetensors, or all of a text */
	size_t head_size;
	struct view_tensor *first; /* its tensors, in the order of their places */
	size_t nr;
};

struct view {
	struct index *ix;
	struct view_spec spec;
	struct view_tensor *tensors;
	size_t nr_tensors;
	struct view_file *files;
	size_t nr_files;
	char *why; /* a text: what is asked for and not shown, and the reason, in lines */
	size_t why_size, nr_not_shown;
	/* the files of the checkpoint that have its bytes */
	const char **paths;
	size_t nr_paths;
};

/*
 * Makes the view of the checkpoint that @ix describes, which it takes over, also if it fails. 0;
 * -EINVAL with @why: the spec is wrong; -EFBIG: a header would be too long; -ENOMEM.
 */
int view_create(struct view **out, struct index *ix, const char *spec, char why[SPEC_WHY_MAX]);
void view_destroy(struct view *v); /* accepts NULL */

/* The number of the file with that name; -1: there is none. */
int view_find(const struct view *v, const char *name);

/* Calls @one with each path that has bytes of that file, until one returns an error. */
int view_each_path(const struct view *v, size_t file, int (*one)(void *arg, size_t path),
		   void *arg);

/*
 * How the bytes of the checkpoint are read: @read gets the number of one of its paths, and reads
 * exactly @len bytes at @off. 0 or -errno.
 */
struct view_source {
	int (*read)(void *arg, size_t path, void *buf, size_t len, uint64_t off);
	void *arg;
};

/* Reads the bytes [off, off + len) of a file; returns how many there are, or -errno. */
ssize_t view_read(const struct view *v, size_t file, void *buf, size_t len, uint64_t off,
		  const struct view_source *src);

#endif
