/* SPDX-License-Identifier: MIT */
#include "engine/config/config.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"

/* What mount(8), fstab and systemd pass along to every filesystem; none concerns ckptfs. */
static const char *const generic_options[] = {
	"defaults",    "auto",	   "noauto",	 "user",       "nouser",	"users",
	"nofail",      "_netdev",  "dev",	 "nodev",      "suid",		"nosuid",
	"async",       "atime",	   "relatime",	 "diratime",   "noatime",	"silent",
	"strictatime", "lazytime", "nodiratime", "norelatime", "nostrictatime", "nolazytime",
	"loud",	       NULL,
};

#define LABEL_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

static int parse_scaled(const char *text, uint64_t bare_unit, uint64_t *number)
{
	uint64_t unit = bare_unit;
	unsigned long long n;
	char *end;

	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno)
		return -EINVAL;
	switch (*end) {
	case 'K':
	case 'k':
		unit = 1ull << 10;
		break;
	case 'M':
	case 'm':
		unit = 1ull << 20;
		break;
	case 'G':
	case 'g':
		unit = 1ull << 30;
		break;
	case 'T':
	case 't':
		unit = 1ull << 40;
		break;
	case '\0':
		end--; /* no suffix to skip */
		break;
	default:
		return -EINVAL;
	}
	if (end[1] || n > INT64_MAX / unit)
		return -EINVAL;
	*number = n * unit;
	return 0;
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
	json_t *utf8 = json_string(text); /* config.json shows it */

	json_decref(utf8);
	if (type != KEY_STRING || len == 0 || len > 255 || !utf8)
		return -EINVAL;
	for (i = 0; i < len; i++)
		if (iscntrl((unsigned char)text[i]))
			return -EINVAL;
	/* The label names files in the run directory and on the backing, and stands in metrics. */
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
		return parse_scaled(text, 1ull << 30, number);
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
		enum key k = key_find(name);
		char buf[128];

		if (err)
			break;
		if (*name == '#')
			continue; /* a comment, for which JSON has no room else */
		if (k == NR_KEYS)
			err = FAIL(e, EINVAL, CONFIG_KEY, path, name, key_nearest(name));
		else if (set_from_json(c, k, value))
			err = FAIL(e, EINVAL, CONFIG_VALUE, path, name,
				   key_expects(&key_table[k], buf, sizeof(buf)));
	}
	json_decref(root);
	return err;
}

/* --- the option list --- */

/* Cuts the next option off *cursor, resolving `\,`; returns NULL at the end. */
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

static bool is_generic(const char *name)
{
	const char *const *g;

	if (!strncmp(name, "x-", 2) || !strncmp(name, "comment", 7))
		return true;
	for (g = generic_options; *g; g++)
		if (!strcmp(*g, name))
			return true;
	return false;
}

static int apply_option(struct config *c, char *option, struct error *e)
{
	char *value = strchr(option, '=');
	char buf[128];
	enum key k;

	if (value)
		*value++ = '\0';
	if (!value && (!strcmp(option, "ro") || !strcmp(option, "rw"))) {
		c->read_only = option[1] == 'o';
		return 0;
	}
	if (!value && (!strcmp(option, "exec") || !strcmp(option, "noexec"))) {
		c->no_exec = option[0] == 'n';
		return 0;
	}
	if (!*option || !strcmp(option, "config") || is_generic(option))
		return 0;
	k = key_find(option);
	if (k == NR_KEYS)
		return FAIL(e, EINVAL, OPTION_UNKNOWN, option, key_nearest(option));
	if (!value)
		value = key_table[k].type == KEY_BOOL ? "true" : "";
	if (set_value(c, k, value, FROM_OPTION))
		return FAIL(e, EINVAL, OPTION_VALUE, option, value,
			    key_expects(&key_table[k], buf, sizeof(buf)));
	return 0;
}

int config_apply_options(struct config *c, const char *options, struct error *e)
{
	__cleanup_free char *first = strdup(options), *second = strdup(options);
	char *cursor, *option;
	int err;

	if (!first || !second)
		return -(e->err = ENOMEM);
	for (cursor = first; (option = next_option(&cursor));) {
		if (!strncmp(option, "config=", 7)) {
			err = config_apply_file(c, option + 7, e);
			if (err)
				return err;
		}
	}
	for (cursor = second; (option = next_option(&cursor));) {
		err = apply_option(c, option, e);
		if (err)
			return err;
	}
	return 0;
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
		json_object_set_new(
			root, key_table[k].name,
			json_pack("{s:o, s:s, s:b}", "value", value ? value : json_null(), "source",
				  sources[v->source], "effective", key_table[k].effective));
	}
	return root;
}
