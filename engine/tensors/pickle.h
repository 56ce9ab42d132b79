/* SPDX-License-Identifier: MIT */
/*
 * A reader of Python pickles (protocols 0 to 5) that runs nothing. A pickle is a program for a
 * stack machine. This machine builds a tree that says what Python would build: a call becomes a
 * node with the name of the callee and its arguments. No name is looked up anywhere.
 *
 * Bounds: the tree has at most PICKLE_BYTES_MIN + PICKLE_BYTES_PER * the length of the pickle
 * bytes. A tree may contain itself: who descends counts the depth. One thread uses a tree; a tree
 * that is complete does not change.
 */
#ifndef ENGINE_TENSORS_PICKLE_H
#define ENGINE_TENSORS_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PICKLE_BYTES_MIN ((size_t)16 << 20)
#define PICKLE_BYTES_PER 6

enum pickle_kind {
	PICKLE_NONE,
	PICKLE_BOOL,
	PICKLE_INT,   /* fits into 64 bits */
	PICKLE_FLOAT, /* its value is not kept */
	PICKLE_TEXT,
	PICKLE_BYTES,
	PICKLE_LIST,
	PICKLE_TUPLE,
	PICKLE_DICT,
	PICKLE_SET,
	PICKLE_GLOBAL, /* a class or function, by its name */
	PICKLE_CALL,   /* the result of a call, or an instance of a class */
	PICKLE_ID,     /* a persistent id: what it means is up to the file's format */
	PICKLE_OTHER   /* a number beyond 64 bits */
};

struct pickle;
typedef uint32_t pickle_ref; /* a node of a tree; 0: none. Each function takes 0. */

/*
 * Reads the pickle at the start of @data, which has @len bytes and outlives the tree. *@used: how
 * many bytes it takes; may be NULL. 0; -EBADMSG with *@why: what is wrong; -ENOMEM.
 */
int pickle_read(const void *data, size_t len, struct pickle **out, size_t *used, const char **why);
void pickle_free(struct pickle *p); /* accepts NULL */

pickle_ref pickle_root(const struct pickle *p);
enum pickle_kind pickle_kind(const struct pickle *p, pickle_ref r);

/* True if @r is an integer, or a bool; sets @value. */
bool pickle_int(const struct pickle *p, pickle_ref r, int64_t *value);

/* The text or bytes, not terminated; NULL: it is neither. */
const char *pickle_text(const struct pickle *p, pickle_ref r, size_t *len);
bool pickle_is_text(const struct pickle *p, pickle_ref r, const char *text);

/* True if @r is the class or function @name of @module; NULL: of any. */
bool pickle_is_global(const struct pickle *p, pickle_ref r, const char *module, const char *name);
/* "module.name" of a global, or "?". Returns @buf. */
const char *pickle_global(const struct pickle *p, pickle_ref r, char *buf, size_t size);

/* The elements of a list, tuple or set. 0: beyond the end, or none of these. */
size_t pickle_nr(const struct pickle *p, pickle_ref r);
pickle_ref pickle_item(const struct pickle *p, pickle_ref r, size_t i);

/*
 * The pairs of a dict, or of an object that is made of pairs, such as an OrderedDict. get: the last
 * one with the text @key, among the last PICKLE_GET_MAX: it is for dicts with few keys, and a file
 * might ask for the same large one again and again.
 */
#define PICKLE_GET_MAX 256
bool pickle_is_dict(const struct pickle *p, pickle_ref r);
size_t pickle_nr_pairs(const struct pickle *p, pickle_ref r);
pickle_ref pickle_key(const struct pickle *p, pickle_ref r, size_t i);
pickle_ref pickle_value(const struct pickle *p, pickle_ref r, size_t i);
pickle_ref pickle_get(const struct pickle *p, pickle_ref r, const char *key);

/* Of a call: what is called, with what, and the state that the result got. Else 0. */
pickle_ref pickle_callee(const struct pickle *p, pickle_ref r);
pickle_ref pickle_args(const struct pickle *p, pickle_ref r);
pickle_ref pickle_state(const struct pickle *p, pickle_ref r);
/* The elements that were appended to the result: a list, or 0. */
pickle_ref pickle_appended(const struct pickle *p, pickle_ref r);
/* The attribute @name of an object: of its state, which is a dict or (None, dict). */
pickle_ref pickle_attribute(const struct pickle *p, pickle_ref r, const char *name);

/* Of a persistent id. */
pickle_ref pickle_id(const struct pickle *p, pickle_ref r);

#endif
