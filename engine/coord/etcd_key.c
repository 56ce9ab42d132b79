/* SPDX-License-Identifier: MIT */
/* The text of one key of an etcd, as coord_ops.read returns it. Has no lock. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/message.h"
#include "engine/coord/etcd_inside.h"

void etcd_node_key(const struct coord_etcd *ce, char key[ETCD_KEY_MAX], const char *node)
{
	snprintf(key, ETCD_KEY_MAX, "%s" ETCD_NODE_KEYS "%s", ce->prefix, node);
}

ssize_t etcd_text_of(const struct etcd_kv *found, const char *key, char *buf, size_t size)
{
	char text[MESSAGE_MAX];

	if (strcmp(found->key, key) != 0 || found->len > COORD_TEXT_MAX ||
	    memchr(found->value, '\0', found->len)) {
		MESSAGE(text, ETCD_NO_RECORD, key);
		log_warn("%s", text);
		return -EPERM;
	}
	if (found->len > size)
		return -ERANGE;
	memcpy(buf, found->value, found->len);
	return (ssize_t)found->len;
}

ssize_t etcd_text_in(const struct etcd_answer *a, const char *key, char *buf, size_t size)
{
	const struct etcd_kv none = {.key = ""};

	if (!a->nr_kvs)
		return -ENOENT;
	return etcd_text_of(a->nr_kvs == 1 ? &a->kvs[0] : &none, key, buf, size);
}

ssize_t etcd_read_key(struct coord_etcd *ce, const char *key, char *buf, size_t size)
{
	struct etcd_answer a;
	ssize_t n = etcd_ask(ce->etcd, "kv/range", json_pack("{s:o}", "key", etcd_json_key(key)),
			     ETCD_RANGE, ETCD_OK, NOBODY, &a);

	if (!n)
		n = etcd_text_in(&a, key, buf, size);
	etcd_answer_finish(&a);
	return n;
}
