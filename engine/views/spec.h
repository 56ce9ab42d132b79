/* SPDX-License-Identifier: MIT */
/*
 * What a view of a checkpoint shows: words joined by commas, in any order, as in
 * "safetensors,part=model,strip=model.,max=5G".
 *
 *	safetensors	files as Hugging Face writes them; it may be left out
 *	part=PART	only tensors of that part: model, optimizer, other; or master, the fp32
 *			parameters of ZeRO, by their own names. Default: model
 *	part=all	all
 *	only=GLOB	only names that match one of these, after strip
 *	scope=FILE	only tensors of that file (index.h: scope)
 *	strip=PREFIX	without that at the start of names that have it
 *	max=SIZE	no file is larger, if it has more than one tensor. Default: 5G
 *	dtype=bf16	F64, F32 and F16 are rounded to BF16, to the nearest, ties to even
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

struct view_spec {
	bool all, master;
	enum index_part part;
	const char *only[SPEC_GLOBS]; /* into text */
	unsigned nr_only;
	const char *scope, *strip; /* "" if not given */
	uint64_t max;
	bool bf16;
	char text[SPEC_TEXT_MAX + 1]; /* private */
};

/* 0; or -EINVAL, with @why: what is wrong with @text, and the word that may be meant. */
int view_spec_parse(struct view_spec *spec, const char *text, char why[SPEC_WHY_MAX]);

/* True if a tensor of that part, with that name, is asked for. */
bool view_spec_wants(const struct view_spec *spec, const struct index_tensor *t, const char *name);

/* The name that @t has in the view: a part of its own. */
const char *view_spec_name(const struct view_spec *spec, const struct index_tensor *t);

#endif
