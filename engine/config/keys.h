/* SPDX-License-Identifier: MIT */
/*
 * The one table of mount options. `-o`, the config file, `ckptfs mount --help`, config.json and the
 * check of the man page read it; no other module knows an option's name.
 */
#ifndef ENGINE_CONFIG_KEYS_H
#define ENGINE_CONFIG_KEYS_H

#include <stdbool.h>
#include <stddef.h>

enum key_type {
	KEY_BOOL,    /* true|false, yes|no, 1|0; the bare name means true */
	KEY_UINT,    /* whole number */
	KEY_SECONDS, /* whole seconds */
	KEY_SIZE, /* bytes; a bare number is GiB; K M G T, also with B or iB; or N% of the memory */
	KEY_RATE, /* bytes a second; a bare number is bytes; K M G T, also with B or iB */
	KEY_ENUM, /* one of the words in `choices` */
	KEY_STRING,
	KEY_JSON, /* a list, only in the config file; its own module checks it */
};

/* In the order of the table in keys.c. */
enum key {
	OPT_HOST_CACHE_SIZE,
	OPT_PIN_HOST_CACHE,
	OPT_PARSER_THREADS,
	OPT_FLUSH_DEPTH,
	OPT_FLUSH_BW,
	OPT_CHUNK_SIZE,
	OPT_FSYNC,
	OPT_COMMIT_TIMEOUT_S,
	OPT_ORDER_TIMEOUT_S,
	OPT_STALL_TIMEOUT_S,
	OPT_QUIET_S,
	OPT_OPEN_MAX_S,
	OPT_IO_RETRY_S,
	OPT_LEASE_S,
	OPT_COW_MAX,
	OPT_ON_FULL,
	OPT_CACHE_PER_UID,
	OPT_NODE,
	OPT_COORD,
	OPT_RULES,
	OPT_CAPTURE_BW,
	OPT_CAPTURE_CHECK,
	OPT_LOG_LEVEL,
	OPT_ALLOW_OTHER,
	NR_KEYS
};

/* The choices of OPT_ON_FULL: the fate of a save for which the backing has no room. */
enum on_full { FULL_FAILS, FULL_WAITS, FULL_DELETES_LAST };

/* The choices of OPT_FSYNC: what an fsync of a file of a unit waits for. */
enum fsync_mode { FSYNC_BARRIER, FSYNC_DURABLE, FSYNC_BARRIER_ALL };

struct key_info {
	const char *name;
	enum key_type type;
	const char *value;	    /* the default, as a user writes it; "": decided at mount */
	const char *const *choices; /* KEY_ENUM: NULL-terminated; "word:" takes a value behind it */
	const char *help;	    /* one line */
	const char *also; /* NULL, or words that people use for it, separated by one blank */
};

extern const struct key_info key_table[NR_KEYS];

/* The key called @name, or NR_KEYS. */
enum key key_find(const char *name);

/* The key that the unknown @name probably means, or NR_KEYS if none is similar. */
enum key key_meant(const char *name);

/* What to use instead of the option @name of an earlier version; NULL: there was none. */
const char *key_removed(const char *name);

/* A description of valid values for error messages and help, such as "a whole number". */
const char *key_expects(const struct key_info *k, char *buf, size_t size);

#endif
