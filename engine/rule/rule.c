/* SPDX-License-Identifier: MIT */
#include "engine/rule/rule.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/cleanup.h"
#include "engine/rule/internal.h"

/* --- the set of rules --- */

static int parse_list(struct rules *rs, const json_t *list, const char *where, struct error *e)
{
	size_t i, nr_before = rs->nr;
	const json_t *json;

	json_array_foreach (list, i, json) {
		struct rule *r = &rs->list[rs->nr];
		const struct rule *same;
		int err = rule_parse(r, json, i + 1, where, e);

		if (err)
			return err;
		same = rules_find(rs, r->name);
		if (same && same >= rs->list + nr_before)
			return FAIL(e, EINVAL, RULE_NAME_TWICE, where, r->name);
		if (!same)
			rs->nr++;
	}
	return 0;
}

int rules_create(struct rules **out, const json_t *own, const char *where, struct error *e)
{
	json_t *presets = json_loads(presets_json, JSON_REJECT_DUPLICATES, NULL);
	size_t nr = json_array_size(own) + json_array_size(presets);
	struct rules *rs;
	int err;

	*out = NULL;
	if (own && (!json_is_array(own) || json_array_size(own) > RULES_MAX)) {
		json_decref(presets);
		return FAIL(e, EINVAL, CONFIG_VALUE, where, "rules", "a list of at most 64 rules");
	}
	rs = calloc(1, sizeof(*rs) + nr * sizeof(rs->list[0]));
	if (rs) {
		rs->presets = presets;
		rs->own = own ? json_deep_copy(own) : json_array();
	}
	if (!rs || !presets || !rs->own) {
		if (!rs)
			json_decref(presets);
		rules_destroy(rs);
		return -(e->err = ENOMEM);
	}
	err = parse_list(rs, rs->own, where, e);
	rs->nr_own = rs->nr;
	if (!err)
		err = parse_list(rs, rs->presets, "the built-in rules", e);
	if (err)
		rules_destroy(rs);
	else
		*out = rs;
	return err;
}

void rules_destroy(struct rules *rs)
{
	if (!rs)
		return;
	json_decref(rs->own);
	json_decref(rs->presets);
	free(rs);
}

void rules_digest(const struct rules *rs, char hex[33])
{
	__cleanup_free char *own = json_dumps(rs->own, JSON_COMPACT | JSON_SORT_KEYS);
	XXH128_hash_t h = XXH3_128bits(presets_json, strlen(presets_json));

	/* The built-in rules are the seed. Without memory no other set has this digest. */
	h = own ? XXH3_128bits_withSeed(own, strlen(own), h.low64 ^ h.high64) : h;
	snprintf(hex, 33, "%016llx%016llx", (unsigned long long)h.high64,
		 (unsigned long long)h.low64);
}

const struct rule *rules_find(const struct rules *rs, const char *name)
{
	size_t i;

	for (i = 0; i < rs->nr; i++)
		if (!strcmp(rs->list[i].name, name))
			return &rs->list[i];
	return NULL;
}

const struct rule *rules_next_bare(const struct rules *rs, const struct rule *before)
{
	const struct rule *r = before ? before + 1 : rs->list;

	for (; r < rs->list + rs->nr_own; r++)
		if (r->kind == RULE_DIR && !rule_has_cover(r))
			return r;
	return NULL;
}

/* --- which paths are units --- */

static bool name_fits(const struct rule *r, const char *path)
{
	return patterns_fit_path(r->match, path) || patterns_fit_path(r->temp, path);
}

static const struct rule *find_named(const struct rules *rs, enum rule_kind kind, const char *path)
{
	size_t i;

	for (i = 0; i < rs->nr; i++)
		if (rs->list[i].kind == kind && name_fits(&rs->list[i], path))
			return &rs->list[i];
	return NULL;
}

const struct rule *rules_suggest(const struct rules *rs, const char *path)
{
	return find_named(rs, RULE_DIR, path);
}

const struct rule *rules_single(const struct rules *rs, const char *path)
{
	return find_named(rs, RULE_FILE, path);
}

