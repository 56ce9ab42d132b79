/* SPDX-License-Identifier: MIT */
/* What ckptfs needs beside jansson: texts that may hold any byte, since file names may. */
#ifndef ENGINE_BASE_JSON_H
#define ENGINE_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>

/* A JSON string of @s; bytes that are not UTF-8 become U+FFFD. Never NULL but without memory. */
json_t *json_text(const char *s);

/* json_object_get as text, or @fallback where it is missing or no string. */
const char *json_get_text(const json_t *object, const char *key, const char *fallback);

/* json_object_get as a number, or @fallback where it is missing or no integer. */
json_int_t json_get_int(const json_t *object, const char *key, json_int_t fallback);

/*
 * A path, byte for byte: a string, or, where it is not UTF-8, one of two hexadecimal digits for
 * each byte (*@hex), which has another key.
 */
json_t *json_path(const char *path, bool *hex);
int json_set_path(json_t *object, const char *key, const char *key_hex, const char *path);

/*
 * Of one of the two keys. False: there is neither or there are both, or it is no path, or too long.
 */
bool json_get_path(const json_t *object, const char *key, const char *key_hex, char *buf,
		   size_t size);

/* The bytes, none of them NUL, that a string of digits says. */
bool json_unhex(const json_t *value, char *buf, size_t size);

#endif
