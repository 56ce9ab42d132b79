/* SPDX-License-Identifier: MIT */
/* What ckptfs needs beside jansson: texts that may hold any byte, since file names may. */
#ifndef ENGINE_BASE_JSON_H
#define ENGINE_BASE_JSON_H

#include <jansson.h>

/* A JSON string of @s; bytes that are not UTF-8 become U+FFFD. Never NULL but without memory. */
json_t *json_text(const char *s);

/* json_object_get as text, or @fallback where it is missing or no string. */
const char *json_get_text(const json_t *object, const char *key, const char *fallback);

/* json_object_get as a number, or @fallback where it is missing or no integer. */
json_int_t json_get_int(const json_t *object, const char *key, json_int_t fallback);

#endif
