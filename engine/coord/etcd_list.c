/* SPDX-License-Identifier: MIT */
/*
 * Listings of the keys of an etcd, a page at a time: of generations that have records, and of nodes
 * that have leases. Has no lock. A listing is no snapshot: a key that is made or removed meanwhile
 * may be in it or not.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/coord/etcd_inside.h"

#define PAGE 500 /* keys */

struct listing {
	struct coord_etcd *ce;
	char prefix[ETCD_KEY_MAX];   /* of all keys listed */
	char last[ETCD_KEY_MAX];     /* the key seen last */
	char next[2 * ETCD_KEY_MAX]; /* the next page begins behind this */
	/* Called with each key, without the prefix. May change @next. Anything but 0 stops. */
	int (*seen)(struct listing *l, const char *name);
	int (*gen_found)(void *arg, uid_t owner, const char *gen);
	int (*node_found)(void *arg, const char *node);
	void *found_arg;
	char told[ETCD_KEY_MAX]; /* the last that @gen_found was told of */
	int stop;		 /* what a callback returned */
};

static json_t *json_page(const struct listing *l)
{
	json_t *o = etcd_json_below(l->prefix);

	/* With its NUL: the first key behind @next. */
	json_object_set_new(o, "key", etcd_json_text(l->next, strlen(l->next) + 1));
	json_object_set_new(o, "limit", etcd_json_number(PAGE));
	json_object_set_new(o, "keys_only", json_true());
	return o;
}

/* True if @key is below the prefix, and behind the one before. Else a listing might have no end. */
static bool is_next(const struct listing *l, const char *key)
{
	return strlen(key) < ETCD_KEY_MAX && !strncmp(key, l->prefix, strlen(l->prefix)) &&
	       strcmp(key, l->last) > 0;
}

static int take_page(struct listing *l, const struct etcd_answer *a)
{
	size_t i;

	for (i = 0; i < a->nr_kvs && !l->stop; i++) {
		const char *key = a->kvs[i].key;

		if (!is_next(l, key))
			return -EBADMSG;
		memcpy(l->last, key, strlen(key) + 1);
		memcpy(l->next, key, strlen(key) + 1);
		l->stop = l->seen(l, key + strlen(l->prefix));
	}
	return a->more && !a->nr_kvs ? -EBADMSG : 0;
}

/* @below: the part of the keys behind the prefix of the filesystem. */
static int list_keys(struct listing *l, const char *below)
{
	struct etcd_answer a;
	bool more = true;
	int err = 0;

	snprintf(l->prefix, sizeof(l->prefix), "%s%s", l->ce->prefix, below);
	memcpy(l->last, l->prefix, sizeof(l->last));
	memcpy(l->next, l->prefix, sizeof(l->prefix));
	while (!err && more && !l->stop) {
		err = etcd_ask(l->ce->etcd, "kv/range", json_page(l), ETCD_RANGE, ETCD_OK, NOBODY,
			       &a);
		if (!err)
			err = take_page(l, &a);
		more = a.more;
		etcd_answer_finish(&a);
	}
	return l->stop ? l->stop : err;
}

/*
 * @name: UID/GEN.KIND. A generation may have tens of thousands of records: once it is known, the
 * rest of them is skipped.
 */
static int seen_record(struct listing *l, const char *name)
{
	char of_gen[ETCD_KEY_MAX], gen[COORD_GEN_MAX];
	uid_t owner;
	size_t len = coord_parse_uid(name, &owner);

	if (!len || name[len] != '/' || !coord_parse_record(name + len + 1, gen))
		return 0;
	snprintf(of_gen, sizeof(of_gen), "%.*s/%s", (int)len, name, gen);
	snprintf(l->next, sizeof(l->next), "%s%s%c", l->prefix, of_gen, '.' + 1);
	if (!strcmp(of_gen, l->told))
		return 0;
	memcpy(l->told, of_gen, sizeof(l->told));
	return l->gen_found(l->found_arg, owner, gen);
}

int etcd_list(void *arg, int (*found)(void *arg, uid_t owner, const char *gen), void *found_arg)
{
	struct listing l = {
		.ce = arg, .seen = seen_record, .gen_found = found, .found_arg = found_arg};

	return list_keys(&l, ETCD_TXN_KEYS);
}

static int seen_node(struct listing *l, const char *name)
{
	return coord_node_ok(name) ? l->node_found(l->found_arg, name) : 0;
}

int etcd_lease_list(void *arg, int (*found)(void *arg, const char *node), void *found_arg)
{
	struct listing l = {
		.ce = arg, .seen = seen_node, .node_found = found, .found_arg = found_arg};

	return list_keys(&l, ETCD_NODE_KEYS);
}
