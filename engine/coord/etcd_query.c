/* SPDX-License-Identifier: MIT */
#include "engine/coord/etcd_query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"

json_t *etcd_json_text(const char *data, size_t len)
{
	__cleanup_free char *text = etcd_base64(data, len);

	return text ? json_string(text) : NULL;
}

json_t *etcd_json_key(const char *key)
{
	return etcd_json_text(key, strlen(key));
}

json_t *etcd_json_number(int64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%lld", (long long)number);
	return json_string(text);
}

json_t *etcd_json_below(const char *prefix)
{
	char end[ETCD_KEY_MAX];

	snprintf(end, sizeof(end), "%s", prefix);
	end[strlen(end) - 1]++;
	return json_pack("{s:o, s:o}", "key", etcd_json_key(prefix), "range_end",
			 etcd_json_key(end));
}

int etcd_ask(struct etcd *etcd, const char *path, json_t *query, enum etcd_kind kind, int expected,
	     int wake, struct etcd_answer *a)
{
	__cleanup_free char *body = query ? json_dumps(query, JSON_COMPACT) : NULL;
	const struct etcd_request r = {
		.path = path, .body = body, .kind = kind, .expected = expected};

	json_decref(query);
	memset(a, 0, sizeof(*a));
	return body ? etcd_call(etcd, &r, wake, a) : -ENOMEM;
}
