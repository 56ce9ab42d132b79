/* SPDX-License-Identifier: MIT */
/* Parses rules from JSON. It checks everything it accepts, so rule.c can trust every pattern. */
#include "engine/rule/internal.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/spelling.h"

#define TEXT_MAX	255
#define NAME_OF_RULE	64
#define PATTERNS_MAX	32
#define CONJUNCTION_MAX 8

/* A word in an alternative of done. It is no evidence, but a property of the framework (rule.h). */
#define AFTER_ALL "after_all"

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* What a text may contain besides plain characters. */
enum {
	MAY_GLOB = 1,	  /* * ? [ ] \ */
	MAY_SLASH = 2,	  /* several components */
	MAY_ABOVE = 4,	  /* ../ in front */
	MAY_ITSELF = 8,	  /* . alone */
	MAY_NAME = 16,	  /* {name} and {name%SUFFIX} */
	MAY_RANK = 32,	  /* {rank} */
	MAY_CONTENT = 64, /* {content} and {content:0N} */
};

static const char *const rule_keys[] = {"name",	  "kind", "match", "files",    "data",
					"beside", "temp", "done",  "pointers", NULL};
static const char *const pointer_keys[] = {"name", "names", "after", NULL};

static const struct list_key {
	const char *name;
	size_t offset; /* in struct rule */
	unsigned may;
	const char *expected;
} list_keys[] = {
	{"match", offsetof(struct rule, match), MAY_GLOB | MAY_SLASH,
	 "a list of up to 32 patterns of paths below the backing, such as [\"step-*\"]"},
	{"files", offsetof(struct rule, files), MAY_GLOB | MAY_SLASH,
	 "a list of up to 32 patterns of files in the directory, such as [\"rank*.bin\"]"},
	{"data", offsetof(struct rule, data), MAY_GLOB | MAY_SLASH,
	 "a list of up to 32 patterns of files in the directory, such as [\"rank*.bin\"]"},
	{"beside", offsetof(struct rule, beside), MAY_NAME,
	 "a list of up to 32 names beside the directory, such as [\"{name}-unfinished\"]"},
	{"temp", offsetof(struct rule, temp), MAY_GLOB,
	 "a list of up to 32 patterns of names, such as [\"*.partial\"]"},
};

struct parser {
	const char *where;
	char rule[NAME_OF_RULE + 16]; /* the rule's name in messages */
	struct error *e;
};

static int refuse(struct parser *p, const char *key, const char *expected)
{
	return FAIL(p->e, EINVAL, RULE_VALUE, p->where, p->rule, key, expected);
}

static const char *nearest(const char *given, const char *const *known, size_t nr)
{
	const char *best = known[0];
	size_t i, least = SIZE_MAX;

	for (i = 0; i < nr && known[i]; i++) {
		size_t d = spelling_distance(given, known[i]);

		if (d < least) {
			least = d;
			best = known[i];
		}
	}
	return best;
}

static int check_keys(struct parser *p, const json_t *object, const char *const *known)
{
	const char *key;
	json_t *value;
	size_t i;

	json_object_foreach ((json_t *)object, key, value) {
		for (i = 0; known[i] && strcmp(key, known[i]);)
			i++;
		if (!known[i])
			return FAIL(p->e, EINVAL, RULE_KEY, p->where, p->rule, key,
				    nearest(key, known, SIZE_MAX));
	}
	return 0;
}

/* --- texts --- */

/* True for {content:0N}: N digits, of a number that fits into 64 bits. */
static bool has_width(const char *text, size_t len)
{
	size_t digits = len - 11;

	return len > 11 && digits <= 2 && !strncmp(text, "{content:0", 10) &&
	       strspn(text + 10, "0123456789") == digits && atoi(text + 10) >= 1 &&
	       atoi(text + 10) <= 18;
}

/* The length with the braces, or 0 if @text begins with no permitted placeholder. */
static size_t placeholder_length(const char *text, unsigned may)
{
	const char *end = strchr(text, '}');
	size_t len = end ? (size_t)(end + 1 - text) : 0;

	if (!len || memchr(text + 1, '{', len - 1))
		return 0;
	if (may & MAY_RANK && !strncmp(text, "{rank}", len))
		return len;
	if (may & MAY_NAME &&
	    (!strncmp(text, "{name}", len) || (len > 7 && !strncmp(text, "{name%", 6))))
		return len;
	if (may & MAY_CONTENT && (!strncmp(text, "{content}", len) || has_width(text, len)))
		return len;
	return 0;
}

