/* SPDX-License-Identifier: MIT */
#include "engine/config/keys.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/spelling.h"

static const char *const fsync_modes[] = /* enum fsync_mode */
	{"barrier", "durable", "barrier-all", NULL};
static const char *const on_full_modes[] = /* enum on_full */
	{"fail", "wait:", "delete_last", NULL};
static const char *const check_modes[] = {"off", "sample", "all", NULL};
static const char *const log_levels[] = {"error", "warn", "info", "debug", NULL};

/* clang-format off */
const struct key_info key_table[NR_KEYS] = {
	[OPT_HOST_CACHE_SIZE]  = {"host_cache_size", KEY_SIZE, "", NULL,
		"host memory for data on its way to the backing; default min(16 GiB, 1/8 of the memory)",
		"cache size cache_size cachesize memory mem ram"},
	[OPT_PIN_HOST_CACHE]   = {"pin_host_cache", KEY_BOOL, "true", NULL,
		"lock the cache in memory where the host allows it", NULL},
	[OPT_PARSER_THREADS]   = {"parser_threads", KEY_UINT, "", NULL,
		"threads that digest what is flushed; default one for each CPU, at most 4", "threads"},
	[OPT_FLUSH_DEPTH]      = {"flush_depth", KEY_UINT, "", NULL,
		"writes to the backing in flight at a time", NULL},
	[OPT_FLUSH_BW]         = {"flush_bw", KEY_RATE, "", NULL,
		"upper bound of the flush bandwidth, bytes a second; default none",
		"bw bandwidth bwlimit rate limit"},
	[OPT_CHUNK_SIZE]       = {"chunk_size", KEY_SIZE, "", NULL,
		"unit of caching and flushing", "chunk block_size blocksize"},
	[OPT_FSYNC]            = {"fsync", KEY_ENUM, "barrier", fsync_modes,
		"what an fsync of a checkpoint's file by a rank waits for", "sync durable"},
	[OPT_COMMIT_TIMEOUT_S] = {"commit_timeout_s", KEY_SECONDS, "600", NULL,
		"how long an incomplete checkpoint may make no progress before it fails", NULL},
	[OPT_ORDER_TIMEOUT_S]  = {"order_timeout_s", KEY_SECONDS, "3600", NULL,
		"how long pointers and deletions wait for a commit", NULL},
	[OPT_STALL_TIMEOUT_S]  = {"stall_timeout_s", KEY_SECONDS, "600", NULL,
		"how long a write waits for room in the cache", NULL},
	[OPT_QUIET_S]          = {"quiet_s", KEY_SECONDS, "60", NULL,
		"how long without a write counts as the end of a save, where a rule says so", NULL},
	[OPT_OPEN_MAX_S]       = {"open_max_s", KEY_SECONDS, "600", NULL,
		"a file held open and unwritten this long is not treated as a checkpoint", NULL},
	[OPT_IO_RETRY_S]       = {"io_retry_s", KEY_SECONDS, "60", NULL,
		"how long transient backing errors are retried", "retry retries timeo"},
	[OPT_LEASE_S]          = {"lease_s", KEY_SECONDS, "30", NULL,
		"how long a node may show no life before others take it for dead", NULL},
	[OPT_COW_MAX]          = {"cow_max", KEY_SIZE, "1G", NULL,
		"largest committed file that an in-place change copies", NULL},
	[OPT_ON_FULL]          = {"on_full", KEY_ENUM, "fail", on_full_modes,
		"what happens to a save that the backing has no room for", NULL},
	[OPT_CACHE_PER_UID]    = {"cache_per_uid", KEY_SIZE, "", NULL,
		"cache memory that one user may hold", NULL},
	[OPT_NODE]             = {"node", KEY_STRING, "", NULL,
		"label of this mount; default the host name, then -2, -3 where that is taken",
		"name label hostname node_name"},
	[OPT_COORD]            = {"coord", KEY_STRING, "dir", NULL,
		"how nodes agree: dir (records on the backing), etcd:URL or etcd:/FILE.json",
		"etcd coordinator coordination"},
	[OPT_RULES]            = {"rules", KEY_JSON, "", NULL,
		"own rules that say which paths are checkpoints", NULL},
	[OPT_CAPTURE_BW]       = {"capture_bw", KEY_RATE, "", NULL,
		"upper bound of the capture bandwidth, bytes a second; default none", NULL},
	[OPT_CAPTURE_CHECK]    = {"capture_check", KEY_ENUM, "sample", check_modes,
		"how captured tensors are checked for changes", NULL},
	[OPT_LOG_LEVEL]        = {"log_level", KEY_ENUM, "info", log_levels,
		"how much the daemon logs", "debug verbose loglevel log"},
	[OPT_ALLOW_OTHER]      = {"allow_other", KEY_BOOL, "", NULL,
		"other users may use the mount; default true for a root daemon that can act as them",
		"allow_root"},
};
/* clang-format on */

enum key key_find(const char *name)
{
	enum key k;

	for (k = 0; k < NR_KEYS; k++)
		if (!strcmp(key_table[k].name, name))
			return k;
	return NR_KEYS;
}

/* The least distance of @name from a word of @words. */
static size_t least_distance(const char *name, const char *words)
{
	size_t least = SIZE_MAX;

	while (words && *words) {
		char word[64];
		size_t len = strcspn(words, " "), d;

		snprintf(word, sizeof(word), "%.*s", (int)len, words);
		d = strcmp(name, word) ? spelling_distance(name, word) : 0;
		if (d < least)
			least = d;
		words += len + strspn(words + len, " ");
	}
	return least;
}

enum key key_meant(const char *name)
{
	size_t least = spelling_limit(name) + 1;
	enum key k, meant = NR_KEYS;

	for (k = 0; k < NR_KEYS; k++) {
		size_t by_name = least_distance(name, key_table[k].name);
		size_t by_word = least_distance(name, key_table[k].also);
		size_t d = by_word < by_name ? by_word : by_name;

		if (d < least) {
			least = d;
			meant = k;
		}
	}
	return meant;
}

const char *key_removed(const char *name)
{
	static const char *const removed[][2] = {
		{"cpus", "CPUAffinity= in the systemd unit, or taskset(1), binds the daemon to "
			 "CPUs"},
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(removed); i++)
		if (!strcmp(removed[i][0], name))
			return removed[i][1];
	return NULL;
}

static const char *expects_choice(const struct key_info *k, char *buf, size_t size)
{
	const char *const *c;
	size_t len = 0;

	for (c = k->choices; *c && len < size; c++)
		len += (size_t)snprintf(buf + len, size - len, "%s%s%s", c == k->choices ? "" : "|",
					*c, (*c)[strlen(*c) - 1] == ':' ? "SECONDS" : "");
	return buf;
}

const char *key_expects(const struct key_info *k, char *buf, size_t size)
{
	switch (k->type) {
	case KEY_BOOL:
		return "true or false";
	case KEY_UINT:
		return "a whole number";
	case KEY_SECONDS:
		return "whole seconds";
	case KEY_SIZE:
		return "a size, such as 512M, 16G (16GB and 16GiB are the same) or 25% of the "
		       "memory";
	case KEY_RATE:
		return "bytes a second, such as 400M or 2G";
	case KEY_STRING:
		return "a text of 1 to 255 characters, no control characters; a node label: up to "
		       "64 letters, digits, '.', '_', '-'";
	case KEY_JSON:
		return "a JSON list, in the config file";
	case KEY_ENUM:
		return expects_choice(k, buf, size);
	}
	return "";
}