const struct rule *rules_claim(const struct rules *rs, const char *path, const char *file,
			       bool (*beside)(void *arg, const char *name), void *arg)
{
	size_t i;

	if (!*path)
		return NULL; /* the mount itself cannot be renamed into place */
	for (i = 0; i < rs->nr; i++) {
		const struct rule *r = &rs->list[i];

		if (r->kind == RULE_DIR && (!r->match || name_fits(r, path)) &&
		    (!r->files || patterns_fit_file(r->files, file)) &&
		    (!r->beside || patterns_fit_beside(r->beside, path, beside, arg)))
			return r;
	}
	return NULL;
}

bool rule_is_data(const struct rule *r, const char *file)
{
	const json_t *patterns = r->data ? r->data : r->files;

	return !patterns || patterns_fit_file(patterns, file);
}

bool rule_is_temp(const struct rule *r, const char *name)
{
	return patterns_fit_path(r->temp, name);
}

/* --- pointers --- */

/* The name in a pointer's text; of an absolute path, the last component. */
static bool take_word(const char *text, size_t len, char word[NAME_MAX + 1])
{
	const char *slash;
	size_t i;

	for (; len && isspace((unsigned char)*text); len--)
		text++;
	while (len && isspace((unsigned char)text[len - 1]))
		len--;
	if (len > 2 && text[0] == '"' && text[len - 1] == '"') {
		text++;
		len -= 2;
	}
	while (len > 1 && text[len - 1] == '/')
		len--;
	slash = len && text[0] == '/' ? memrchr(text, '/', len) : NULL;
	if (slash) {
		len -= (size_t)(slash + 1 - text);
		text = slash + 1;
	} else if (len > 2 && !memcmp(text, "./", 2)) {
		len -= 2;
		text += 2;
	}
	if (!len || len > NAME_MAX || memchr(text, '/', len))
		return false;
	for (i = 0; i < len; i++)
		if (iscntrl((unsigned char)text[i]))
			return false;
	memcpy(word, text, len);
	word[len] = '\0';
	return strcmp(word, ".") && strcmp(word, "..");
}

/* @names has {content}, or {content:0N}, which takes only numbers. */
static bool fill_names(const char *names, const char *word, char out[NAME_MAX + 1])
{
	const char *open = strstr(names, "{content"), *close = strchr(open, '}');
	char number[32];
	int n;

	if (open[8] == ':') {
		if (strlen(word) > 18 || word[strspn(word, "0123456789")])
			return false;
		snprintf(number, sizeof(number), "%0*lld", atoi(open + 9), atoll(word));
		word = number;
	}
	n = snprintf(out, NAME_MAX + 1, "%.*s%s%s", (int)(open - names), names, word, close + 1);
	return n <= NAME_MAX;
}

static bool pointer_names(const json_t *pointer, const char *content, size_t len,
			  char out[NAME_MAX + 1])
{
	const char *after = json_string_value(json_object_get(pointer, "after"));
	const char *names = json_string_value(json_object_get(pointer, "names"));
	char word[NAME_MAX + 1];

	if (after) {
		const char *at = memmem(content, len, after, strlen(after)), *end;

		if (!at)
			return false;
		at += strlen(after);
		len -= (size_t)(at - content);
		content = at;
		end = memchr(content, '\n', len);
		if (end)
			len = (size_t)(end - content);
	}
	return take_word(content, len, word) && fill_names(names, word, out);
}

static bool is_named(const json_t *pointer, const char *name)
{
	return !strcmp(json_string_value(json_object_get(pointer, "name")), name);
}

bool rules_is_pointer(const struct rules *rs, const char *name)
{
	const json_t *pointer;
	size_t i, j;

	for (i = 0; i < rs->nr; i++)
		json_array_foreach (rs->list[i].pointers, j, pointer)
			if (is_named(pointer, name))
				return true;
	return false;
}

bool rules_pointer_names(const struct rules *rs, const char *name, const char *content, size_t len,
			 char out[NAME_MAX + 1])
{
	const json_t *pointer;
	size_t i, j;

	for (i = 0; i < rs->nr; i++)
		json_array_foreach (rs->list[i].pointers, j, pointer)
			if (is_named(pointer, name) && pointer_names(pointer, content, len, out))
				return true;
	return false;
}

bool rules_link_names(const char *target, char out[NAME_MAX + 1])
{
	return take_word(target, strlen(target), out);
}
