/* SPDX-License-Identifier: MIT */
/* Shared by the files of the coordination by an etcd (coord_etcd.c). */
#ifndef ENGINE_COORD_ETCD_INSIDE_H
#define ENGINE_COORD_ETCD_INSIDE_H

#include "engine/coord/coord.h"
#include "engine/coord/etcd_query.h"
#include "engine/coord/etcd_watch.h"

#define PREFIX_MAX 64
#define NOBODY	   (-1) /* no eventfd wakes the call */

/* Behind the prefix: UID/GEN.KIND (coord.h) follows the first, the id of a node the second. */
#define ETCD_TXN_KEYS  "txn/"
#define ETCD_NODE_KEYS "nodes/"

struct coord_etcd {
	struct etcd *etcd;
	struct etcd_watch *watch;
	char prefix[PREFIX_MAX]; /* /ckptfs/UUID/ */
	unsigned lease_s;
};

/* --- etcd_key.c --- */

/* Writes the key of the lease of @node. */
void etcd_node_key(const struct coord_etcd *ce, char key[ETCD_KEY_MAX], const char *node);
/*
 * Copies the text of @key, if @found is a record of that name. -EPERM, -ERANGE: as coord_ops.read.
 */
ssize_t etcd_text_of(const struct etcd_kv *found, const char *key, char *buf, size_t size);
/* The same for an answer, which has one key or none. -ENOENT: none. */
ssize_t etcd_text_in(const struct etcd_answer *a, const char *key, char *buf, size_t size);
/* Copies the text of @key; returns what coord_ops.read does. */
ssize_t etcd_read_key(struct coord_etcd *ce, const char *key, char *buf, size_t size);

/* --- the rest of coord_ops --- */

/* coord_ops.list and .lease_list. etcd_list.c */
int etcd_list(void *arg, int (*found)(void *arg, uid_t owner, const char *gen), void *found_arg);
int etcd_lease_list(void *arg, int (*found)(void *arg, const char *node), void *found_arg);

/* The lease functions of coord_ops. etcd_lease.c */
int etcd_lease(void *arg, const char *node, const char *text, size_t len);
ssize_t etcd_lease_read(void *arg, const char *node, char *buf, size_t size);
int etcd_lease_end(void *arg, const char *node);

#endif
