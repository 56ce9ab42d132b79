/* SPDX-License-Identifier: MIT */
/*
 * Requests to etcd's JSON gateway, as JSON. Each function returns an object that the caller owns,
 * or NULL if out of memory. Each accepts such a NULL as a part.
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
 * {"key", "range_end"}: all keys that begin with @prefix. Its last character must have a successor.
 */
json_t *etcd_json_below(const char *prefix);

/* Takes over @query; NULL is no memory. Returns what etcd_call does. */
int etcd_ask(struct etcd *etcd, const char *path, json_t *query, enum etcd_kind kind, int expected,
	     int wake, struct etcd_answer *a);

#endif
