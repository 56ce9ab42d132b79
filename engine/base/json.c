/* SPDX-License-Identifier: MIT */
#include "engine/base/json.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"

/* Replaces the bytes that jansson refuses one by one: simple, and such names are short. */
json_t *json_text(const char *s)
{
	static const char replacement[] = "\xEF\xBF\xBD";
	size_t len = strlen(s), out = 0, i = 0;
	json_t *text = json_string(s);
	__cleanup_free char *buf = NULL;

	if (text)
		return text;
	buf = malloc(len * 3 + 1);
	if (!buf)
		return NULL;
	while (i < len) {
		size_t n = 1;
		json_t *piece = NULL;

		for (n = 1; n <= 4 && i + n <= len; n++) {
			piece = json_stringn(s + i, n);
			if (piece)
				break;
		}
		if (piece) {
			memcpy(buf + out, s + i, n);
			out += n;
			i += n;
			json_decref(piece);
		} else {
			memcpy(buf + out, replacement, 3);
			out += 3;
			i++;
		}
	}
	return json_stringn(buf, out);
}

const char *json_get_text(const json_t *object, const char *key, const char *fallback)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : fallback;
}

json_int_t json_get_int(const json_t *object, const char *key, json_int_t fallback)
{
	const json_t *value = json_object_get(object, key);

	return json_is_integer(value) ? json_integer_value(value) : fallback;
}
