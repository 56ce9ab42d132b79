/* SPDX-License-Identifier: MIT */
#include "engine/config/config.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"

/* Options that mount(8), fstab and systemd pass to every filesystem. None has an effect here. */
static const char *const generic_options[] = {
	"defaults", "auto",	  "noauto",	"user",		 "nouser",     "users",
	"nofail",   "_netdev",	  "dev",	"nodev",	 "suid",       "nosuid",
	"async",    "relatime",	  "diratime",	"strictatime",	 "silent",     "loud",
	"lazytime", "nodiratime", "norelatime", "nostrictatime", "nolazytime", NULL,
};

/* Kernel options that mount(8) reads from mountinfo and passes to a remount. No user gave them. */
static const char *const kernel_options[] = {
	"default_permissions", "user_id", "group_id", "max_read", "blksize",
	"rootcontext",	       "context", NULL,
};

static const struct {
	const char *name;
	size_t offset; /* of a bool in struct config */
	bool value;
} flags[] = {
	{"ro", offsetof(struct config, read_only), true},
	{"rw", offsetof(struct config, read_only), false},
	{"noexec", offsetof(struct config, no_exec), true},
	{"exec", offsetof(struct config, no_exec), false},
	{"noatime", offsetof(struct config, no_atime), true},
	{"atime", offsetof(struct config, no_atime), false},
	{"nonempty", offsetof(struct config, non_empty), true},
	{"remount", offsetof(struct config, remount), true},
};

#define LABEL_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* A bare number of GiB above this is taken for a mistaken unit. */
#define BARE_GIB_MOST 1024

/*
 * The unit that the suffix @text names: "", or K, M, G, T, each alone or with B or iB. 0: no unit.
 */
static uint64_t parse_unit(const char *text, uint64_t bare_unit)
{
	static const char letters[] = "kmgt";
	const char *letter;

	if (!*text)
		return bare_unit;
	letter = strchr(letters, tolower((unsigned char)*text));
	if (!letter || (text[1] && strcasecmp(text + 1, "b") && strcasecmp(text + 1, "ib")))
		return 0;
	return 1ull << 10 * (letter - letters + 1);
}

static int parse_scaled(const char *text, uint64_t bare_unit, uint64_t *number)
{
	unsigned long long n;
	uint64_t unit;
	char *end;

	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	n = strtoull(text, &end, 10);
	unit = parse_unit(end, bare_unit);
	if (errno || !unit || n > INT64_MAX / unit)
		return -EINVAL;
	*number = n * unit;
	return 0;
}

static int parse_size(const char *text, uint64_t *number)
{
	size_t digits = strspn(text, "0123456789");
	unsigned long percent;

	if (!strcmp(text + digits, "%")) {
		percent = digits && digits <= 3 ? strtoul(text, NULL, 10) : 0;
		*number = CONFIG_PERCENT | percent;
		return percent && percent <= 100 ? 0 : -EINVAL;
	}
	if (digits && !text[digits] && strtoull(text, NULL, 10) > BARE_GIB_MOST)
		return -ERANGE;
	return parse_scaled(text, 1ull << 30, number);
}

static int parse_bool(const char *text, uint64_t *number)
{
	static const char *const words[][2] = {{"false", "true"}, {"no", "yes"}, {"0", "1"}};
	size_t i, b;

	for (i = 0; i < ARRAY_SIZE(words); i++) {
		for (b = 0; b < 2; b++) {
			if (!strcmp(text, words[i][b])) {
				*number = b;
				return 0;
			}
		}
	}
	return -EINVAL;
}

static int parse_plain(const char *text, uint64_t *number)
{
	unsigned long long n;
	char *end;

	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno || *end || n > UINT32_MAX)
		return -EINVAL;
	*number = n;
	return 0;
}