/* True if no component is empty, and . and .. are only where they are permitted. */
static bool components_ok(const char *text, unsigned may)
{
	const char *c = text;

	if (!strcmp(text, "."))
		return may & MAY_ITSELF;
	for (;;) {
		size_t len = strcspn(c, "/");
		bool above = len == 2 && !memcmp(c, "..", 2);

		if (!len || (len == 1 && *c == '.'))
			return false;
		if (above && !(c == text && may & MAY_ABOVE && c[len] == '/'))
			return false;
		c += len;
		if (!*c)
			return true;
		if (!(may & (MAY_SLASH | MAY_ABOVE)))
			return false;
		c++;
	}
}

static bool text_ok(const json_t *json, unsigned may)
{
	const char *text = json_string_value(json), *c;

	if (!text || !*text || strlen(text) > TEXT_MAX || !components_ok(text, may))
		return false;
	for (c = text; *c; c++)
		if (iscntrl((unsigned char)*c) || (!(may & MAY_GLOB) && strchr("*?[]\\", *c)))
			return false;
	for (c = text; *c; c++) {
		size_t len = *c == '{' ? placeholder_length(c, may) : 1;

		if (!len || *c == '}')
			return false;
		c += len - 1;
	}
	return true;
}

static int parse_texts(struct parser *p, struct rule *r, const json_t *json)
{
	size_t i, j;

	for (i = 0; i < ARRAY_SIZE(list_keys); i++) {
		const struct list_key *k = &list_keys[i];
		const json_t *list = json_object_get(json, k->name), *text;

		if (!list)
			continue;
		if (!json_array_size(list) || json_array_size(list) > PATTERNS_MAX)
			return refuse(p, k->name, k->expected);
		json_array_foreach (list, j, text)
			if (!text_ok(text, k->may))
				return refuse(p, k->name, k->expected);
		*(const json_t **)((char *)r + k->offset) = list;
	}
	return 0;
}

/* --- pointers --- */

static int parse_pointers(struct parser *p, struct rule *r, const json_t *list)
{
	static const char expected[] =
		"a list of up to 32 such as {\"name\": \"latest\", \"names\": \"{content}\"}";
	const json_t *pointer;
	size_t i;

	if (!list)
		return 0;
	if (!json_array_size(list) || json_array_size(list) > PATTERNS_MAX)
		return refuse(p, "pointers", expected);
	json_array_foreach (list, i, pointer) {
		const json_t *names = json_object_get(pointer, "names");
		const json_t *after = json_object_get(pointer, "after");
		const char *content;
		int err = json_is_object(pointer) ? check_keys(p, pointer, pointer_keys) : 0;

		if (err)
			return err;
		if (!text_ok(json_object_get(pointer, "name"), 0) || !text_ok(names, MAY_CONTENT))
			return refuse(p, "pointers", expected);
		content = strstr(json_string_value(names), "{content");
		if (!content || strstr(content + 1, "{content"))
			return refuse(p, "pointers", expected);
		if (after && !(json_string_length(after) && json_string_length(after) <= TEXT_MAX))
			return refuse(p, "pointers", expected);
	}
	r->pointers = list;
	return 0;
}

/* --- evidence --- */

/* Sets the bit of a piece of evidence, and adds the piece if it is new. False: too many. */
static bool add_evidence(struct rule *r, enum evidence_kind kind, const char *pattern,
			 uint64_t *bits)
{
	unsigned i;

	for (i = 0; i < r->nr_evidence; i++) {
		const struct evidence *ev = &r->evidence[i];

		if (ev->kind == kind && (!pattern || !strcmp(ev->pattern, pattern)))
			break;
	}
	if (i == RULE_EVIDENCE_MAX)
		return false;
	if (i == r->nr_evidence)
		r->evidence[r->nr_evidence++] = (struct evidence){kind, pattern};
	*bits |= 1ull << i;
	return true;
}

static const char done_expected[] =
	"a list of up to 14 alternatives, each a list of up to 8 pieces of evidence (up to 59 "
	"different ones in all), such as "
	"[[\"all_closed\", {\"close\": \"done.json\"}], [\"exited_0\"]]";

