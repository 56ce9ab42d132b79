/* SPDX-License-Identifier: MIT */
#include "engine/views/spec.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/spelling.h"
#include "engine/tensors/tree.h"

#define MASTER	   "fp32."
#define FORM_GIVEN (1u << 31)

enum key {
	KEY_PART,
	KEY_ONLY,
	KEY_SCOPE,
	KEY_STRIP,
	KEY_MAX,
	KEY_DTYPE,
	KEY_SHAPE,
	KEY_MAP,
	KEY_LAYOUT,
	KEY_ASSETS,
	KEY_TP,
	KEY_PP,
	KEY_DP,
	KEY_FILES
};

static const char *const keys[] = {"part", "only",   "scope",  "strip", "max", "dtype", "shape",
				   "map",  "layout", "assets", "tp",	"pp",  "dp",	"n"};
static const char *const parts[] = {[PART_MODEL] = "model",
				    [PART_OPTIMIZER] = "optimizer",
				    [PART_OTHER] = "other",
				    "all",
				    "master"};
static const char *const forms[] = {
	[FORM_SAFETENSORS] = "safetensors", [FORM_NPY] = "npy", [FORM_DCP] = "dcp"};
static const char *const dtypes[] = {"bf16"};
static const char *const shapes[] = {"inferred"};

enum { PART_ALL = PART_OTHER + 1, PART_MASTER };

/* The index of @word in @list, or -1: then @why says so, and which word is nearest. */
static int find(const char *word, const char *const *list, size_t nr, const char *what,
		char why[SPEC_WHY_MAX])
{
	size_t best = 0, least = spelling_limit(word) + 1, len;

	for (size_t i = 0; i < nr; i++)
		if (!strcmp(word, list[i]))
			return (int)i;
	len = (size_t)snprintf(why, SPEC_WHY_MAX, "'%.64s' is no %s of a view; there %s", word,
			       what, nr > 1 ? "are" : "is");
	for (size_t i = 0; i < nr; i++)
		len += (size_t)snprintf(why + len, SPEC_WHY_MAX - len, "%s %s", i ? "," : "",
					list[i]);
	for (size_t i = 0; i < nr; i++) {
		size_t d = spelling_distance(word, list[i]);

		if (d >= least)
			continue;
		least = d;
		best = i + 1;
	}
	if (best)
		snprintf(why + len, SPEC_WHY_MAX - len, ". Is '%s' meant?", list[best - 1]);
	return -1;
}

/* "5G", "500MB", "1000": K, M, G and T are powers of 1000, as Hugging Face has them. */
static bool read_size(const char *text, uint64_t *size)
{
	static const char units[] = "KMGT";
	const char *unit;
	char *end;
	uint64_t factor = 1;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	*size = strtoull(text, &end, 10);
	unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
	for (const char *u = units; unit && u <= unit; u++)
		factor *= 1000;
	end += unit != NULL;
	end += toupper((unsigned char)*end) == 'B';
	return !errno && !*end && *size && !__builtin_mul_overflow(*size, factor, size);
}

static int bad(char why[SPEC_WHY_MAX], const char *text, const char *value)
{
	snprintf(why, SPEC_WHY_MAX, text, value);
	return -EINVAL;
}

static int take_part(struct view_spec *s, const char *value, char why[SPEC_WHY_MAX])
{
	int i = find(value, parts, ARRAY_SIZE(parts), "part", why);

	if (i < 0)
		return -EINVAL;
	s->all = i == PART_ALL;
	s->master = i == PART_MASTER;
	s->part = s->master ? PART_OPTIMIZER : s->all ? PART_MODEL : (enum index_part)i;
	return 0;
}

/* The name of a file beside the checkpoint, or in it. */
static int take_name(const char **to, const char *value, char why[SPEC_WHY_MAX])
{
	if (*value == '.' || strchr(value, '/'))
		return bad(why, "'%s' is no name of a file beside the checkpoint", value);
	*to = value;
	return 0;
}

static int take_ranks(unsigned *to, const char *value, char why[SPEC_WHY_MAX])
{
	char *end;
	unsigned long nr = strtoul(value, &end, 10);

	if (!isdigit((unsigned char)*value) || *end || !nr || nr > SPEC_RANKS)
		return bad(why, "'%s' is no number from 1 to 4096", value);
	*to = (unsigned)nr;
	return 0;
}

