/* SPDX-License-Identifier: MIT */
/* What the steps that make a view share. */
#ifndef ENGINE_VIEWS_MAKING_H
#define ENGINE_VIEWS_MAKING_H

#include <jansson.h>
#include <stdio.h>

#include "engine/views/view.h"

struct making {
	struct view *v;
	const struct view_beside *beside;
	char *error;		     /* SPEC_WHY_MAX: why there is no such view */
	FILE *why;		     /* the text of view.why */
	size_t why_size;	     /* at most, so far */
	struct view_tensor *tensors; /* malloced; by name */
	size_t nr;
};

/* Memory that lasts as long as the view. NULL: none is left. */
void *making_alloc(struct making *m, size_t size);
const char *making_text(struct making *m, const char *text);

/* Notes that what is asked for, @name, is not shown. */
void making_tell(struct making *m, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Notes what a reader may want to know of what is not missed. */
void making_note(struct making *m, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* There is no such view: returns -EINVAL. */
int making_refuse(struct making *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Reads the object @name.json, beside the checkpoint or built in; @what it is goes into errors. 0
 * and a reference; or an error as of view_create. If @optional, 0 and NULL: there is none.
 */
int making_json(struct making *m, const char *name, const char *what, bool optional, json_t **out);

/* Sorts the tensors by name. Several with one name become one, whose problem is that: @way out. */
int making_sort(struct making *m, const char *way);

/* Why no tensor can have that name in a file; NULL: one can. */
const char *making_name_problem(const char *name);

/* The steps. 0, or an error as of view_create. */
int view_choose(struct making *m);
int view_map(struct making *m);
int view_form_safetensors(struct making *m);
int view_form_npy(struct making *m);
int view_form_dcp(struct making *m);
int view_form_ranks(struct making *m);

/* Makes a file of safetensors, of these tensors, whose order it changes. */
int safetensors_file(struct making *m, struct view_file *f, const char *name,
		     const struct view_tensor **list, size_t nr);

/* Gives @f segments for a text and @nr tensors, and puts the text there. 0 or -ENOMEM. */
int file_begin(struct making *m, struct view_file *f, const char *name, const char *text,
	       size_t len, size_t nr);
void file_add(struct view_file *f, const struct view_tensor *t);

#endif