/* The valid piece of an alternative whose spelling is nearest to @given. */
static const char *nearest_piece(const char *given)
{
	const char *best = nearest(given, evidence_words, NR_EVIDENCE_KINDS);

	return spelling_distance(given, AFTER_ALL) < spelling_distance(given, best) ? AFTER_ALL
										    : best;
}

static int parse_evidence(struct parser *p, struct rule *r, const json_t *json, uint64_t *bits)
{
	static const unsigned may[NR_EVIDENCE_KINDS] = {
		[EVIDENCE_CLOSE] = MAY_GLOB | MAY_SLASH | MAY_ABOVE | MAY_NAME,
		[EVIDENCE_RENAME] = MAY_GLOB | MAY_SLASH | MAY_ABOVE | MAY_NAME | MAY_ITSELF,
		[EVIDENCE_UNLINK] = MAY_GLOB | MAY_SLASH | MAY_ABOVE | MAY_NAME,
		[EVIDENCE_EVERY_RANK] = MAY_GLOB | MAY_SLASH | MAY_NAME | MAY_RANK,
		[EVIDENCE_FILE] = MAY_GLOB | MAY_SLASH | MAY_NAME,
	};
	const char *word = json_string_value(json);
	const json_t *pattern = NULL;
	enum evidence_kind kind;

	if (json_object_size(json) == 1) {
		void *only = json_object_iter((json_t *)json);

		word = json_object_iter_key(only);
		pattern = json_object_iter_value(only);
	}
	if (!word)
		return refuse(p, "done", done_expected);
	for (kind = 0; kind < NR_EVIDENCE_KINDS && strcmp(word, evidence_words[kind]);)
		kind++;
	if (kind == NR_EVIDENCE_KINDS && !strcmp(word, AFTER_ALL))
		return refuse(p, "done", "\"" AFTER_ALL "\" without a pattern");
	if (kind == NR_EVIDENCE_KINDS)
		return FAIL(p->e, EINVAL, RULE_EVIDENCE, p->where, p->rule, word,
			    nearest_piece(word));
	if (evidence_has_pattern(kind) && !text_ok(pattern, may[kind])) {
		char expected[64];

		snprintf(expected, sizeof(expected), "{\"%s\": PATTERN} with a path in the unit",
			 word);
		return refuse(p, "done", expected);
	}
	if (!evidence_has_pattern(kind) && pattern) {
		char expected[64];

		snprintf(expected, sizeof(expected), "\"%s\" without a pattern", word);
		return refuse(p, "done", expected);
	}
	if (!add_evidence(r, kind, json_string_value(pattern), bits))
		return refuse(p, "done", done_expected);
	return 0;
}

static bool is_after_all(const json_t *piece)
{
	return json_is_string(piece) && !strcmp(json_string_value(piece), AFTER_ALL);
}

/*
 * Marks the alternative with @bits as after_all. A framework can vouch for its own operations, not
 * for time, the end of processes or a person.
 */
static int add_after_all(struct parser *p, struct rule *r, uint64_t bits)
{
	bool of_framework = false;
	unsigned i;

	if (r->kind == RULE_FILE)
		return refuse(p, "done", "no \"" AFTER_ALL "\" in a rule of kind \"file\"");
	for (i = 0; i < r->nr_evidence; i++) {
		enum evidence_kind kind = r->evidence[i].kind;

		if (!(bits >> i & 1))
			continue;
		of_framework = of_framework || kind <= EVIDENCE_UNLINK;
		if (kind == EVIDENCE_EXITED_0 || kind == EVIDENCE_QUIET || kind == EVIDENCE_ASKED)
			return refuse(p, "done",
				      "\"" AFTER_ALL
				      "\" without exited_0, quiet and asked beside it");
	}
	if (!of_framework)
		return refuse(p, "done", "\"" AFTER_ALL "\" beside close, rename or unlink");
	r->after_all |= 1u << r->nr_alternatives;
	return 0;
}

