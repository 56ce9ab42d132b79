/* SPDX-License-Identifier: MIT */
/* Questions about a tree that pickle_read has built. */
#include "engine/tensors/pickle_inside.h"

#include <stdio.h>
#include <string.h>

static const struct node *node_of(const struct pickle *p, pickle_ref r)
{
	return &p->nodes[r]; /* node 0 is None */
}

static bool has_kind(const struct pickle *p, pickle_ref r, enum pickle_kind kind)
{
	return r && node_of(p, r)->kind == kind;
}

static const struct call *call_of(const struct pickle *p, pickle_ref r)
{
	return has_kind(p, r, PICKLE_CALL) ? &p->calls[node_of(p, r)->b] : NULL;
}

pickle_ref pickle_root(const struct pickle *p)
{
	return p->root;
}

enum pickle_kind pickle_kind(const struct pickle *p, pickle_ref r)
{
	return node_of(p, r)->kind;
}

bool pickle_int(const struct pickle *p, pickle_ref r, int64_t *value)
{
	if (!has_kind(p, r, PICKLE_INT) && !has_kind(p, r, PICKLE_BOOL))
		return false;
	*value = node_of(p, r)->i;
	return true;
}

const char *pickle_text(const struct pickle *p, pickle_ref r, size_t *len)
{
	const struct node *n = node_of(p, r);

	if (!has_kind(p, r, PICKLE_TEXT) && !has_kind(p, r, PICKLE_BYTES))
		return NULL;
	*len = n->nr;
	return (const char *)p->data + n->a;
}

bool pickle_is_text(const struct pickle *p, pickle_ref r, const char *text)
{
	size_t len;
	const char *t = pickle_text(p, r, &len);

	return t && len == strlen(text) && !memcmp(t, text, len);
}

bool pickle_is_global(const struct pickle *p, pickle_ref r, const char *module, const char *name)
{
	return has_kind(p, r, PICKLE_GLOBAL) &&
	       (!module || pickle_is_text(p, node_of(p, r)->a, module)) &&
	       (!name || pickle_is_text(p, node_of(p, r)->b, name));
}

const char *pickle_global(const struct pickle *p, pickle_ref r, char *buf, size_t size)
{
	const struct node *n = node_of(p, r), *module, *name;

	if (!has_kind(p, r, PICKLE_GLOBAL))
		return "?";
	module = node_of(p, n->a);
	name = node_of(p, n->b);
	snprintf(buf, size, "%.*s.%.*s", (int)(module->nr < 256 ? module->nr : 256),
		 (const char *)p->data + module->a, (int)(name->nr < 256 ? name->nr : 256),
		 (const char *)p->data + name->a);
	return buf;
}

size_t pickle_nr(const struct pickle *p, pickle_ref r)
{
	return has_kind(p, r, PICKLE_LIST) || has_kind(p, r, PICKLE_TUPLE) ||
			       has_kind(p, r, PICKLE_SET)
		       ? node_of(p, r)->nr
		       : 0;
}

pickle_ref pickle_item(const struct pickle *p, pickle_ref r, size_t i)
{
	return i < pickle_nr(p, r) ? p->slots[node_of(p, r)->a + i] : 0;
}

/* The dict that holds the pairs of @r, or 0. */
static pickle_ref pairs_of(const struct pickle *p, pickle_ref r)
{
	const struct call *c = call_of(p, r);

	return has_kind(p, r, PICKLE_DICT) ? r : c ? c->pairs : 0;
}

bool pickle_is_dict(const struct pickle *p, pickle_ref r)
{
	return pairs_of(p, r);
}

size_t pickle_nr_pairs(const struct pickle *p, pickle_ref r)
{
	r = pairs_of(p, r);
	return r ? node_of(p, r)->nr / 2 : 0;
}

pickle_ref pickle_key(const struct pickle *p, pickle_ref r, size_t i)
{
	r = pairs_of(p, r);
	return r && i < node_of(p, r)->nr / 2 ? p->slots[node_of(p, r)->a + 2 * i] : 0;
}

pickle_ref pickle_value(const struct pickle *p, pickle_ref r, size_t i)
{
	r = pairs_of(p, r);
	return r && i < node_of(p, r)->nr / 2 ? p->slots[node_of(p, r)->a + 2 * i + 1] : 0;
}

pickle_ref pickle_get(const struct pickle *p, pickle_ref r, const char *key)
{
	size_t nr = pickle_nr_pairs(p, r), i;

	for (i = nr; i-- > 0 && nr - i <= PICKLE_GET_MAX;)
		if (pickle_is_text(p, pickle_key(p, r, i), key))
			return pickle_value(p, r, i);
	return 0;
}

pickle_ref pickle_callee(const struct pickle *p, pickle_ref r)
{
	return has_kind(p, r, PICKLE_CALL) ? node_of(p, r)->a : 0;
}

pickle_ref pickle_args(const struct pickle *p, pickle_ref r)
{
	const struct call *c = call_of(p, r);

	return c ? c->args : 0;
}

pickle_ref pickle_state(const struct pickle *p, pickle_ref r)
{
	const struct call *c = call_of(p, r);

	return c ? c->state : 0;
}

pickle_ref pickle_appended(const struct pickle *p, pickle_ref r)
{
	const struct call *c = call_of(p, r);

	return c ? c->list : 0;
}

pickle_ref pickle_attribute(const struct pickle *p, pickle_ref r, const char *name)
{
	pickle_ref state = pickle_state(p, r);

	if (!pickle_is_dict(p, state) && pickle_nr(p, state) == 2) {
		pickle_ref found = pickle_get(p, pickle_item(p, state, 1), name); /* __slots__ */

		return found ? found : pickle_get(p, pickle_item(p, state, 0), name);
	}
	return pickle_get(p, state, name);
}

pickle_ref pickle_id(const struct pickle *p, pickle_ref r)
{
	return has_kind(p, r, PICKLE_ID) ? node_of(p, r)->a : 0;
}
