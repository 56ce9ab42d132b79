/* SPDX-License-Identifier: MIT */
/*
 * Leases of nodes as keys of an etcd. Each is attached to a lease of etcd, which removes the key
 * when it runs out. Has no lock: a node renews its own. nodes.h decides when to renew one, and what
 * it means that one has ended.
 */
#include <errno.h>
#include <string.h>
#include <xxhash.h>

#include "engine/coord/etcd_inside.h"

/*
 * The number of etcd's lease is derived from the key, so that a node that lost an answer knows it.
 * Each renewal puts the text anew; etcd removes it when the lease is not renewed.
 */
static int64_t lease_id(const char *key)
{
	uint64_t id = XXH3_64bits(key, strlen(key)) >> 1;

	return id ? (int64_t)id : 1;
}

/* Renews the lease, or makes it if there is none (any more). */
static int keep_lease(struct coord_etcd *ce, int64_t id)
{
	struct etcd_answer a;
	int err = etcd_ask(ce->etcd, "lease/keepalive",
			   json_pack("{s:o}", "ID", etcd_json_number(id)), ETCD_KEEPALIVE, ETCD_OK,
			   NOBODY, &a);
	bool lives = !err && a.ttl > 0;

	etcd_answer_finish(&a);
	if (err || lives)
		return err;
	err = etcd_ask(ce->etcd, "lease/grant",
		       json_pack("{s:o, s:o}", "ID", etcd_json_number(id), "TTL",
				 etcd_json_number(ce->lease_s)),
		       ETCD_RANGE, ETCD_PRECONDITION, NOBODY, &a);
	etcd_answer_finish(&a);
	return err;
}

/* 1: the lease has run out meanwhile. */
static int put_lease(struct coord_etcd *ce, const char *key, int64_t id, const char *text,
		     size_t len)
{
	struct etcd_answer a;
	int err = etcd_ask(ce->etcd, "kv/put",
			   json_pack("{s:o, s:o, s:o}", "key", etcd_json_key(key), "value",
				     etcd_json_text(text, len), "lease", etcd_json_number(id)),
			   ETCD_RANGE, ETCD_NOT_FOUND, NOBODY, &a);

	if (!err)
		err = a.code == ETCD_NOT_FOUND;
	etcd_answer_finish(&a);
	return err;
}

int etcd_lease(void *arg, const char *node, const char *text, size_t len)
{
	struct coord_etcd *ce = arg;
	char key[ETCD_KEY_MAX];
	int err, tries = 2;

	if (!coord_node_ok(node) || len > COORD_LEASE_MAX || memchr(text, '\0', len))
		return -EINVAL;
	etcd_node_key(ce, key, node);
	do {
		err = keep_lease(ce, lease_id(key));
		if (!err)
			err = put_lease(ce, key, lease_id(key), text, len);
	} while (err == 1 && --tries);
	return err == 1 ? -EAGAIN : err;
}

ssize_t etcd_lease_read(void *arg, const char *node, char *buf, size_t size)
{
	struct coord_etcd *ce = arg;
	char key[ETCD_KEY_MAX];

	if (!coord_node_ok(node))
		return -EINVAL;
	etcd_node_key(ce, key, node);
	return etcd_read_key(ce, key, buf, size);
}

int etcd_lease_end(void *arg, const char *node)
{
	struct coord_etcd *ce = arg;
	char key[ETCD_KEY_MAX];
	struct etcd_answer a;
	int err;

	if (!coord_node_ok(node))
		return -EINVAL;
	etcd_node_key(ce, key, node);
	err = etcd_ask(ce->etcd, "lease/revoke",
		       json_pack("{s:o}", "ID", etcd_json_number(lease_id(key))), ETCD_RANGE,
		       ETCD_NOT_FOUND, NOBODY, &a);
	etcd_answer_finish(&a);
	return err;
}