static int parse_alternative(struct parser *p, struct rule *r, const json_t *alternative)
{
	uint64_t *bits = &r->alternatives[r->nr_alternatives];
	bool after_all = false;
	const json_t *piece;
	size_t i;
	int err;

	if (!json_array_size(alternative) || json_array_size(alternative) > CONJUNCTION_MAX)
		return refuse(p, "done", done_expected);
	json_array_foreach (alternative, i, piece) {
		err = is_after_all(piece) ? 0 : parse_evidence(p, r, piece, bits);
		if (err)
			return err;
		after_all = after_all || is_after_all(piece);
	}
	err = after_all ? add_after_all(p, r, *bits) : 0;
	r->nr_alternatives++;
	return err;
}

/*
 * Adds two alternatives to every rule: asked; and, for writers without a rank or a world of one,
 * all closed, exited 0 and quiet.
 */
static bool add_implicit(struct rule *r)
{
	uint64_t *asked = &r->alternatives[r->nr_alternatives++];
	uint64_t *lone = &r->alternatives[r->nr_alternatives++];

	return add_evidence(r, EVIDENCE_ASKED, NULL, asked) &&
	       add_evidence(r, EVIDENCE_LONE, NULL, lone) &&
	       add_evidence(r, EVIDENCE_ALL_CLOSED, NULL, lone) &&
	       add_evidence(r, EVIDENCE_EXITED_0, NULL, lone) &&
	       add_evidence(r, EVIDENCE_QUIET, NULL, lone);
}

static int parse_done(struct parser *p, struct rule *r, const json_t *list)
{
	const json_t *alternative;
	size_t i;

	if (!json_array_size(list) || json_array_size(list) > RULE_ALTERNATIVES_MAX - 2)
		return refuse(p, "done", done_expected);
	json_array_foreach (list, i, alternative) {
		int err = parse_alternative(p, r, alternative);

		if (err)
			return err;
	}
	return add_implicit(r) ? 0 : refuse(p, "done", done_expected);
}

/* --- the rule --- */

static bool name_ok(const char *name)
{
	return name && *name && strlen(name) <= NAME_OF_RULE && !name[strspn(name, NAME_CHARS)];
}

static int parse_kind(struct parser *p, struct rule *r, const json_t *kind)
{
	const char *text = json_string_value(kind);

	if (kind && (!text || (strcmp(text, "dir") && strcmp(text, "file"))))
		return refuse(p, "kind", "\"dir\" or \"file\"");
	r->kind = text && !strcmp(text, "file") ? RULE_FILE : RULE_DIR;
	return 0;
}

/* Checks that the keys, each valid by itself, together say which paths are meant. */
static int check_match(struct parser *p, const struct rule *r)
{
	if (r->kind == RULE_FILE && (r->files || r->data || r->beside))
		return refuse(p,
			      r->files	? "files"
			      : r->data ? "data"
					: "beside",
			      "none, since it is for rules of kind \"dir\" only");
	if (r->kind == RULE_FILE && !r->match)
		return refuse(p, "match", "patterns, which a rule of kind \"file\" must have");
	if (!r->match && !r->files && !r->beside)
		return refuse(p, "match", "at least one of match, files and beside to be given");
	return 0;
}

int rule_parse(struct rule *r, const json_t *json, size_t number, const char *where,
	       struct error *e)
{
	struct parser p = {.where = where, .e = e};
	int err;

	memset(r, 0, sizeof(*r));
	r->name = json_string_value(json_object_get(json, "name"));
	if (name_ok(r->name))
		snprintf(p.rule, sizeof(p.rule), "rule '%s'", r->name);
	else
		snprintf(p.rule, sizeof(p.rule), "rule %zu of the list", number);
	if (!json_is_object(json))
		return FAIL(e, EINVAL, CONFIG_VALUE, where, "rules",
			    "a list of objects, each with name, done, and match or files");
	if (json_object_get(json, AFTER_ALL))
		return refuse(&p, AFTER_ALL,
			      "it in an alternative of done, such as [{\"close\": \"done.json\"}, "
			      "\"" AFTER_ALL "\"]");
	err = check_keys(&p, json, rule_keys);
	if (!err && !name_ok(r->name))
		err = refuse(&p, "name", "up to 64 letters, digits, '.', '_', '-'");
	if (!err)
		err = parse_kind(&p, r, json_object_get(json, "kind"));
	if (!err)
		err = parse_texts(&p, r, json);
	if (!err)
		err = check_match(&p, r);
	if (!err)
		err = parse_pointers(&p, r, json_object_get(json, "pointers"));
	if (!err)
		err = parse_done(&p, r, json_object_get(json, "done"));
	return err;
}
