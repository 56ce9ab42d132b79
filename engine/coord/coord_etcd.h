/* SPDX-License-Identifier: MIT */
/*
 * Records as keys of an etcd (coord_etcd.c names them), which any number of nodes and filesystems
 * may share. A client that may write to its /ckptfs/ is believed in the name of every user: so only
 * the daemons may have access.
 */
#ifndef ENGINE_COORD_COORD_ETCD_H
#define ENGINE_COORD_COORD_ETCD_H

#include "engine/base/message.h"
#include "engine/coord/coord.h"

struct coord_etcd;

/* @arg is a struct coord_etcd. -EHOSTDOWN: etcd cannot be used, which the log says once. */
extern const struct coord_ops coord_etcd_ops;

/*
 * Connects to the etcd of @spec (etcd_config.h) for the filesystem @uuid, and tests whether this
 * node may read and write there. Leases run out after @lease_s. 0, or -errno with @e filled; undo
 * with coord_etcd_close.
 */
int coord_etcd_open(struct coord_etcd **ce, const char *spec, const char *uuid, unsigned lease_s,
		    struct error *e);
void coord_etcd_close(struct coord_etcd *ce); /* NULL is fine */

/* For how long etcd could not be used, and why (@size bytes); 0: the last call succeeded. */
uint64_t coord_etcd_outage_ns(struct coord_etcd *ce, char *why, size_t size);

/* The id of the cluster, never 0. */
uint64_t coord_etcd_cluster(struct coord_etcd *ce);

#endif