static int take_value(struct view_spec *s, enum key key, const char *value, char why[SPEC_WHY_MAX])
{
	switch (key) {
	case KEY_PART:
		return take_part(s, value, why);
	case KEY_ONLY:
		if (s->nr_only == SPEC_GLOBS)
			return bad(why, "there are too many only=, at '%s'", value);
		s->only[s->nr_only++] = value;
		return 0;
	case KEY_SCOPE:
		s->scope = value;
		return 0;
	case KEY_STRIP:
		s->strip = value;
		return 0;
	case KEY_MAX:
		return read_size(value, &s->max) ? 0
						 : bad(why, "max=%s is no size such as 5G", value);
	case KEY_DTYPE:
		s->bf16 = true;
		return find(value, dtypes, ARRAY_SIZE(dtypes), "dtype", why) < 0 ? -EINVAL : 0;
	case KEY_SHAPE:
		s->inferred = true;
		return find(value, shapes, ARRAY_SIZE(shapes), "shape", why) < 0 ? -EINVAL : 0;
	case KEY_MAP:
		return take_name(&s->map, value, why);
	case KEY_LAYOUT:
		return take_name(&s->layout, value, why);
	case KEY_ASSETS:
		return take_name(&s->assets, value, why);
	case KEY_TP:
		return take_ranks(&s->tp, value, why);
	case KEY_PP:
		return take_ranks(&s->pp, value, why);
	case KEY_DP:
		return take_ranks(&s->dp, value, why);
	default:
		return take_ranks(&s->nr_files, value, why);
	}
}

/* @given: a bit for each word that came before; the highest: a form. */
static int take(struct view_spec *s, char *word, unsigned *given, char why[SPEC_WHY_MAX])
{
	char *value = strchr(word, '=');
	int i;

	if (!value) {
		i = find(word, forms, ARRAY_SIZE(forms), "form", why);
		if (i >= 0 && *given & FORM_GIVEN)
			return bad(why, "'%s' is a second form", word);
		*given |= FORM_GIVEN;
		s->form = i < 0 ? s->form : (enum spec_form)i;
		return i < 0 ? -EINVAL : 0;
	}
	*value++ = '\0';
	i = find(word, keys, ARRAY_SIZE(keys), "word", why);
	if (i < 0)
		return -EINVAL;
	if (!*value)
		return bad(why, "%s= has no value", word);
	if (i != KEY_ONLY && *given & 1u << i)
		return bad(why, "%s= is given twice", word);
	*given |= 1u << i;
	return take_value(s, (enum key)i, value, why);
}

/* Words that say nothing together. */
static int check(const struct view_spec *s, char why[SPEC_WHY_MAX])
{
	bool ranks = s->tp > 1 || s->pp > 1 || s->dp > 1;

	if (ranks && !*s->layout)
		return bad(why, "%s says how many ranks there are: layout= says who has what",
			   s->tp > 1   ? "tp="
			   : s->pp > 1 ? "pp="
				       : "dp=");
	if (*s->layout && s->form != FORM_SAFETENSORS)
		return bad(why, "layout= is for safetensors, not for %s", forms[s->form]);
	if (s->max && (*s->layout || s->form != FORM_SAFETENSORS))
		return bad(why, "max= is not for %s", *s->layout ? "layout=" : forms[s->form]);
	if (s->nr_files && s->form != FORM_DCP)
		return bad(why, "n= is for dcp, not for %s", forms[s->form]);
	if ((uint64_t)s->tp * s->pp * s->dp > SPEC_RANKS)
		return bad(why, "more than %s ranks are too many", "4096");
	return 0;
}

int view_spec_parse(struct view_spec *s, const char *text, char why[SPEC_WHY_MAX])
{
	size_t len = strlen(text);
	char *word, *next;
	unsigned given = 0;
	int err = 0;

	*s = (struct view_spec){.part = PART_MODEL,
				.scope = "",
				.strip = "",
				.map = "",
				.layout = "",
				.assets = "",
				.tp = 1,
				.pp = 1,
				.dp = 1};
	if (!len || len > SPEC_TEXT_MAX)
		return bad(why, "a view is said by 1 to %s bytes", "255");
	memcpy(s->text, text, len + 1);
	for (word = s->text; word && !err; word = next) {
		next = strchr(word, ',');
		if (next)
			*next++ = '\0';
		err = take(s, word, &given, why);
	}
	return err ? err : check(s, why);
}

bool view_spec_wants(const struct view_spec *s, const struct index_tensor *t)
{
	if (!s->all && t->part != s->part)
		return false;
	if (s->master && strncmp(t->name, MASTER, strlen(MASTER)) != 0)
		return false;
	return !*s->scope || !strcmp(s->scope, t->scope) || !strcmp(s->scope, path_name(t->scope));
}

bool view_spec_wants_name(const struct view_spec *s, const char *name)
{
	bool matches = !s->nr_only;

	for (unsigned i = 0; i < s->nr_only && !matches; i++)
		matches = !fnmatch(s->only[i], name, 0);
	return matches;
}

const char *view_spec_name(const struct view_spec *s, const struct index_tensor *t)
{
	const char *name = t->name;
	size_t len = strlen(s->strip);

	if (s->master && !strncmp(name, MASTER, strlen(MASTER)))
		name += strlen(MASTER);
	return len && !strncmp(name, s->strip, len) && name[len] ? name + len : name;
}
