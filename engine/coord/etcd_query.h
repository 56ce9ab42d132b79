/* SPDX-License-Identifier: MIT */
/*
 * What etcd's JSON gateway is asked, as JSON. All return what the caller owns, and NULL without
 * memory, which each of them takes as a part, too.
 */
#ifndef ENGINE_COORD_ETCD_QUERY_H
#define ENGINE_COORD_ETCD_QUERY_H

#include <jansson.h>

#include "engine/coord/etcd_http.h"

#define ETCD_KEY_MAX 192 /* with the terminator */

json_t *etcd_json_text(const char *data, size_t len); /* base64 */
json_t *etcd_json_key(const char *key);
json_t *etcd_json_number(int64_t number);

/*
 * {"key", "range_end"}: all keys that begin with @prefix, whose last character has one behind it.
 */
json_t *etcd_json_below(const char *prefix);

/* Takes @query, also if it is NULL, which is no memory. As etcd_call. */
int etcd_ask(struct etcd *etcd, const char *path, json_t *query, enum etcd_kind kind, int expected,
	     int wake, struct etcd_answer *a);

#endif
