/* SPDX-License-Identifier: MIT */
/* One link of a chain as a record: {"nr", "first", "count", "host", "at", "err", "why", "node"}. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/epoch/epochs.h"

#define ERRNO_MAX 4095

int epoch_link_write(const struct epoch_link *link, const char *node, char **text)
{
	json_t *o = json_pack("{s:I, s:I, s:s, s:s, s:I, s:i, s:o, s:s}", "nr",
			      (json_int_t)link->nr, "first", (json_int_t)link->first, "count",
			      link->count, "host", link->host, "at", (json_int_t)link->at, "err",
			      link->err, "why", json_text(link->why), "node", node);

	*text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	json_decref(o);
	return *text ? 0 : -ENOMEM;
}

/* False: it is longer than @size allows, or missing. */
static bool get_text(const json_t *o, const char *key, char *buf, size_t size)
{
	const char *text = json_get_text(o, key, NULL);

	return text && (size_t)snprintf(buf, size, "%s", text) < size;
}

static bool is_count(const char *text)
{
	return !text[strspn(text, "0123456789.")];
}

int epoch_link_read(const char *text, size_t len, uint64_t nr, struct epoch_link *link)
{
	json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	json_int_t first = json_get_int(o, "first", 0), at = json_get_int(o, "at", -1);
	json_int_t err = json_get_int(o, "err", -1);
	bool follows = (uint64_t)first < nr;
	bool ok;

	memset(link, 0, sizeof(*link));
	ok = get_text(o, "count", link->count, sizeof(link->count)) && is_count(link->count) &&
	     get_text(o, "host", link->host, sizeof(link->host)) &&
	     get_text(o, "why", link->why, sizeof(link->why)) &&
	     (uint64_t)json_get_int(o, "nr", 0) == nr && first >= 1 && (uint64_t)first <= nr &&
	     at >= 0 && err <= ERRNO_MAX && (follows ? err > 0 : !err);
	link->nr = nr;
	link->first = (uint64_t)first;
	link->at = (uint64_t)at;
	link->err = (int)err;
	json_decref(o);
	return ok ? 0 : -EPERM;
}
