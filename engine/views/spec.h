/* SPDX-License-Identifier: MIT */
/*
 * What a view of a checkpoint shows: words joined by commas, in any order, as in
 * "safetensors,part=model,strip=model.,max=5G".
 *
 *	safetensors	files as Hugging Face writes them; it may be left out
 *	npy		a file of NumPy for each tensor
 *	dcp		as torch.distributed.checkpoint writes them
 *	n=N		into so many files; default 1
 *	part=PART	only tensors of that part: model, optimizer, other; or master, the fp32
 *			parameters of ZeRO, by their own names. Default: model
 *	part=all	all
 *	only=GLOB	only names that match one of these, after strip
 *	scope=FILE	only tensors of that file (index.h: scope)
 *	shape=inferred	also tensors whose shape no file says: what their parts span
 *	strip=PREFIX	without that at the start of names that have it
 *	map=NAME	tensors of other names and shapes (map.h), after strip and before only
 *	max=SIZE	no file is larger, if it has more than one tensor. Default: 5G
 *	dtype=bf16	F64, F32 and F16 are rounded to BF16, to the nearest, ties to even
 *	layout=NAME	a file for each rank, with its slices (layout.h)
 *	tp=N pp=N dp=N	so many ranks share a layer, so many stages, so many replicas. Default: 1
 *	assets=NAME	config.json and the like are those of that directory
 */
#ifndef ENGINE_VIEWS_SPEC_H
#define ENGINE_VIEWS_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/tensors/index.h"

#define SPEC_TEXT_MAX 255 /* as long as the name of a directory */
#define SPEC_GLOBS    16
#define SPEC_WHY_MAX  512
#define SPEC_RANKS    4096

enum spec_form { FORM_SAFETENSORS, FORM_NPY, FORM_DCP };

struct view_spec {
	enum spec_form form;
	bool all, master;
	enum index_part part;
	const char *only[SPEC_GLOBS]; /* into text, as all texts below */
	unsigned nr_only;
	const char *scope, *strip;	   /* "" if not given */
	const char *map, *layout, *assets; /* "" if not given */
	uint64_t max;			   /* 0: as by default */
	unsigned tp, pp, dp;
	unsigned nr_files; /* 0: as by default */
	bool bf16, inferred;
	char text[SPEC_TEXT_MAX + 1]; /* private */
};

/* 0; or -EINVAL, with @why: what is wrong with @text, and the word that may be meant. */
int view_spec_parse(struct view_spec *spec, const char *text, char why[SPEC_WHY_MAX]);

/* True if a tensor of that part and scope is asked for, whatever its name. */
bool view_spec_wants(const struct view_spec *spec, const struct index_tensor *t);

/* True if a tensor that has that name in the view is. */
bool view_spec_wants_name(const struct view_spec *spec, const char *name);

/* The name that @t has in the view, or before its map: a part of its own. */
const char *view_spec_name(const struct view_spec *spec, const struct index_tensor *t);

#endif
