/* SPDX-License-Identifier: MIT */
#include "engine/base/json.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"

/* Replaces refused bytes one by one. This is slow but simple, and such names are short. */
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

static const char digits[] = "0123456789abcdef";

json_t *json_path(const char *path, bool *hex)
{
	json_t *text = json_string(path);
	__cleanup_free char *buf = NULL;
	size_t i, len = strlen(path);

	*hex = !text;
	if (text)
		return text;
	buf = malloc(2 * len + 1);
	for (i = 0; buf && i < len; i++) {
		buf[2 * i] = digits[(unsigned char)path[i] >> 4];
		buf[2 * i + 1] = digits[(unsigned char)path[i] & 15];
	}
	return buf ? json_stringn(buf, 2 * len) : NULL;
}

int json_set_path(json_t *object, const char *key, const char *key_hex, const char *path)
{
	bool hex;
	json_t *text = json_path(path, &hex);

	return json_object_set_new(object, hex ? key_hex : key, text);
}

static int digit(char c)
{
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

bool json_unhex(const json_t *value, char *buf, size_t size)
{
	const char *text = json_string_value(value);
	size_t i, len = json_string_length(value);

	if (!text || len % 2 || len / 2 >= size)
		return false;
	for (i = 0; i < len / 2; i++) {
		int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

		if (high < 0 || low < 0 || !(high | low))
			return false;
		buf[i] = (char)(high << 4 | low);
	}
	buf[i] = '\0';
	return true;
}

bool json_get_path(const json_t *object, const char *key, const char *key_hex, char *buf,
		   size_t size)
{
	const json_t *text = json_object_get(object, key), *hex = json_object_get(object, key_hex);
	size_t len = json_string_length(text);

	if (!text == !hex)
		return false;
	if (hex)
		return json_unhex(hex, buf, size);
	if (!json_is_string(text) || len >= size || strlen(json_string_value(text)) != len)
		return false;
	memcpy(buf, json_string_value(text), len + 1);
	return true;
}
