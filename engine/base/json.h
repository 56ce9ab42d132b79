/* SPDX-License-Identifier: MIT */
/* Additions to jansson: strings that may hold any byte, as file names may. */
#ifndef ENGINE_BASE_JSON_H
#define ENGINE_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>

/* A JSON string of @s; U+FFFD replaces bytes that are not UTF-8. NULL only without memory. */
json_t *json_text(const char *s);

/* json_object_get as text; @fallback if the key is missing or no string. */
const char *json_get_text(const json_t *object, const char *key, const char *fallback);

/* json_object_get as a number; @fallback if the key is missing or no integer. */
json_int_t json_get_int(const json_t *object, const char *key, json_int_t fallback);

/*
 * A path, byte for byte. A path that is UTF-8 becomes a string under @key. Any other becomes two
 * hexadecimal digits per byte (*@hex is true) under @key_hex.
 */
json_t *json_path(const char *path, bool *hex);
int json_set_path(json_t *object, const char *key, const char *key_hex, const char *path);

/*
 * Reads a path from one of the two keys. Returns false if neither or both are there, or if the
 * value is no path or does not fit into @buf.
 */
bool json_get_path(const json_t *object, const char *key, const char *key_hex, char *buf,
		   size_t size);

/* Decodes a string of hexadecimal digits. Returns false for other values and for NUL bytes. */
bool json_unhex(const json_t *value, char *buf, size_t size);

#endif
