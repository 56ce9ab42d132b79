/* SPDX-License-Identifier: MIT */
/*
 * The options of one mount: defaults, then the config file, then `-o`; the last value counts. Built
 * before any thread starts, constant afterwards. Each module checks the meaning of its own values.
 */
#ifndef ENGINE_CONFIG_CONFIG_H
#define ENGINE_CONFIG_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/message.h"
#include "engine/config/keys.h"

enum value_source { FROM_DEFAULT, FROM_FILE, FROM_OPTION };

struct config_value {
	char *text; /* as given; NULL: not given, and without a default */
	/* bool, uint, seconds, size, rate; index of an enum's choice; see CONFIG_PERCENT */
	uint64_t number;
	enum value_source source;
};

struct config {
	struct config_value values[NR_KEYS];
	/* Generic mount options that have an effect here. */
	bool read_only; /* ro */
	bool no_exec;
	bool no_atime;
	bool non_empty; /* the mount point may have entries */
	bool remount;	/* changes an existing mount */
};

/* This bit marks a size in percent of the memory; the other bits are the percentage. */
#define CONFIG_PERCENT (1ull << 63)

/* Converts sizes in percent to bytes of @memory. */
void config_set_memory(struct config *c, uint64_t memory);

/* Sets every key to its default. config_finish undoes it. */
void config_init(struct config *c);
void config_finish(struct config *c);

/*
 * Applies a list "key=value,key,..." as of mount(8). A `config=FILE` in it is read first, wherever
 * it stands. Generic options of mount(8) and fstab (defaults, rw, ro, _netdev, nofail, x-*, ...)
 * are accepted. A comma inside a value is written `\,`. Returns 0 or -errno with @e filled.
 */
int config_apply_options(struct config *c, const char *options, struct error *e);

/* Applies the JSON object in @path. Returns 0 or -errno with @e filled. */
int config_apply_file(struct config *c, const char *path, struct error *e);

/* The effective options as JSON: {name: {value, source, effective}}; owned by the caller. */
json_t *config_to_json(const struct config *c);

static inline bool config_given(const struct config *c, enum key k)
{
	return c->values[k].source != FROM_DEFAULT;
}

static inline uint64_t config_number(const struct config *c, enum key k)
{
	return c->values[k].number;
}

/* The value as text, "" if there is none. The config owns the text. */
static inline const char *config_text(const struct config *c, enum key k)
{
	return c->values[k].text ? c->values[k].text : "";
}

/*
 * Parses @text as a value for @k. Returns 0, -EINVAL, or -ERANGE: a bare number that was hardly
 * meant as GiB. Sets *number for numeric types. Public for the unit tests and the fuzzer.
 */
int config_parse_value(const struct key_info *k, const char *text, uint64_t *number);

#endif
