/* SPDX-License-Identifier: MIT */
/*
 * Records as keys of an etcd (coord_etcd.c says which), which any number of nodes and filesystems
 * may share. Whoever may write to its /ckptfs/ is believed in the name of every user: so it is for
 * the daemons alone.
 */
#ifndef ENGINE_COORD_COORD_ETCD_H
#define ENGINE_COORD_COORD_ETCD_H

#include "engine/base/message.h"
#include "engine/coord/coord.h"

struct coord_etcd;

/*
 * @arg is a struct coord_etcd. What fails because etcd cannot be used is -EHOSTDOWN, and told in
 * the log once.
 */
extern const struct coord_ops coord_etcd_ops;

/*
 * Reaches the etcd that @spec (etcd_config.h) says for the filesystem @uuid, and finds out whether
 * it may read and write there. Leases run out after @lease_s. 0, or -errno with @e filled; undo
 * with coord_etcd_close.
 */
int coord_etcd_open(struct coord_etcd **ce, const char *spec, const char *uuid, unsigned lease_s,
		    struct error *e);
void coord_etcd_close(struct coord_etcd *ce); /* NULL is none */

/* For how long etcd could not be used, and why (@size bytes); 0: it could, last time. */
uint64_t coord_etcd_outage_ns(struct coord_etcd *ce, char *why, size_t size);

/* Which cluster it is, never 0. */
uint64_t coord_etcd_cluster(struct coord_etcd *ce);

#endif