static int parse_enum(const struct key_info *k, const char *text, uint64_t *number)
{
	uint64_t i, seconds;

	for (i = 0; k->choices[i]; i++) {
		size_t len = strlen(k->choices[i]);
		bool takes_value = k->choices[i][len - 1] == ':';

		if (takes_value ? !strncmp(text, k->choices[i], len) &&
					  !parse_plain(text + len, &seconds)
				: !strcmp(text, k->choices[i])) {
			*number = i;
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_string(enum key_type type, const char *name, const char *text)
{
	size_t len = strlen(text), i;
	json_t *utf8 = json_string(text); /* config.json shows the text */

	json_decref(utf8);
	if (type != KEY_STRING || len == 0 || len > 255 || !utf8)
		return -EINVAL;
	for (i = 0; i < len; i++)
		if (iscntrl((unsigned char)text[i]))
			return -EINVAL;
	/* The label is a part of metrics and of file names, also on the backing. */
	if (!strcmp(name, "node") &&
	    (strspn(text, LABEL_CHARS) < len || text[0] == '.' || len > 64))
		return -EINVAL;
	return 0;
}

int config_parse_value(const struct key_info *k, const char *text, uint64_t *number)
{
	*number = 0;
	switch (k->type) {
	case KEY_BOOL:
		return parse_bool(text, number);
	case KEY_UINT:
	case KEY_SECONDS:
		return parse_plain(text, number);
	case KEY_SIZE:
		return parse_size(text, number);
	case KEY_RATE:
		return parse_scaled(text, 1, number);
	case KEY_ENUM:
		return parse_enum(k, text, number);
	case KEY_STRING:
		return parse_string(k->type, k->name, text);
	case KEY_JSON:
		return -EINVAL;
	}
	return -EINVAL;
}

static int set_value(struct config *c, enum key k, const char *text, enum value_source source)
{
	struct config_value *v = &c->values[k];
	uint64_t number;
	char *copy;
	int err = config_parse_value(&key_table[k], text, &number);

	if (err)
		return err;
	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	free(v->text);
	*v = (struct config_value){.text = copy, .number = number, .source = source};
	return 0;
}

/* Describes valid values of @k, for the value @text that was refused with @err. */
static const char *expected(const struct key_info *k, const char *text, int err, char *buf,
			    size_t size)
{
	if (err != -ERANGE)
		return key_expects(k, buf, size);
	snprintf(buf, size,
		 "a size with a unit: a number alone is GiB, and %s GiB was hardly meant; write "
		 "%sM for MiB, or %sG if it was",
		 text, text, text);
	return buf;
}

void config_init(struct config *c)
{
	enum key k;

	memset(c, 0, sizeof(*c));
	for (k = 0; k < NR_KEYS; k++)
		if (key_table[k].value[0] && set_value(c, k, key_table[k].value, FROM_DEFAULT))
			abort(); /* a default in the table that its own type refuses */
}

void config_finish(struct config *c)
{
	enum key k;

	for (k = 0; k < NR_KEYS; k++)
		free(c->values[k].text);
	memset(c, 0, sizeof(*c));
}

void config_set_memory(struct config *c, uint64_t memory)
{
	enum key k;

	for (k = 0; k < NR_KEYS; k++) {
		uint64_t *number = &c->values[k].number;

		if (key_table[k].type == KEY_SIZE && *number & CONFIG_PERCENT)
			*number = memory * (*number & ~CONFIG_PERCENT) / 100;
	}
}

/* "; did you mean 'x'?", or "." if no key is similar. */
static const char *suggestion(const char *name, char *buf, size_t size)
{
	enum key k = key_meant(name);

	if (k == NR_KEYS)
		return ".";
	snprintf(buf, size, "; did you mean '%s'?", key_table[k].name);
	return buf;
}

/* --- the config file --- */

static int set_from_json(struct config *c, enum key k, const json_t *value)
{
	__cleanup_free char *text = NULL;

	if (key_table[k].type == KEY_JSON) {
		if (!json_is_array(value))
			return -EINVAL;
		text = json_dumps(value, JSON_COMPACT);
		if (!text)
			return -ENOMEM;
		free(c->values[k].text);
		c->values[k] = (struct config_value){.text = take_ptr(text), .source = FROM_FILE};
		return 0;
	}
	if (json_is_string(value))
		return set_value(c, k, json_string_value(value), FROM_FILE);
	if (json_is_boolean(value) && key_table[k].type == KEY_BOOL)
		return set_value(c, k, json_is_true(value) ? "true" : "false", FROM_FILE);
	if (json_is_integer(value) && key_table[k].type != KEY_BOOL) {
		text = json_dumps(value, JSON_ENCODE_ANY);
		return text ? set_value(c, k, text, FROM_FILE) : -ENOMEM;
	}
	return -EINVAL;
}

/* Applies one key of the config file @path. */
static int apply_json(struct config *c, const char *path, const char *name, const json_t *value,
		      struct error *e)
{
	enum key k = key_find(name);
	__cleanup_free char *text = NULL;
	char buf[512];
	int err;

	if (k == NR_KEYS && key_removed(name))
		return FAIL(e, EINVAL, KEY_REMOVED, path, "key", name, key_removed(name));
	if (k == NR_KEYS)
		return FAIL(e, EINVAL, CONFIG_KEY, path, name, suggestion(name, buf, sizeof(buf)));
	err = set_from_json(c, k, value);
	if (!err)
		return 0;
	text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
	return FAIL(e, EINVAL, CONFIG_VALUE, path, name,
		    expected(&key_table[k],
			     json_is_string(value) ? json_string_value(value)
			     : text		   ? text
						   : "",
			     err, buf, sizeof(buf)));
}

int config_apply_file(struct config *c, const char *path, struct error *e)
{
	json_error_t problem;
	json_t *root = NULL, *value;
	const char *name;
	int err = 0;
	__cleanup_file FILE *f = fopen(path, "re");

	if (!f)
		return FAIL(e, errno, CONFIG_UNREADABLE, path, strerror(errno));
	root = json_loadf(f, JSON_REJECT_DUPLICATES, &problem);
	if (!root)
		return FAIL(e, EINVAL, CONFIG_SYNTAX, path, problem.line, problem.text);
	if (!json_is_object(root))
		err = FAIL(e, EINVAL, CONFIG_SYNTAX, path, 1, "not a JSON object");
	json_object_foreach (root, name, value) {
		if (err)
			break;
		if (*name != '#') /* a comment, for which JSON has no other place */
			err = apply_json(c, path, name, value, e);
	}
	json_decref(root);
	return err;
}

/* --- the option list --- */

/* Cuts the next option off *cursor and resolves `\,`. Returns NULL at the end. */
static char *next_option(char **cursor)
{
	char *in = *cursor, *out = in, *start = in;

	if (!in || !*in)
		return NULL;
	while (*in && *in != ',') {
		if (*in == '\\' && (in[1] == ',' || in[1] == '\\'))
			in++;
		*out++ = *in++;
	}
	*cursor = *in ? in + 1 : in;
	*out = '\0';
	return start;
}

static bool is_one_of(const char *const *names, const char *name)
{
	for (; *names; names++)
		if (!strcmp(*names, name))
			return true;
	return false;
}

static bool is_generic(const struct config *c, const char *name)
{
	return !strncmp(name, "x-", 2) || !strncmp(name, "comment", 7) ||
	       is_one_of(generic_options, name) || (c->remount && is_one_of(kernel_options, name));
}

static bool set_flag(struct config *c, const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		if (strcmp(flags[i].name, name))
			continue;
		*(bool *)((char *)c + flags[i].offset) = flags[i].value;
		return true;
	}
	return false;
}

/* @before: the option before this one in the list, or NULL. */
static int unknown_option(const char *option, const char *before, struct error *e)
{
	char buf[256];

	if (key_removed(option))
		return FAIL(e, EINVAL, KEY_REMOVED, "-o", "option", option, key_removed(option));
	if (before && strstr(option, "://"))
		return FAIL(e, EINVAL, OPTION_COMMA, option, before, option);
	return FAIL(e, EINVAL, OPTION_UNKNOWN, option, suggestion(option, buf, sizeof(buf)));
}

static int apply_option(struct config *c, char *option, const char *before, struct error *e)
{
	char *value = strchr(option, '=');
	char buf[512];
	enum key k;
	int err;

	if (!value && set_flag(c, option))
		return 0;
	if (value)
		*value++ = '\0';
	if (!*option || !strcmp(option, "config") || is_generic(c, option))
		return 0;
	k = key_find(option);
	if (k == NR_KEYS)
		return unknown_option(option, before, e);
	if (!value)
		value = key_table[k].type == KEY_BOOL ? "true" : "";
	err = set_value(c, k, value, FROM_OPTION);
	if (err)
		return FAIL(e, EINVAL, OPTION_VALUE, option, value,
			    expected(&key_table[k], value, err, buf, sizeof(buf)));
	return 0;
}

int config_apply_options(struct config *c, const char *options, struct error *e)
{
	__cleanup_free char *first = strdup(options), *second = strdup(options);
	char *cursor, *option, *last = NULL;
	int err = 0;

	if (!first || !second)
		return -(e->err = ENOMEM);
	for (cursor = first; !err && (option = next_option(&cursor));) {
		if (!strncmp(option, "config=", 7))
			err = config_apply_file(c, option + 7, e);
		else if (!strcmp(option, "remount"))
			c->remount = true;
	}
	for (cursor = second; !err && (option = next_option(&cursor));) {
		__cleanup_free char *whole = strdup(option);

		err = apply_option(c, option, last, e);
		free(last);
		last = take_ptr(whole);
	}
	free(last);
	return err;
}

json_t *config_to_json(const struct config *c)
{
	static const char *const sources[] = {"default", "config file", "option"};
	json_t *root = json_object();
	enum key k;

	for (k = 0; k < NR_KEYS; k++) {
		const struct config_value *v = &c->values[k];
		json_t *value = NULL;

		if (key_table[k].type == KEY_JSON)
			value = v->text ? json_loads(v->text, 0, NULL) : NULL;
		else if (key_table[k].type == KEY_BOOL && v->text)
			value = json_boolean(v->number);
		else if (v->text)
			value = json_string(v->text);
		json_object_set_new(root, key_table[k].name,
				    json_pack("{s:o, s:s, s:b}", "value",
					      value ? value : json_null(), "source",
					      sources[v->source], "effective", true));
	}
	return root;
}
